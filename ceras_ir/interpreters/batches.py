"""
Run a float network on several samples at a time.

Small operations take less time than their calls in Python. An operation is therefore evaluated for
all samples of a batch in one call, if a rule exists, and otherwise for each sample. In both cases
the results have the bits of separate runs: elements and sums in index order do not depend on other
samples, and matrices are multiplied for each sample separately.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import shape_of
from ceras_ir.dialects.graph.normalization import NormalizeOp
from ceras_ir.interpreters.elementwise import cast, chosen, combined, compare, elementwise
from ceras_ir.interpreters.float_functions import softmax
from ceras_ir.interpreters.graph import float_layer
from ceras_ir.interpreters.layers import recurrence, recurrence_operands
from ceras_ir.interpreters.network import check_inputs
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.interpreters.windows import Window, reduce_rows
from ceras_ir.network.function import main_function, result_values

Array = NDArray[Any]
Sample = Mapping[str, Array]

MAX_SAMPLES, MAX_BATCH_BYTES = 32, 1 << 22
"""The maximum number of samples of a batch, and the bytes of the largest value for all samples."""


class Batch(NamedTuple):
    """The elements of a value, [samples, *shape], or [*shape] if all samples share them."""

    array: Array
    is_shared: bool = False

    def of(self, sample: int) -> Array:
        """Return the elements for a sample."""
        return self.array if self.is_shared else self.array[sample]


class Batches:
    """
    Runs the operations of `main` on several samples. The operations and constants must not change
    between runs; discardable attributes may.
    """

    def __init__(self, module: ModuleOp) -> None:
        self.main = main_function(module)
        self._interpreter = interpreter_of(module)
        self._constants: dict[Operation, Batch] = {}
        self._ops = [op for op in self.main.body.block.ops if op.results]
        last = {value: op for op in self.main.body.block.ops for value in op.operands}
        self._released: dict[Operation, list[SSAValue]] = {}
        for value, op in last.items():
            self._released.setdefault(op, []).append(value)

    @cached_property
    def size(self) -> int:
        """The number of samples of a batch with which values fit a cache."""
        values = (*self.main.body.block.args, *(v for op in self._ops for v in op.results))
        largest = max((prod(shape_of(value)) for value in values), default=1)
        return min(max(MAX_BATCH_BYTES // max(4 * largest, 1), 1), MAX_SAMPLES)

    def divided(self, samples: Iterable[Sample]) -> Iterator[list[Sample]]:
        """Yield consecutive samples as lists of at most `size` samples."""
        rest, size = iter(samples), self.size
        while batch := list(islice(rest, size)):
            yield batch

    def run(
        self,
        samples: Sequence[Sample],
        known: dict[SSAValue, Batch] | None = None,
        given: Mapping[SSAValue, Array] = MappingProxyType({}),
    ) -> Generator[tuple[Operation | None, SSAValue, Batch]]:
        """
        Run the network, and yield each value: the arguments, then the results of operations. `None`
        is the operation of an argument. The elements are in `known` until the last use of the value
        has been yielded. The caller may replace them there.

        `given` has the elements [samples, *shape] of values that are known. They are not computed,
        and operations on which only they depend are omitted.
        """
        values: dict[SSAValue, Batch] = {} if known is None else known
        arrays = zip(*(check_inputs(self.main, sample) for sample in samples), strict=True)
        for argument, each in zip(self.main.body.block.args, arrays, strict=True):
            values[argument] = Batch(np.stack(each))
            yield None, argument, values[argument]
        for op in self._needed(given) if given else self._ops:
            if op.results[0] in given:
                found = [Batch(given[result]) for result in op.results]
            else:
                found = self.apply(op, [values[v] for v in op.operands], len(samples))
            for value, result in zip(op.results, found, strict=True):
                values[value] = result
                yield op, value, result
            for value in self._released.get(op, ()):
                values.pop(value, None)

    def _needed(self, given: Collection[SSAValue]) -> list[Operation]:
        """Return the operations on which the outputs depend if the values `given` are known."""
        wanted, found = set(result_values(self.main)), list[Operation]()
        for op in reversed(self._ops):
            if not wanted.isdisjoint(op.results):
                found.append(op)
                if op.results[0] not in given:
                    wanted.update(op.operands)
        return found[::-1]

    def apply(self, op: Operation, operands: Sequence[Batch], samples: int) -> Sequence[Batch]:
        """Evaluate an operation for a number of `samples`."""
        if op in self._constants:
            return (self._constants[op],)
        if all(operand.is_shared for operand in operands):
            results = self._interpreter.run_op(op, tuple(operand.array for operand in operands))
            found = [Batch(result, is_shared=True) for result in results]
            if isinstance(op, graph.ConstantOp):
                self._constants[op] = found[0]
            return found
        rule = RULES.get(type(op))
        if rule is not None and (result := rule(op, operands, samples)) is not None:
            return (Batch(result),)
        if isinstance(op, OF_IMAGES) or (isinstance(op, NormalizeOp) and _rest_is_shared(operands)):
            x, *rest = operands
            merged = x.array if isinstance(op, NormalizeOp) else _merged(x.array)
            (array,) = self._interpreter.run_op(op, (merged, *(v.array for v in rest)))
            return (Batch(array.reshape(samples, *shape_of(op.results[0]))),)
        each = [
            self._interpreter.run_op(op, tuple(operand.of(n) for operand in operands))
            for n in range(samples)
        ]
        return [Batch(np.stack(arrays)) for arrays in zip(*each, strict=True)]


OF_IMAGES = graph.Pool2dOp, graph.ResizeOp
"""Operations on images of any number, which are the first axis."""


def _merged(array: Array) -> Array:
    return array.reshape(array.shape[0] * array.shape[1], *array.shape[2:])


def _rest_is_shared(operands: Sequence[Batch]) -> bool:
    return all(operand.is_shared for operand in operands[1:])


def _aligned(op: Operation, operands: Sequence[Batch]) -> list[Array]:
    """Return the operands of an elementwise operation, with axes of one element after samples."""
    rank = len(shape_of(op.results[0])) + 1
    return [
        array
        if is_shared
        else array.reshape(len(array), *(1,) * (rank - array.ndim), *array.shape[1:])
        for array, is_shared in operands
    ]


def _repeated(operand: Batch, samples: int) -> Array:
    array = operand.array
    return np.broadcast_to(array, (samples, *array.shape)) if operand.is_shared else array


def _unary(op: graph.UnaryOp, operands: Sequence[Batch], samples: int) -> Array:
    return elementwise(op, operands[0].array)


def _binary(op: graph.BinaryOp, operands: Sequence[Batch], samples: int) -> Array | None:
    return None if op.requant is not None else combined(op, *_aligned(op, operands))


def _compare(op: graph.CompareOp, operands: Sequence[Batch], samples: int) -> Array:
    return compare(op.function, *_aligned(op, operands))


def _select(op: graph.SelectOp, operands: Sequence[Batch], samples: int) -> Array:
    return chosen(*_aligned(op, operands))


def _cast(op: graph.CastOp, operands: Sequence[Batch], samples: int) -> Array:
    return cast(operands[0].array, graph.numpy_dtype(graph.element_of(op.result)))


def _layer(op: graph.LinearOperation, operands: Sequence[Batch], samples: int) -> Array | None:
    x, weights, *rest = operands
    bias = rest.pop(0) if op.bias is not None else None
    residual = rest.pop(0) if op.residual is not None else None
    if op.is_quantized or x.is_shared or (residual is not None and residual.is_shared):
        return None
    if op.ordered is not None or op.encoded_weights is not None:
        return None
    if bias is not None and (not bias.is_shared or bias.array.ndim != 1):
        return None
    is_convolution = isinstance(op, graph.Conv2dOp)
    if is_convolution and not weights.is_shared:
        return None
    result = float_layer(
        op,
        _merged(x.array),
        weights.array,
        None if bias is None else bias.array,
        None if residual is None else _merged(residual.array),
        Window.of_operation(op) if is_convolution else None,
        samples,
    )
    return result.reshape(samples, *shape_of(op.result))


def _recurrence(op: graph.RecurrenceOp, operands: Sequence[Batch], samples: int) -> Array | None:
    x, weights, h, c, bias = recurrence_operands(op, operands)
    constant = weights.is_shared and (bias is None or bias.is_shared)
    if op.scales is not None or not constant:
        return None
    rows = np.moveaxis(_repeated(x, samples), 0, 1)
    result = recurrence(
        op,
        rows.reshape(rows.shape[0], -1, rows.shape[3]).astype(np.float32, copy=False),
        weights.array,
        (_state(h, samples), _state(c, samples)),
        None if bias is None else bias.array.astype(np.float32, copy=False),
        samples,
    )
    split = result.reshape(len(result), samples, -1, result.shape[2])
    return np.ascontiguousarray(np.moveaxis(split, 1, 0))


def _state(state: Batch, samples: int) -> NDArray[np.float32]:
    return _merged(_repeated(state, samples)).astype(np.float32, copy=False)


def _softmax(op: graph.SoftmaxOp, operands: Sequence[Batch], samples: int) -> Array:
    axis = op.axis.value.data
    return softmax(operands[0].array.astype(np.float32, copy=False), axis + (axis >= 0))


def _reshape(op: graph.ReshapeOp, operands: Sequence[Batch], samples: int) -> Array:
    return operands[0].array.reshape(samples, *shape_of(op.result))


def _transpose(op: graph.TransposeOp, operands: Sequence[Batch], samples: int) -> Array:
    order = 0, *(axis + 1 for axis in op.permutation.get_values())
    return np.ascontiguousarray(operands[0].array.transpose(order))


def _concat(op: graph.ConcatOp, operands: Sequence[Batch], samples: int) -> Array:
    axis = op.axis.value.data
    return np.concatenate([_repeated(v, samples) for v in operands], axis + (axis >= 0))


def _slice(op: graph.SliceOp, operands: Sequence[Batch], samples: int) -> Array:
    shape = shape_of(op.result)
    parts = [slice(None)]
    for start, stride, size in zip(
        op.starts.get_values(), op.strides.get_values(), shape, strict=True
    ):
        end = start + size * stride
        parts.append(slice(start, end if end >= 0 else None, stride))
    return np.ascontiguousarray(operands[0].array[tuple(parts)]).reshape(samples, *shape)


def _gather(op: graph.GatherOp, operands: Sequence[Batch], samples: int) -> Array:
    axis = op.axis.value.data
    return np.take(operands[0].array, op.indices.get_values(), axis=axis + (axis >= 0))


def _reduce(op: graph.ReduceOp, operands: Sequence[Batch], samples: int) -> Array:
    x, shape = operands[0].array, shape_of(op.result)
    axes = [axis + 1 for axis in op.axes.get_values()]
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    rows = x.transpose([*axes, *kept]).reshape(-1, samples * prod(shape))
    return reduce_rows(op.function, rows).reshape(samples, *shape)


RULES: Mapping[type[Operation], Callable[..., Array | None]] = {
    graph.BinaryOp: _binary,
    graph.CastOp: _cast,
    graph.CompareOp: _compare,
    graph.ConcatOp: _concat,
    graph.Conv2dOp: _layer,
    graph.GatherOp: _gather,
    graph.MatmulOp: _layer,
    graph.RecurrenceOp: _recurrence,
    graph.ReduceOp: _reduce,
    graph.ReshapeOp: _reshape,
    graph.SelectOp: _select,
    graph.SliceOp: _slice,
    graph.SoftmaxOp: _softmax,
    graph.TransposeOp: _transpose,
    graph.UnaryOp: _unary,
}
"""
The function that evaluates an operation for several samples. It returns the elements [samples,
*shape], or `None` if the operation has another form.
"""
