"""
Convert a float network with known exponents to a quantized network.

The pass `strip-border-quantization` then lets the caller exchange integers instead of floats.
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
from ceras_ir.network.integer import fitting_exponent, least_squares_exponents, weight_bounds
from ceras_ir.network.storage import (
    BITS,
    EXTRA_FRACTION_BITS,
    FLOAT_REASON,
    LAYER,
    NARROW,
    STORED_TYPE,
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


def stored_type(argument: SSAValue) -> Attribute | None:
    """
    Return the quantized type of a graph input if all consumers quantize it to the same type,
    otherwise `None`.
    """
    users = [use.operation for use in argument.uses]
    types = {user.result.type if isinstance(user, QuantizeOp) else None for user in users}
    return types.pop() if len(types) == 1 else None


def store_argument(argument: SSAValue) -> None:
    """
    Change the type of a graph input to the quantized type to which all consumers quantize it, so
    that the caller passes integers. Change nothing if there is no such type.
    """
    if (kind := stored_type(argument)) is None:
        return
    quantizers = [use.operation for use in argument.uses]
    stored = Rewriter.replace_value_with_new_type(argument, kind)
    for quantizer in quantizers:
        quantizer.results[0].replace_all_uses_with(stored)
        Rewriter.erase_op(quantizer)


def return_stored(main: FuncOp, position: int) -> None:
    """
    Return the stored integers as the graph output with index `position`, if it is the result of a
    dequantization. Otherwise change nothing.
    """
    last = main.body.block.last_op
    assert last is not None
    value = last.operands[position]
    if isinstance(value.owner, DequantizeOp):
        last.operands[position] = value.owner.input
        erase_unused(value.owner)


@dataclass(frozen=True)
class QuantizeRule(FloatNetworkPass):
    """
    Replace each operation of a calibrated float network by the quantized form. Values have int8 and
    power-of-two scales, biases have 32 bits. Each requantization is a shift that rounds half up.

    1. Values with `graph.precision = "i16"` have 16 bits.
    2. Operations without a quantized form, or with `graph.precision = "f32"`, remain float between
       `graph.dequantize` and `graph.quantize`.
    3. Arguments and results of the function remain float.
    4. A pad with a value other than zero gets `graph.precision = "f32"`, because `fold-qdq` would
       convert it to integers.

    Each value needs `graph.exponent`, and each layer with constant weights `graph.weight_exponent`.
    The pass removes these attributes. Not exact: this pass changes the values of the network.
    """

    name = "operations"

    def change(self, main: FuncOp) -> None:
        block = main.body.block
        chosen = quantized_operations(main)
        values = QuantizedValues(block)
        for op in list(block.ops):
            if op not in chosen:
                for name in (BITS, STORED_TYPE):
                    op.attributes.pop(name, None)
                for i, operand in enumerate(op.operands):
                    op.operands[i] = values.real(operand, op)
                is_filled = isinstance(op, graph.PadOp) and not op.is_alias
                if is_filled and not graph.is_plain(op.operands[0]) and not is_kept_in_float(op):
                    keep_in_float(op, "the padding value may have no integer")
                continue
            assert isinstance(op, graph.GraphOperation)
            new = stored_operation(op, values)
            if LAYER in op.attributes:
                new[-1].attributes[LAYER] = op.attributes[LAYER]
            Rewriter.insert_op(new, InsertPoint.before(op))
            values.define(op.output, new[-1].output)
        operands = {v.owner: None for op in reversed(chosen) for v in op.operands}
        for op in reversed(chosen):
            Rewriter.erase_op(op)
        for owner in operands:
            if isinstance(owner, graph.ConstantOp):
                erase_unused(owner)
        for value in network_values(block):
            set_width(value, NARROW)
            drop_value_statistics(value)
        main.attributes.pop(SNAPPED, None)


UNIT_FUNCTIONS = frozenset(
    (Function.TANH, Function.SIGMOID, Function.HARD_SIGMOID, Function.SOFTSIGN)
)
"""The functions with a magnitude of at most 1."""

STATE_EXPONENT = -14
"""The exponent of a 16-bit state with magnitudes up to 1. Magnitudes up to 2 are not clipped."""


@dataclass(frozen=True)
class RecurrenceRule(FloatNetworkPass):
    """
    Quantize the weights of recurrent layers of a float network to 8 bits, with a power-of-two scale
    for each row.

    The state is multiplied as integers of 16 bits in steps of 2^-14. If the first state from the
    caller was observed beyond 1, the steps hold twice its magnitude. Functions of the gates remain
    float: in a layer of 128 units they take less than one multiplication in 100.

    A layer is left unchanged in each of these cases:

    1. The weights are not constant floats.
    2. A function such as Relu does not limit the state to magnitudes up to 1.
    3. A sum could exceed 32 bits.
    4. It has `graph.precision = "f32"`.

    Not exact: weights and the state are rounded to the nearest.

    Before:

        %w = graph.constant dense<[[0.5, -0.25], [1.5, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
        %y = graph.recurrence rnn %x, %w, %h {functions = [#graph.function<tanh>]}
            : (tensor<3x1x2xf32>, tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<3x1x2xf32>

    After:

        %w = graph.constant dense<[[64, -32], [96, 0]]> : tensor<2x2xi8> : tensor<2x2xi8>
        %y = graph.recurrence rnn %x, %w, %h {functions = [#graph.function<tanh>],
            state_exponent = -14 : i64, weight_exponents = array<i64: -7, -6>}
            : (tensor<3x1x2xf32>, tensor<2x2xi8>, tensor<1x2xf32>) -> tensor<3x1x2xf32>
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
    # The state of an RNN is limited by its only function, other states by gates and the last
    # function.
    last = layer.functions.data[-1]
    gates = layer.functions.data[:1] if layer.cell_kind is not Cell.RNN else ()
    if not all(f.data in UNIT_FUNCTIONS for f in (last, *gates)):
        return
    weights = np.asarray(constant.array(), np.float32)
    chosen = least_squares_exponents(weights)
    steps = np.exp2(chosen.astype(np.float32))[:, None]
    stored = np.clip(np.rint(weights / steps), *weight_bounds()).astype(np.int8)
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
    first = graph.constant_array(layer.state)
    bounds = observed_range(layer.state) if first is None else (first.min(), first.max())
    largest = 0.0 if bounds is None else float(max(-bounds[0], bounds[1]))
    return STATE_EXPONENT if largest <= 1 else fitting_exponent(largest) - EXTRA_FRACTION_BITS


@dataclass(frozen=True)
class StateRule(NetworkPass):
    """
    Store states as integers, if the argument is only quantized to the type from which the result is
    dequantized. Other states remain float.

    Exact: quantization after dequantization from the same type is the identity, and the first
    state, zero, is stored as the zero point.
    """

    name = "states"

    def change(self, main: FuncOp) -> None:
        for state in states_of(main):
            op = state.result.owner
            if isinstance(op, DequantizeOp) and stored_type(state.argument) == op.input.type:
                store_argument(state.argument)
                return_stored(main, state.position)
        main.update_function_type()


@dataclass(frozen=True)
class FloatSumRule(NetworkPass):
    """
    Fix the order of sums of all float convolutions and products in a partly quantized network: an
    `ordered` sum adds the products in the memory order of the weights. A float network that is not
    quantized keeps the fastest order.

    If the result of a float layer is quantized again, the last bit of a sum can decide between two
    integers. With a fixed order, all targets compute the same integers. Exact: any order was
    allowed before.

    Before:

        %a = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
        %y = graph.quantize %a : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>

    After:

        %a = graph.matmul %x, %w {ordered} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
        %y = graph.quantize %a : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>
    """

    name = "float-sums"

    def change(self, main: FuncOp) -> None:
        for layer in main.body.block.ops:
            if isinstance(layer, LinearOperation) and not layer.is_quantized:
                layer.ordered = UnitAttr()


@dataclass(frozen=True)
class QuantizeGraphPass(RulePass):
    """
    Convert a float network with known exponents to a quantized network.

    The rules replace recurrent layers and all other operations, store states as integers, and fix
    the order of the sums that remain in float.

    Before:

        func.func @main(%x: tensor<1x2xf32> {graph.exponent = -4 : i64}) -> tensor<1x1xf32> {
          %w = graph.constant dense<[[1.0, -0.5]]> : tensor<1x2xf32> : tensor<1x2xf32>
          %y = graph.matmul %x, %w {graph.weight_exponent = -6 : i64, graph.exponent = -3 : i64}
              : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
          func.return %y : tensor<1x1xf32>
        }

    After:

        func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
          %q = graph.quantize %x : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.0625>>
          %w = graph.constant dense<[[64, -32]]> : tensor<1x2xi8>
              : tensor<1x2x!quant.uniform<i8:f32, 0.015625>>
          %a = graph.matmul %q, %w
              {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>}
              : (tensor<1x2x!quant.uniform<i8:f32, 0.0625>>,
                 tensor<1x2x!quant.uniform<i8:f32, 0.015625>>)
              -> tensor<1x1x!quant.uniform<i8:f32, 0.125>>
          %y = graph.dequantize %a : (tensor<1x1x!quant.uniform<i8:f32, 0.125>>) -> tensor<1x1xf32>
          func.return %y : tensor<1x1xf32>
        }
    """

    name = "quantize-graph"

    def table(self) -> tuple[ModulePass, ...]:
        return RecurrenceRule(), QuantizeRule(), StateRule(), FloatSumRule()


@dataclass(frozen=True)
class StripBorderQuantizationPass(NetworkPass):
    """
    Change arguments and results to the types in which they are stored. An argument that is
    quantized to a single type gets this type. A result that is dequantized is returned as integers.
    Other arguments and results remain float, and stderr names the results with the reasons.

    Exact in the integers: the caller does the work of `graph.quantize` and `graph.dequantize`. An
    argument that `fit-inputs` divides has the scale that its integers have before the division. The
    weight scales of its consumers compensate for this.

    Before:

        %q = graph.quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
        %a = graph.reshape %q : (tensor<4x!quant.uniform<i8:f32, 0.5>>)
            -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>
        %y = graph.dequantize %a : (tensor<2x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x2xf32>

    After:

        %y = graph.reshape %x : (tensor<4x!quant.uniform<i8:f32, 0.5>>)
            -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>
    """

    name = "strip-border-quantization"

    def change(self, main: FuncOp) -> None:
        # States are not visible to the caller, and argument and result have the same type.
        states = {value for state in states_of(main) for value in (state.argument, state.result)}
        for argument in tuple(main.body.block.args):
            if argument not in states:
                _unscale(argument)
                store_argument(argument)
        for position, value in enumerate(result_values(main)):
            if value not in states:
                return_stored(main, position)
                self._report_float_output(
                    output_names(main)[position], result_values(main)[position]
                )
        main.update_function_type()

    def _report_float_output(self, name: str, value: SSAValue) -> None:
        op = value.owner
        if isinstance(op, graph.GraphOperation) and tensor_type(value).element_type == f32:
            known = op.attributes.get(FLOAT_REASON)
            reason = f": {known.data}" if isinstance(known, StringAttr) else ""
            remark(
                f"{self.name}: note: output '{name}' remains float, because '{node_name(op)}' is "
                f"computed in float{reason}"
            )


def _unscale(argument: SSAValue) -> None:
    """
    Remove the multiplication of a graph input by a scalar before the quantization, and change the
    scales of the quantized values and of the weights that consume them instead. The integers do not
    change. Nothing is changed if the input has other consumers, or if other operations than layers
    with constant weights and data movement use the quantized values.
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
    for value in values:  # The list grows in the loop.
        for user in (use.operation for use in value.uses):
            is_layer = isinstance(user, graph.LinearOperation)
            if is_layer and isinstance(user.weights.owner, graph.ConstantOp):
                layers[user] = None
            elif isinstance(user, graph.GraphOperation) and only_moves(user):
                values.append(user.results[0])
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
