"""
Store weights of less than 8 bits as the network and the target need them.

`float-weights` applies to networks without quantized activations. `widen-weights` applies to
targets, which declare the widths that they store in `Arithmetic.weight_widths`. Other passes accept
constants of any width.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, DenseResourceAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.calls import called_functions
from ceras_ir.dialects.quant import UniformType
from ceras_ir.network.function import module_of
from ceras_ir.network.storage import NARROW
from ceras_ir.support.diagnostics import remark
from ceras_ir.support.options import inherited
from ceras_ir.targets.protocol import Arithmetic
from ceras_ir.targets.registry import find_target
from ceras_ir.targets.shared_options import TargetNameOptions
from ceras_ir.transforms.pass_kinds import NetworkPass
from ceras_ir.transforms.quantization.analysis.qdq import carries_quantization
from ceras_ir.transforms.quantization.fold_qdq import folded
from ceras_ir.transforms.rebuilding import erase_unused


@dataclass(frozen=True)
class FloatWeightsPass(NetworkPass):
    """
    Replace dequantized constants of less than 8 bits by float constants, if no activation is
    quantized. The layers are then float layers, which are fused, and can be quantized. A note on
    stderr gives the number of layers.

    Exact: the interpreter computes the constants.

    Before:

        %w = graph.constant dense<[[7, -8]]> : tensor<1x2xi4>
            : tensor<1x2x!quant.uniform<i4:f32, 0.5>>
        %y = graph.dequantize %w : (tensor<1x2x!quant.uniform<i4:f32, 0.5>>) -> tensor<1x2xf32>

    After:

        %y = graph.constant dense<[[3.5, -4.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
    """

    name = "float-weights"

    quantizes: bool = False
    """Whether the network will be quantized, for the note."""

    def change(self, main: FuncOp) -> None:
        module = module_of(main)
        if carries_quantization(module):
            return
        layers: dict[int, dict[Operation, None]] = {}
        for op in list(module.walk()):
            if not isinstance(op, graph.DequantizeOp):
                continue
            width = graph.stored_element(op.input).width
            if width >= NARROW or (new := folded(op)) is None:
                continue
            layers.setdefault(width, {}).update(dict.fromkeys(u.operation for u in op.result.uses))
            constant = op.input.owner
            assert isinstance(constant, graph.ConstantOp)
            Rewriter.replace_op(op, new)
            erase_unused(constant)
        for width, users in sorted(layers.items()):
            verb = "quantized to int8 again" if self.quantizes else "computed in float32"
            remark(f"{self.name}: note: {_counted(len(users), width)} {verb}")


@dataclass(frozen=True)
class WidenWeightsPass(TargetNameOptions, NetworkPass):
    """
    Store constants of few bits in the next width that the target stores, such as 8 bits. A note on
    stderr gives the number of layers.

    Values that are moved from such a constant, such as rows of a table, get the same type.

    Exact: integers, scales and zero points do not change.

    Before:

        %w = graph.constant dense<[[7, -8]]> : tensor<1x2xi4>
            : tensor<1x2x!quant.uniform<i4:f32, 0.5>>
        %y = graph.dequantize %w : (tensor<1x2x!quant.uniform<i4:f32, 0.5>>) -> tensor<1x2xf32>

    After:

        %w = graph.constant dense<[[7, -8]]> : tensor<1x2xi8>
            : tensor<1x2x!quant.uniform<i8:f32, 0.5>>
        %y = graph.dequantize %w : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2xf32>
    """

    name = "widen-weights"

    target: str | None = inherited(TargetNameOptions, "target", None)
    """The target that stores the weights; default: a target that stores weights in 8 bits."""

    def change(self, main: FuncOp) -> None:
        arithmetic = Arithmetic() if self.target is None else find_target(self.target).arithmetic
        changed: list[tuple[graph.ConstantOp, UniformType]] = []
        layers: dict[tuple[int, int], dict[Operation, None]] = {}
        functions = (main, *called_functions(main))
        for constant in (op for function in functions for op in function.body.block.ops):
            if not isinstance(constant, graph.ConstantOp):
                continue
            if (element := graph.quantized_element(constant.result)) is None:
                continue
            if (width := arithmetic.stored_width(element.width)) == element.width:
                continue
            changed.append((constant, element.widened(width)))
            users = dict.fromkeys(_layers(constant.result))
            layers.setdefault((element.width, width), {}).update(users)
        for constant, element in changed:
            _widen(constant, element)
        stored = " or ".join(map(str, arithmetic.weight_widths))
        for (old, new), users in sorted(layers.items()):
            owner = "the target" if self.target is None else f"target {self.target}"
            remark(
                f"{self.name}: note: {_counted(len(users), old)} stored as int{new}: {owner} "
                f"stores weights in {stored} bits"
            )


def _counted(layers: int, bits: int) -> str:
    """Return the beginning of a sentence about layers with weights of `bits` bits."""
    return (
        f"{layers} layers with {bits}-bit weights are"
        if layers != 1
        else (f"1 layer with {bits}-bit weights is")
    )


def _moved(value: SSAValue) -> Iterator[SSAValue]:
    """Yield the results that have the element type of `value` because they are moved from it."""
    for use in value.uses:
        if "requant" not in use.operation.properties:
            for result in use.operation.results:
                if graph.element_of(result) == graph.element_of(value):
                    yield result


def _layers(value: SSAValue) -> Iterator[Operation]:
    """Yield the operations that compute with `value`, after data movement and dequantization."""
    moved = set(_moved(value))
    for op in (use.operation for use in value.uses):
        if isinstance(op, graph.DequantizeOp):
            yield from (use.operation for use in op.result.uses)
        elif moved.isdisjoint(op.results):
            yield op
    for result in moved:
        yield from _layers(result)


def _widen(constant: graph.ConstantOp, element: UniformType) -> None:
    # The bytes are the same, because an element below 8 bits occupies a byte.
    kind, held = TensorType(element.storage, graph.shape_of(constant.result)), constant.value
    if isinstance(held, DenseResourceAttr):
        constant.value = DenseResourceAttr(held.resource_handle, kind)
    elif isa(held, DenseIntOrFPElementsAttr):
        constant.value = DenseIntOrFPElementsAttr(kind, held.data)
    values: list[SSAValue] = [constant.result]
    for value in values:  # The list grows in the loop.
        values += _moved(value)
        Rewriter.replace_value_with_new_type(value, graph.type_with_element(value, element))
