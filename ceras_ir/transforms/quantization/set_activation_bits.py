"""
Choose the width of activations of less than 8 bits: the pass `set-activation-bits`.

The passes that choose scales and zero points, and quantize operations, query the width, see
`ceras_ir.network.storage.width`. `set-precision` sets 16 bits, and `set-weight-bits` the width of
weights.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.network.function import (
    has_quantized_form,
    input_names,
    is_join,
    is_quantized,
    keeps_scale,
    quantized_operations,
    uses_after_moves,
)
from ceras_ir.network.storage import set_width, width
from ceras_ir.support.diagnostics import UsageError, node_name, node_names
from ceras_ir.transforms.pass_kinds import NetworkPass
from ceras_ir.transforms.quantization.analysis.function_forms import is_table
from ceras_ir.transforms.quantization.analysis.qdq import COMES_QUANTIZED
from ceras_ir.transforms.quantization.set_precision import matching
from ceras_ir.transforms.quantization_options import ActivationBitsOptions, bits_and_layer


@dataclass(frozen=True)
class SetActivationBitsPass(ActivationBitsOptions, NetworkPass):
    """
    Set `graph.precision` of values that will be stored in 2 to 7 bits, before their ranges are
    observed.

    An entry `BITS:LAYER` of `activation_bits` sets the results of the layers with this name or
    pattern, or a graph input. An entry `BITS` sets the results of all layers, sums, averages and
    concatenations, with these exceptions, in which 4 bits would add most noise: graph inputs,
    operands of the last layers, later values, and operands of float operations. A later entry
    replaces an earlier one. Results of data movement and maximum poolings have the bits of the
    operand.

    Operands and results of tables, and operands of softmax, normalizations and products of
    activations, always have 8 bits. The pass changes no value.

    Before, with `activation_bits=4:conv1`:

        %y = graph.unary <relu> %x : tensor<1x2xf32> loc("conv1")

    After:

        %y = graph.unary <relu> %x {graph.precision = "i4"} : tensor<1x2xf32> loc("conv1")
    """

    name = "set-activation-bits"

    def change(self, main: FuncOp) -> None:
        if not self.activation_bits:
            return
        if is_quantized(main):
            raise UsageError(f"activation_bits: {COMES_QUANTIZED}")
        inside = quantized_operations(main)
        for value, bits in self._chosen(main, inside).items():
            set_width(value, bits)
        for op in inside:
            if keeps_scale(op) and not is_join(op):
                set_width(op.results[0], width(op.operands[0]))

    def _chosen(self, main: FuncOp, inside: dict[Operation, None]) -> dict[SSAValue, int]:
        """Return the bits of each value that `activation_bits` sets, without data movement."""
        names: dict[SSAValue, list[str]] = {
            op.results[0]: node_names(op) or [node_name(op)]
            for op in main.body.block.ops
            if isinstance(op, GraphOperation) and not isinstance(op, graph.ConstantOp)
        }
        arguments = zip(main.body.block.args, input_names(main), strict=True)
        names |= {argument: [name] for argument, name in arguments}
        inner, found = list(_inner(main, inside)), dict[SSAValue, int]()
        for entry in self.activation_bits:
            bits, layer = bits_and_layer(entry)
            chosen = inner
            if layer is not None:
                named = matching(names, [layer], "activation_bits")
                sources = dict.fromkeys(_source(value, inside) for value in named)
                chosen = [value for value in sources if _can_be_narrow(value, inside)]
                if not chosen:
                    raise UsageError(
                        f"activation_bits: the result of '{layer}' remains in 8 bits or in float, "
                        "because of the operation or a consumer"
                    )
            found |= dict.fromkeys(chosen, bits)
        return found


def _source(value: SSAValue, inside: dict[Operation, None]) -> SSAValue:
    """Return the value from which data movement and maximum poolings computed `value`."""
    op = value.owner
    while isinstance(op, Operation) and op in inside and keeps_scale(op) and not is_join(op):
        value = op.operands[0]
        op = value.owner
    return value


def _inner(main: FuncOp, inside: dict[Operation, None]) -> Iterator[SSAValue]:
    """
    Yield the results of arithmetic and of concatenations that only integer operations use, before
    the operands of the last layers.
    """
    before: set[Operation] = set()  # The operations before a layer.
    for op in reversed(list(main.body.block.ops)):
        users = [use.operation for result in op.results for use in result.uses]
        if any(isinstance(user, graph.LinearOperation) or user in before for user in users):
            before.add(op)
    layers = [op for op in inside if isinstance(op, graph.LinearOperation)]
    kept = {_source(layer.input, inside) for layer in layers if layer not in before}
    for op in (op for op in inside if op in before):
        value = op.results[0]
        is_source = has_quantized_form(op) or is_join(op)
        if is_source and value not in kept and _can_be_narrow(value, inside):
            users = (use.operation for use in uses_after_moves(value, joined=True))
            if all(user in inside for user in users):
                yield value


def _can_be_narrow(value: SSAValue, inside: dict[Operation, None]) -> bool:
    """
    Return whether `value` is stored in integers, is no operand or result of a table, and no operand
    of softmax, a normalization or a product of activations.
    """
    op = value.owner
    users = [use.operation for use in uses_after_moves(value, joined=True)]
    is_stored = op in inside or any(user in inside for user in users)
    is_result = isinstance(op, Operation) and _has_tables(op)
    return is_stored and not is_result and not any(u in inside and _needs_bytes(u) for u in users)


def _needs_bytes(op: Operation) -> bool:
    if isinstance(op, graph.LinearOperation):
        return not isinstance(op.weights.owner, graph.ConstantOp)
    return _has_tables(op)


def _has_tables(op: Operation) -> bool:
    return is_table(op) or isinstance(op, graph.SoftmaxOp | graph.NormalizeOp)
