"""
Compare a quantized network with the Q/DQ network from which it was created, value by value.

The written network is run with the operations in the file: floats between `graph.dequantize` and
`graph.quantize`. Each stored value that both networks have is compared. The value of the quantized
network then replaces the other value, so that differences do not spread.

A single requantization in place of three float operations may differ by a step (`MAX_STEPS`). The
same holds for integers that are computed from floats, such as those of a computed scale, because
both networks add floats in different orders. Sums of floats that agree are replaced too, because
recurrent layers amplify their last bits.

This module does not depend on `quantize`. Names of nodes and types decide which values correspond.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.driver.differences import FLOAT_TOLERANCE, Array, relative_difference
from ceras_ir.interpreters.network import as_stored, check_inputs, run
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.network import integer
from ceras_ir.network.function import main_function, output_names, states_of
from ceras_ir.support.diagnostics import node_name

MAX_STEPS = 1
"""The largest difference of a stored value, in steps of the scale."""

MIN_INEXACT_MAGNITUDE = 1 << 15
"""The magnitude from which an integer that is computed from a float is inexact."""

MAX_FLOAT_ROUNDING_STEPS = 2.0**-6
"""The largest difference from float rounding, in steps."""

_Key: TypeAlias = tuple[str, float, int, tuple[int, ...]]

_DATA_MOVEMENTS = (graph.PadOp, graph.TransposeOp, graph.ReshapeOp, graph.SliceOp)
"""Data movement operations before or after quantization, such as the padding of a window."""


@dataclass
class StepDifferences:
    """
    The counts of compared, unknown and differing values over all samples, and a text about the
    first wrong value.
    """

    values: int = 0
    """The number of compared stored values and outputs."""
    unknown: int = 0
    """The number of values that depend on a rounding of the written network only."""
    elements: int = 0
    differing: int = 0
    """The number of elements that differ by a step."""
    wrong: str | None = None
    """A text about the first element that differs by more than `MAX_STEPS`."""

    def __str__(self) -> str:
        if self.wrong is not None:
            return self.wrong
        left = f"; {self.unknown} have no counterpart" if self.unknown else ""
        share = 100 * self.differing / max(self.elements, 1)
        return f"{self.values} values within {MAX_STEPS} step ({share:.2g}% differ){left}"


class AsWritten:
    """
    Compares two forms of a network with Q/DQ. In `written`, operations are executed in float
    between DequantizeLinear and QuantizeLinear, as in the file. In `quantized`, the compiler has
    replaced them by integer operations.
    """

    def __init__(self, written: ModuleOp, quantized: ModuleOp):
        self.written, self.quantized = written, quantized
        self.pairs = _pairs(written, quantized)
        self.moved = _quantized_before_moves(written, quantized)
        self.integers = _paired(written, quantized, _makes_integers)
        self.sums = _paired(written, quantized, _sums_floats)
        self.found = StepDifferences()

    def compare(self, sample: Mapping[str, Array]) -> None:
        """
        Run `written` and `quantized` on a sample, and compare each stored value that both have.
        Values may differ by a step of the scale (`MAX_STEPS`). The first larger difference, in
        order of execution and over all samples, is recorded in `found.wrong`.
        """
        quantized: dict[SSAValue, Array] = {}

        def keep(op: Operation, results: tuple[Array, ...]) -> None:
            quantized.update(zip(op.results, results, strict=True))

        outputs = run(self.quantized, as_stored(self.quantized, sample), keep)
        main, interpreter = main_function(self.written), interpreter_of(self.written)
        arrays = check_inputs(main, sample)
        values: dict[SSAValue, Array] = dict(zip(main.body.block.args, arrays, strict=True))
        unknown: set[SSAValue] = set()
        for op in main.body.block.ops:
            if isinstance(op, ReturnOp):
                kept = {state.result_name for state in states_of(main)}
                for name, value in zip(output_names(main), op.operands, strict=True):
                    if name in kept:
                        continue  # A state is stored in only one of the networks.
                    self._output(name, outputs[name], values[value], value in unknown)
                return
            operands = tuple(values[operand] for operand in op.operands)
            with np.errstate(all="ignore"):
                results = interpreter.run_op(op, operands)
            values.update(zip(op.results, results, strict=True))
            is_known = unknown.isdisjoint(op.operands)
            if isinstance(op, graph.QuantizeOp):
                is_known = is_known and not _is_below_float_rounding(op, values)
                pair = self.pairs.get(op.result)
                if pair is None and op in self.moved:
                    before, moves = self.moved[op]
                    array = integer.dequantize(quantized[before], graph.stored_element(before))
                    for move in (*moves, op):
                        (array,) = interpreter.run_op(move, (array,))
                    self._steps(f"node '{node_name(op)}'", array, values[op.result], is_known)
                    values[op.result] = array
                    continue
                if pair is None:
                    if not is_known or _changes_values(op, operands[0], values[op.result]):
                        self.found.unknown += 1
                        unknown.add(op.result)
                    continue
                stored = _with_zero_point_of(quantized[pair], graph.stored_element(pair), op.result)
                self._steps(f"node '{node_name(op)}'", stored, values[op.result], is_known)
                values[op.result] = stored.astype(values[op.result].dtype)
            elif (pair := self.integers.get(op)) is not None:
                (expected,) = results
                peak = np.abs(expected.astype(np.float64)).max(initial=0)
                is_known = is_known and bool(peak < MIN_INEXACT_MAGNITUDE)
                self._steps(f"node '{node_name(op)}'", quantized[pair], expected, is_known)
                values[op.results[0]] = quantized[pair]
            elif not is_known:
                unknown.update(op.results)
            elif (pair := self.sums.get(op)) is not None and (
                relative_difference(quantized[pair], results[0]) <= FLOAT_TOLERANCE
            ):
                values[op.results[0]] = quantized[pair]

    def _output(self, name: str, actual: Array, expected: Array, is_unknown: bool) -> None:
        where = f"output '{name}'"
        if is_unknown or np.issubdtype(expected.dtype, np.integer):
            self._steps(where, actual, expected, not is_unknown)
        else:
            self.found.values += 1
            if (error := relative_difference(actual, expected)) > FLOAT_TOLERANCE:
                self._fail(f"{where} is off by {error:.2g}, relative; allowed {FLOAT_TOLERANCE:g}")

    def _steps(self, where: str, actual: Array, expected: Array, is_known: bool) -> None:
        if not is_known:
            self.found.unknown += 1
            return
        steps = np.abs(actual.astype(np.int64) - expected.astype(np.int64))
        self.found.values += 1
        self.found.elements += steps.size
        self.found.differing += int(np.count_nonzero(steps))
        if steps.max(initial=0) > MAX_STEPS:
            at = tuple(int(i) for i in np.unravel_index(int(steps.argmax()), steps.shape))
            self._fail(
                f"{where}{list(at)} is {actual[at]}, expected {expected[at]} from the written model"
            )

    def _fail(self, text: str) -> None:
        self.found.wrong = self.found.wrong or text


def _changes_values(op: graph.QuantizeOp, real: Array, stored: Array) -> bool:
    """
    Return whether `op`, which converts `real` to `stored`, rounds or clamps any element. Padded
    values, for example, are only moved.
    """
    element = graph.stored_element(op.result)
    if element.is_per_axis:
        return True
    difference = (
        real.astype(np.float64) / element.scale - stored.astype(np.float64) + element.zero_point
    )
    return bool(np.abs(difference).max(initial=0.0) > MAX_FLOAT_ROUNDING_STEPS)


def _is_below_float_rounding(op: graph.QuantizeOp, values: Mapping[SSAValue, Array]) -> bool:
    """
    Return whether the step of the quantization `op` is smaller than the rounding errors of the
    float operand, a sum or mean. A mean of positive and negative values with the sum 0 is exact in
    integers and inexact in floats.
    """
    quantized, element = op.input.owner, graph.quantized_element(op.result)
    if (
        not isinstance(quantized, graph.ReduceOp | graph.Pool2dOp)
        or element is None
        or element.is_per_axis
    ):
        return False
    peak = float(np.abs(values[quantized.operands[0]].astype(np.float64)).max(initial=0.0))
    return element.scale < peak * float(np.finfo(np.float32).eps)


def _with_zero_point_of(stored: Array, element: UniformType, like: SSAValue) -> Array:
    moved = graph.stored_element(like).zero_point - element.zero_point
    return stored.astype(np.int64) + moved


def _key(op: Operation, value: SSAValue) -> _Key | None:
    element = graph.quantized_element(value)
    if element is None or element.is_per_axis:
        return None
    return node_name(op), element.scale, element.storage.width.data, graph.shape_of(value)


def _quantized_before_moves(
    written: ModuleOp, quantized: ModuleOp
) -> dict[Operation, tuple[SSAValue, Sequence[Operation]]]:
    """
    Find operations that `written` executes as move, then quantize, and `quantized` as quantize,
    then move. Map each quantization of `written` to the value in `quantized` before the moves, and
    to the data movement operations in order. The value must be unique, and have the same node name,
    scale and shape before the moves.
    """
    known: dict[tuple[str, float, int], list[SSAValue]] = {}
    for op in main_function(quantized).body.block.ops:
        for result in op.results:
            if (key := _key(op, result)) is not None:
                known.setdefault(key[:3], []).append(result)
    moved: dict[Operation, tuple[SSAValue, Sequence[Operation]]] = {}
    for op in main_function(written).body.block.ops:
        key = _key(op, op.result) if isinstance(op, graph.QuantizeOp) else None
        found = known.get(key[:3], []) if key is not None else []
        moves, value = list[Operation](), op.operands[0] if len(found) == 1 else None
        while value is not None and isinstance(value.owner, _DATA_MOVEMENTS):
            moves.insert(0, value.owner)
            value = value.owner.operands[0]
            if graph.shape_of(value) == graph.shape_of(found[0]):
                moved[op] = found[0], moves
                break
    return moved


def _paired(
    written: ModuleOp, quantized: ModuleOp, is_wanted: Callable[[Operation], bool]
) -> dict[Operation, SSAValue]:
    """
    Map each operation of `written` for which `is_wanted` holds to the result of the operation in
    `quantized` with the same node name and type. Operations without a counterpart, or with several,
    are omitted.
    """
    ours, theirs = _by_name(written, is_wanted), _by_name(quantized, is_wanted)
    return {
        ops[0]: theirs[key][0].results[0]
        for key, ops in ours.items()
        if len(ops) == len(theirs.get(key, ())) == 1
    }


def _by_name(
    module: ModuleOp, is_wanted: Callable[[Operation], bool]
) -> dict[tuple[str, Attribute], list[Operation]]:
    found: dict[tuple[str, Attribute], list[Operation]] = {}
    for op in filter(is_wanted, main_function(module).body.block.ops):
        found.setdefault((node_name(op), op.results[0].type), []).append(op)
    return found


def _makes_integers(op: Operation) -> bool:
    return isinstance(op, graph.CastOp) and graph.element_of(op.input) == f32


def _sums_floats(op: Operation) -> bool:
    return isinstance(op, graph.LinearOperation) and graph.element_of(op.result) == f32


def _has_hidden_transpose(value: SSAValue) -> bool:
    """
    Return whether a transposition that does not change the shape (such as of a square matrix)
    computes or consumes the value. Equal shapes then do not show that two values have equal
    elements.
    """
    around = [value.owner, *(use.operation for use in value.uses)]
    return any(
        isinstance(op, graph.TransposeOp) and graph.shape_of(op.input) == graph.shape_of(op.result)
        for op in around
    )


def _is_computed_from(value: SSAValue, other: SSAValue) -> bool:
    """Return whether `value` depends on `other` through operations of the same ONNX node only."""
    first = value.owner
    pending = [first] if isinstance(first, Operation) else []
    seen, name = set(pending), "" if not pending else node_name(pending[0])
    for op in pending:
        for operand in op.operands:
            owner = operand.owner
            if operand is other:
                return True
            if isinstance(owner, Operation) and owner not in seen and node_name(owner) == name:
                seen.add(owner)
                pending.append(owner)
    return False


def _pairs(written: ModuleOp, quantized: ModuleOp) -> dict[SSAValue, SSAValue]:
    """
    Map each value that `written` quantizes to the value of `quantized` with the same node and type.
    The name of a node is the name of the operation before the quantization, or of a remaining
    quantization. An ambiguous name is not paired.
    """
    known: dict[_Key, SSAValue] = {}
    ambiguous: set[_Key] = set()
    for op in main_function(quantized).body.block.ops:
        for result in () if isinstance(op, graph.ConstantOp) else op.results:
            if (key := _key(op, result)) is None or _has_hidden_transpose(result):
                continue
            # The last operation of a node in a chain computes the result of the node.
            if key in known and not _is_computed_from(result, known[key]):
                ambiguous.add(key)
            known[key] = result
    for key in ambiguous:
        del known[key]
    pairs: dict[SSAValue, SSAValue] = {}
    users: dict[SSAValue, set[SSAValue]] = {}
    for op in main_function(written).body.block.ops:
        if not isinstance(op, graph.QuantizeOp):
            continue
        for named in (op.input.owner, op):
            key = _key(named, op.result) if isinstance(named, Operation) else None
            pair = None if key is None else known.get(key)
            if pair is not None:
                pairs[op.result] = pair
                users.setdefault(pair, set()).add(op.input)
                break
    return {value: pair for value, pair in pairs.items() if len(users[pair]) == 1}
