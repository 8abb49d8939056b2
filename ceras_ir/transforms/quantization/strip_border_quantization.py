"""Let the caller pass and receive stored integers instead of floats."""

from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import QuantizeOp, tensor_type
from ceras_ir.network.function import output_names, result_values, states_of
from ceras_ir.network.quantizable import data_operands
from ceras_ir.network.storage import FLOAT_REASON
from ceras_ir.support.diagnostics import node_name, remark
from ceras_ir.transforms.network_pass import NetworkPass
from ceras_ir.transforms.quantization.analysis.qdq import only_moves
from ceras_ir.transforms.quantization.rewrites.borders import returned_as_stored, take_stored
from ceras_ir.transforms.rebuilding import erase_unused


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
