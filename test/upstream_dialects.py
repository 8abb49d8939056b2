"""
Evaluate a function of the dialects arith, math, tensor, linalg and scf in numpy.

Scalars of a body are arrays over the parallel loops; reductions run one index at a time. The
semantics follow the reference pages of MLIR. No code is shared with the exporter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects import arith, builtin, linalg, scf, tensor
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr
from xdsl.utils.hints import isa

Array = npt.NDArray[Any]
Values = dict[SSAValue, Array]

COMPARISONS: Sequence[Callable[[Array, Array], Array]] = (
    *(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal),
)
"""Integer comparisons in the order of the predicates; unsigned comparisons follow."""
FLOAT_COMPARISONS = {1: np.equal, 2: np.greater, 3: np.greater_equal, 4: np.less, 5: np.less_equal}
UNORDERED_NOT_EQUAL = 13


def dtype_of(type: Attribute) -> np.dtype[Any]:
    """Return the numpy type of a scalar type; i1 is a bool."""
    if isinstance(type, builtin.Float32Type):
        return np.dtype(np.float32)
    if isinstance(type, builtin.IndexType):
        return np.dtype(np.int64)
    assert isa(type, builtin.IntegerType)
    width = type.width.data
    return np.dtype(np.bool_) if width == 1 else np.dtype(f"int{width}")


def shape_of(value: SSAValue) -> tuple[int, ...]:
    assert isa(value.type, builtin.TensorType)
    return value.type.get_shape()


def unsigned(x: Array) -> Array:
    return x if x.dtype == np.bool_ else x.view(f"u{x.dtype.name}")


def bounded(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Return a shift that checks the range of the amount."""

    def shift(a: Array, b: Array) -> Array:
        assert np.all((b >= 0) & (b < 8 * a.dtype.itemsize)), "a shift out of range is poison"
        return function(a, b)

    return shift


def truncated(a: Array, b: Array) -> Array:
    assert np.all(b != 0), "a division by zero is undefined"
    quotient = np.abs(a.astype(object)) // np.abs(b.astype(object))
    return np.where((a < 0) != (b < 0), -quotient, quotient).astype(a.dtype)


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    **dict.fromkeys(("arith.addi", "arith.addf"), np.add),
    **dict.fromkeys(("arith.subi", "arith.subf"), np.subtract),
    **dict.fromkeys(("arith.muli", "arith.mulf"), np.multiply),
    "arith.divf": np.divide,
    "arith.divsi": truncated,
    "arith.divui": lambda a, b: (unsigned(a) // unsigned(b)).view(a.dtype),
    "arith.shli": bounded(np.left_shift),
    "arith.shrsi": bounded(np.right_shift),
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.maxui": lambda a, b: np.maximum(unsigned(a), unsigned(b)).view(a.dtype),
    "arith.minui": lambda a, b: np.minimum(unsigned(a), unsigned(b)).view(a.dtype),
}
UNARY: dict[str, Callable[[Array], Array]] = {
    "arith.negf": np.negative,
    "math.absf": np.abs,
    "math.sqrt": np.sqrt,
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.trunc": np.trunc,
    "math.roundeven": np.rint,
}


def converted(op: Operation, x: Array) -> Array:
    """Evaluate a conversion of arith."""
    dtype = dtype_of(op.results[0].type)
    match op.name:
        case "arith.extsi" | "arith.trunci" | "arith.index_cast" | "arith.sitofp":
            return (-x.astype(np.int8) if x.dtype == np.bool_ else x).astype(dtype)
        case "arith.extui" | "arith.uitofp":
            return unsigned(x).astype(dtype)
        case "arith.fptosi" | "arith.fptoui":
            wide = unsigned(np.zeros(1, dtype)).dtype if op.name.endswith("ui") else dtype
            info = np.iinfo(wide)
            assert np.all((np.trunc(x) >= float(info.min)) & (np.trunc(x) < float(info.max) + 1))
            return x.astype(wide).view(dtype)
        case "arith.bitcast":
            return np.ascontiguousarray(x).view(dtype).reshape(x.shape)
        case "math.ctlz":
            bits = 8 * dtype.itemsize
            count = [bits - int(v).bit_length() for v in unsigned(x).reshape(-1)]
            return np.array(count, dtype).reshape(x.shape)
        case _:
            raise AssertionError(f"no definition of {op.name}")


class Body:
    """The evaluation of a block of scalars, at given indices of the enclosing loops."""

    def __init__(self, values: Values, indices: Mapping[int, Array]):
        self.values, self.indices = values, indices

    def run(self, block: Block, arguments: Sequence[Array]) -> list[Array]:
        self.values.update(zip(block.args, arguments, strict=True))
        *ops, last = block.ops
        for op in ops:
            results = self.results(op, [self.values[v] for v in op.operands])
            self.values.update(zip(op.results, results, strict=True))
        return [self.values[v] for v in last.operands]

    def results(self, op: Operation, args: list[Array]) -> list[Array]:
        with np.errstate(all="ignore"):
            if (binary := BINARY.get(op.name)) is not None:
                return [np.asarray(binary(*args))]
            if (unary := UNARY.get(op.name)) is not None:
                return [np.asarray(unary(*args))]
            match op:
                case arith.ConstantOp():
                    return [constant(op)]
                case arith.CmpiOp():
                    kind = op.predicate.value.data
                    if kind >= len(COMPARISONS):
                        args, kind = [unsigned(a) for a in args], kind - len(COMPARISONS) + 2
                    return [np.asarray(COMPARISONS[kind](*args))]
                case arith.CmpfOp():
                    kind = op.predicate.value.data
                    if kind == UNORDERED_NOT_EQUAL:
                        return [np.asarray(args[0] != args[1])]
                    return [np.asarray(FLOAT_COMPARISONS[kind](*args))]
                case arith.SelectOp():
                    return [np.where(*args)]
                case linalg.ops.IndexOp():
                    return [self.indices[op.dim.value.data]]
                case tensor.ExtractOp():
                    for index, extent in zip(args[1:], args[0].shape, strict=True):
                        assert np.all((index >= 0) & (index < extent)), "index out of bounds"
                    return [np.asarray(args[0][tuple(args[1:])])]
                case scf.ForOp():
                    return self.loop(op, args)
                case _:
                    return [converted(op, args[0])]

    def loop(self, op: scf.ForOp, args: list[Array]) -> list[Array]:
        bounds = [int(np.unique(a).item()) for a in args[:3]]
        carried = args[3:]
        for i in range(*bounds):
            carried = self.run(op.body.block, [np.asarray(i), *carried])
        return carried


