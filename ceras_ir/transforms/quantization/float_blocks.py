"""Replace operations on weights in blocks by float operations, for targets without them."""

from dataclasses import dataclass

from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp
from xdsl.rewriter import Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.function import module_of
from ceras_ir.support.diagnostics import remark
from ceras_ir.transforms.pass_kinds import NetworkPass
from ceras_ir.transforms.quantization_options import FloatFormOptions
from ceras_ir.transforms.rebuilding import erase_unused


@dataclass(frozen=True)
class FloatBlocksPass(FloatFormOptions, NetworkPass):
    """
    Replace packed weights in blocks by float weights, for targets that do not store such blocks
    (`Arithmetic.blocks`). The layers are then float layers, which can be quantized. A note on
    stderr gives the number of layers.

    Lookups are exact. Products do not quantize their input, so they have smaller errors.

    Before:

        %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
        %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
        %y = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64}
            : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>

    After:

        %real = graph.constant dense<[[0.0, -3.5, -3.5, -4.0, 0.0, 2.0, 0.5, -4.0]]>
            : tensor<1x8xf32> : tensor<1x8xf32>
        %y = graph.matmul %x, %real : (tensor<2x8xf32>, tensor<1x8xf32>) -> tensor<2x1xf32>
    """

    name = "float-blocks"

    def change(self, main: FuncOp) -> None:
        found: dict[int, int] = {}
        for op in list(module_of(main).walk()):
            if isinstance(op, graph.BlockOperation):
                found[op.width] = found.get(op.width, 0) + 1
                constants = [v.owner for v in (op.weights, op.scales, op.points) if v is not None]
                Rewriter.replace_op(op, _in_float(op))
                for constant in dict.fromkeys(constants):
                    assert isinstance(constant, graph.ConstantOp)
                    erase_unused(constant)
        form = "quantized to int8 again" if self.quantizes else "computed in float32"
        for bits, layers in sorted(found.items()):
            counted = f"{layers} layers are" if layers != 1 else "1 layer is"
            remark(
                f"{self.name}: note: {counted} {form}: the target stores no {bits}-bit weights in "
                "blocks"
            )


def _in_float(op: graph.BlockOperation) -> list[graph.GraphOperation]:
    """Return the constant of the real weights, and the float operation that uses it."""
    source = op.input if isinstance(op, graph.BlockMatmulOp) else op.result
    constant = graph.ConstantOp.from_array(op.known_weights(graph.shape_of(source)[1]))
    assert isinstance(op.weights.owner, graph.ConstantOp)
    constant.location = op.weights.owner.location
    if isinstance(op, graph.BlockMatmulOp):
        new = graph.MatmulOp(op.input, constant.result, op.bias, result_element=f32)
    else:
        assert isinstance(op, graph.BlockTakeOp)
        new = graph.TakeOp(constant.result, op.indices)
    new.attributes |= op.attributes
    new.location = op.location
    return [constant, new]
