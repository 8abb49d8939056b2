"""
Turn a float network with chosen exponents into a quantized network.

The pass `strip-border-quantization` lets the caller pass and receive stored integers instead of
floats.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import StringAttr, UnitAttr, f32, i8
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import (
    Cell,
    DequantizeOp,
    Function,
    LinearOperation,
    QuantizeOp,
    tensor_type,
)
from ceras_ir.network.function import (
    SNAPPED,
    data_operands,
    output_names,
    quantized_operations,
    result_values,
    states_of,
)
from ceras_ir.network.integer import WEIGHT_LOW, fitting_exponent, least_squares_exponents
from ceras_ir.network.storage import (
    EXTRA_FRACTION_BITS,
    FLOAT_REASON,
    LAYER,
    NARROW,
    drop_value_statistics,
    is_kept_in_float,
    keep_in_float,
    network_values,
    observed_range,
    set_width,
)
from ceras_ir.support.diagnostics import node_name, remark
from ceras_ir.transforms.pass_kinds import FloatNetworkPass, NetworkPass, RulePass
from ceras_ir.transforms.quantization.analysis.qdq import only_moves
from ceras_ir.transforms.quantization.stored_operations import QuantizedValues, stored_operation
from ceras_ir.transforms.rebuilding import erase_unused

# The ends of a quantized network as they are stored, without `graph.quantize` between.


def stored_type(argument: SSAValue) -> Attribute | None:
    """The one type that an argument is only ever quantized to."""
    readers = [use.operation for use in argument.uses]
    types = {r.result.type if isinstance(r, QuantizeOp) else None for r in readers}
    return types.pop() if len(types) == 1 else None


def take_stored(argument: SSAValue) -> None:
    """Give an argument the type that it is quantized to, if that is one."""
    if (kind := stored_type(argument)) is None:
        return
    quantizers = [use.operation for use in argument.uses]
    stored = Rewriter.replace_value_with_new_type(argument, kind)
    for quantizer in quantizers:
        quantizer.results[0].replace_all_uses_with(stored)
        Rewriter.erase_op(quantizer)


def returned_as_stored(main: FuncOp, position: int) -> None:
    """Return a result that is dequantized as it is stored."""
    last = main.body.block.last_op
    assert last is not None
    value = last.operands[position]
    if isinstance(value.owner, DequantizeOp):
        last.operands[position] = value.owner.input
        erase_unused(value.owner)


BORDER = "the number that it puts around may have no integer"


@dataclass(frozen=True)
class QuantizeRule(FloatNetworkPass):
    """
    Replace every operation of a calibrated float network by its quantized form. Values have int8
    and power-of-two scales, biases 32 bits. Every requantization is a shift that rounds half up.

    Values with `graph.precision = "i16"` have 16 bits. Operations without a quantized form, or with
    `graph.precision = "f32"`, stay float between `graph.dequantize` and `graph.quantize`. So do
    arguments and results of the function. A pad of another number than zero says so by
    `graph.precision`, as `fold-qdq` has an integer form of it.

    Needs `graph.exponent` on every value and `graph.weight_exponent` where weights are constant;
    drops them. Not exact: this is where the network's values change.
    """

    name = "operations"

    def change(self, main: FuncOp) -> None:
        _convert(main)
        main.attributes.pop(SNAPPED, None)


def _convert(main: FuncOp) -> None:
    block = main.body.block
    chosen = quantized_operations(main)
    values = QuantizedValues(block)
    for op in list(block.ops):
        if op not in chosen:
            for i, operand in enumerate(op.operands):
                op.operands[i] = values.real(operand, op)
            if isinstance(op, graph.PadOp) and _puts_numbers(op) and not is_kept_in_float(op):
                keep_in_float(op, BORDER)
            continue
        assert isinstance(op, graph.GraphOperation)
        new = stored_operation(op, values)
        if LAYER in op.attributes:
            new[-1].attributes[LAYER] = op.attributes[LAYER]
        Rewriter.insert_op(new, InsertPoint.before(op))
        values.define(op.output, new[-1].output)
    constants: dict[graph.ConstantOp, None] = {}
    for op in reversed(chosen):
        constants |= {v.owner: None for v in op.operands if isinstance(v.owner, graph.ConstantOp)}
        Rewriter.erase_op(op)
    for constant in constants:
        erase_unused(constant)
    for value in network_values(block):
        set_width(value, NARROW)
        drop_value_statistics(value)


def _puts_numbers(op: graph.PadOp) -> bool:
    """Whether floats other than zero are put around floats."""
    return not op.is_alias and not graph.is_plain(op.input)


WITHIN_ONE = frozenset((Function.TANH, Function.SIGMOID, Function.HARD_SIGMOID, Function.SOFTSIGN))
"""Functions whose magnitude is at most 1."""

STATE_EXPONENT = -14
"""Of 16 bits, for a state within 1; twice of that is not clipped."""


@dataclass(frozen=True)
class RecurrenceRule(FloatNetworkPass):
    """
    Give recurrent layers of a float network weights of 8 bits, with a power of two for each row.
    The state is multiplied as integers of 16 bits, in steps of 2^-14, or, where the caller's first
    state was seen beyond 1, in steps that hold twice of it. Functions of the gates stay float: of a
    layer with 128 units they are less than one multiplication in 100.

    A layer is left alone where

    1. its weights are not constant floats;
    2. its functions do not keep the state within 1, as Relu;
    3. a sum could leave 32 bits; or
    4. it has `graph.precision = "f32"`.

    Not exact: weights and the state are rounded to the nearest.
    """

    name = "recurrences"

    def change(self, main: FuncOp) -> None:
        for layer in list(main.body.block.ops):
            if isinstance(layer, graph.RecurrenceOp) and not is_kept_in_float(layer):
                _quantize_recurrence(layer)


def _quantize_recurrence(layer: graph.RecurrenceOp) -> None:
    constant = layer.weights.owner
    if layer.is_integer or not isinstance(constant, graph.ConstantOp):
        return
    # What a state is made of: of an RNN by its one function, of others by gates of the last.
    last = layer.functions.data[-1]
    gates = layer.functions.data[:1] if layer.cell_kind is not Cell.RNN else ()
    if not all(f.kind in WITHIN_ONE for f in (last, *gates)):
        return
    weights = np.asarray(constant.array(), np.float32)
    chosen = least_squares_exponents(weights)
    steps = np.exp2(chosen.astype(np.float32))[:, None]
    stored = np.clip(np.rint(weights / steps), WEIGHT_LOW, -WEIGHT_LOW).astype(np.int8)
    if layer.max_sum(stored) >= 1 << 31:
        return
    integers = graph.ConstantOp.from_array(stored, i8, location=constant.location)
    new = graph.RecurrenceOp(
        layer.cell_kind,
        layer.input,
        integers.result,
        layer.state,
        layer.functions.data,
        cell=layer.cell,
        bias=layer.bias,
        exponents=(_state_exponent(layer), chosen.tolist()),
    )
    new.attributes |= layer.attributes
    new.location = layer.location
    Rewriter.insert_op((integers, new), InsertPoint.before(layer))
    Rewriter.replace_op(layer, (), [new.result])
    erase_unused(constant)


def _state_exponent(layer: graph.RecurrenceOp) -> int:
    """Steps make states within 1; the first one comes from elsewhere."""
    first = graph.constant_array(layer.state)
    seen = observed_range(layer.state) if first is None else (first.min(), first.max())
    largest = 0.0 if seen is None else float(max(-seen[0], seen[1]))
    return STATE_EXPONENT if largest <= 1 else fitting_exponent(largest) - EXTRA_FRACTION_BITS


@dataclass(frozen=True)
class StateRule(NetworkPass):
    """
    Give states the type in which they are stored. A state whose argument is only ever quantized to
    the type that its result is dequantized from is both; another one stays float.

    Exact: what is quantized, of what was dequantized from the same type, is the same integer, and
    the first state, zero, is stored as the zero point.
    """

    name = "states"

    def change(self, main: FuncOp) -> None:
        for state in states_of(main):
            made = state.result.owner
            if isinstance(made, DequantizeOp) and stored_type(state.argument) == made.input.type:
                take_stored(state.argument)
                returned_as_stored(main, state.position)
        main.update_function_type()


@dataclass(frozen=True)
class FloatSumRule(NetworkPass):
    """
    Make float convolutions and products `ordered` in a network that is partly quantized. A float
    network that nobody quantizes keeps the freedom to sum in the fastest order.

    The result of a float layer may be quantized again, where the last bit of a sum decides between
    two integers. With one order every target gets the same integers. Exact: before, any order was
    allowed.
    """

    name = "float-sums"

    def change(self, main: FuncOp) -> None:
        for layer in main.body.block.ops:
            if isinstance(layer, LinearOperation) and not layer.is_quantized:
                layer.ordered = UnitAttr()


@dataclass(frozen=True)
class QuantizeGraphPass(RulePass):
    """
    Turn a float network with chosen exponents into a quantized network.

    The rules replace recurrent layers and all other operations, store states as integers, and fix
    the order of the sums that remain in float.
    """

    name = "quantize-graph"

    def table(self) -> tuple[ModulePass, ...]:
        return RecurrenceRule(), QuantizeRule(), StateRule(), FloatSumRule()


# Let the caller pass and receive stored integers instead of floats.


@dataclass(frozen=True)
class StripBorderQuantizationPass(NetworkPass):
    """
    Give arguments and results the types in which they are stored. An argument that is only ever
    quantized to one type takes that type; a result that is dequantized is returned as it is stored.
    Other arguments and results stay float; stderr says which results, and why.

    Exact in the integers: the caller does the work of `graph.quantize` and `graph.dequantize`. An
    argument that `fit-inputs` divides takes the scale of its stored numbers before the division;
    the weight scales of the layers that read it make up for it.
    """

    name = "strip-border-quantization"

    def change(self, main: FuncOp) -> None:
        # No caller sees states, and both of their ends have one type.
        kept = {value for state in states_of(main) for value in (state.argument, state.result)}
        for argument in tuple(main.body.block.args):
            if argument not in kept:
                _unscale(argument)
                take_stored(argument)
        for position, value in enumerate(result_values(main)):
            if value not in kept:
                returned_as_stored(main, position)
                self._note(output_names(main)[position], result_values(main)[position])
        main.update_function_type()

    def _note(self, name: str, value: SSAValue) -> None:
        """Say why an output stays float, where the network computes it so."""
        op = value.owner
        if isinstance(op, graph.GraphOperation) and tensor_type(value).element_type == f32:
            known = op.attributes.get(FLOAT_REASON)
            reason = f": {known.data}" if isinstance(known, StringAttr) else ""
            remark(
                f"{self.name}: note: output '{name}' stays float, because '{node_name(op)}' is "
                f"computed in float{reason}"
            )


def _unscale(argument: SSAValue) -> None:
    """
    Undo that in a quantized network, where the argument goes nowhere else: it is quantized in
    steps of its own to the same numbers, and weights are stored in steps that make up for it.
    """
    scaled = argument.get_user_of_unique_use()
    if not isinstance(scaled, graph.BinaryOp) or scaled.function is not graph.Binary.MUL:
        return
    factor = graph.constant_array(scaled.rhs)
    quantize = scaled.result.get_user_of_unique_use()
    if factor is None or factor.ndim or not isinstance(quantize, QuantizeOp):
        return
    values: list[SSAValue] = [quantize.result]
    layers: dict[graph.LinearOperation, None] = {}
    for value in values:  # Which grows on the way.
        for reader in (use.operation for use in value.uses):
            if isinstance(reader, graph.LinearOperation) and isinstance(
                reader.weights.owner, graph.ConstantOp
            ):
                layers[reader] = None
            elif isinstance(reader, graph.GraphOperation) and only_moves(reader):
                values.append(reader.results[0])
            else:
                return
    movers = [value.owner for value in values[1:]]
    if any(
        isinstance(op, Operation) and not set(values).issuperset(data_operands(op)) for op in movers
    ):
        return
    size = float(factor)
    for value in values:
        _multiply_scales(value, 1 / size)
    for layer in layers:
        weights = layer.weights.owner
        assert isinstance(weights, graph.ConstantOp)
        own = weights.clone()
        Rewriter.insert_op(own, InsertPoint.before(layer))
        _multiply_scales(own.result, size)
        layer.operands[layer.operands.index(weights.result)] = own.result
        erase_unused(weights)
    quantize.operands[0] = argument
    erase_unused(scaled)


def _multiply_scales(value: SSAValue, factor: float) -> None:
    element = graph.stored_element(value).rescaled(factor)
    Rewriter.replace_value_with_new_type(value, graph.type_with_element(value, element))