def constant(op: arith.ConstantOp) -> Array:
    """Return the value of a constant, a scalar or a tensor."""
    value = op.value
    if isinstance(value, builtin.IntegerAttr | builtin.FloatAttr):
        number = cast("builtin.IntegerAttr[Any] | builtin.FloatAttr[Any]", value).value.data
        return np.array(number).astype(dtype_of(op.result.type))
    assert isinstance(value, builtin.DenseIntOrFPElementsAttr)
    dtype, shape = dtype_of(value.get_element_type()), value.get_shape()
    flat = np.frombuffer(value.data.data, dtype)
    return np.full(shape, flat[0]) if flat.size == 1 else flat.reshape(shape)


def place(expression: Any, indices: Mapping[int, Array]) -> Array:
    """Return the value of an affine expression."""
    match expression:
        case AffineDimExpr():
            return indices[expression.position]
        case AffineConstantExpr():
            return np.asarray(expression.value)
        case AffineBinaryOpExpr():
            lhs, rhs = place(expression.lhs, indices), place(expression.rhs, indices)
            if expression.kind is AffineBinaryOpKind.Add:
                return lhs + rhs
            assert expression.kind is AffineBinaryOpKind.Mul
            return lhs * rhs
        case _:
            raise AssertionError(expression)


def structured(op: LinalgStructuredOperation, values: Values) -> Array:
    """Evaluate an operation of linalg with a single result."""
    maps = [m.data for m in op.get_indexing_maps()]
    kinds = [str(each.data) for each in op.get_iterator_types()]
    extents: dict[int, int] = {}
    for map, operand in zip(maps, op.operands, strict=True):
        if isinstance(operand.type, builtin.TensorType):
            for expression, extent in zip(map.results, shape_of(operand), strict=True):
                if isinstance(expression, AffineDimExpr):
                    extents[expression.position] = extent
    parallel = [d for d, kind in enumerate(kinds) if kind == "parallel"]
    reduced = [d for d, kind in enumerate(kinds) if kind == "reduction"]
    space = tuple(extents[d] for d in parallel)
    grid = dict(zip(parallel, np.indices(space), strict=True))
    operands = [values[v] for v in op.operands]

    def at(number: int, indices: Mapping[int, Array]) -> tuple[Array, ...]:
        return tuple(place(e, indices) for e in maps[number].results)

    last = len(operands) - 1
    output = np.array(operands[last])
    result = np.broadcast_to(output[at(last, grid)], space)
    for point in product(*(range(extents[d]) for d in reduced)):
        indices = grid | {d: np.asarray(i) for d, i in zip(reduced, point, strict=True)}
        given = [
            operand[at(i, indices)] if operand.ndim or maps[i].results else operand
            for i, operand in enumerate(operands[:-1])
        ]
        body = Body(dict(values), indices)
        (result,) = body.run(op.regions[0].block, [*given, result])
    output[at(last, grid)] = result
    return output


def evaluate(main: FuncOp, inputs: Sequence[Array]) -> list[Array]:
    """Return the results of a function for the given arguments."""
    values: Values = dict(zip(main.body.block.args, inputs, strict=True))
    scalars = Body(values, {})
    for op in main.body.block.ops:
        args = [values[v] for v in op.operands]
        match op:
            case ReturnOp():
                return args
            case tensor.EmptyOp():
                # Elements are unspecified; these would be noticed.
                found = np.full(shape_of(op.tensor), 85).astype(
                    dtype_of(op.tensor.type.element_type)
                )
            case tensor.CollapseShapeOp() | tensor.ExpandShapeOp():
                found = args[0].reshape(shape_of(op.results[0]))
            case tensor.ConcatOp():
                found = np.concatenate(args, axis=op.dim.value.data)
            case tensor.ExtractSliceOp():
                found = args[0][tuple(_intervals(op))]
            case tensor.PadOp():
                found = _padded(op, args[0], values)
            case LinalgStructuredOperation():
                found = structured(op, values)
            case _:
                (found,) = scalars.results(op, args)
        result = op.results[0]
        if isa(result.type, builtin.TensorType):
            assert found.shape == shape_of(result), op
            assert found.dtype == dtype_of(result.type.element_type), op
        values[result] = found
    raise AssertionError("no func.return")


def _intervals(op: tensor.ExtractSliceOp) -> Iterator[slice]:
    lists = (op.static_offsets, op.static_sizes, op.static_strides)
    for start, size, stride in zip(*(each.get_values() for each in lists), strict=True):
        yield slice(start, start + (size - 1) * stride + 1, stride)


def _padded(op: tensor.PadOp, x: Array, values: Values) -> Array:
    last = op.region.block.last_op
    assert last is not None
    filler = values[last.operands[0]]
    pads = zip(op.static_low.get_values(), op.static_high.get_values(), strict=True)
    return np.pad(x, list(pads), constant_values=filler)
