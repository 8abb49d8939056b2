"""Change the input of a network from a float image to the bytes of a camera."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from xdsl.dialects import builtin
from xdsl.dialects.builtin import StringAttr, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.lookup import BYTE
from ceras_ir.dialects.graph.operation import is_tensor
from ceras_ir.network.function import NAME, input_names
from ceras_ir.network.pixels import PIXELS, Pixels
from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.transforms.pass_kinds import NetworkPass

Layout: TypeAlias = Literal["nchw", "nhwc"]
AUTO = "auto"

TO_NCHW, TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


@dataclass(frozen=True)
class TakeImagesPass(NetworkPass):
    """
    Replace the float image input of a network by plain ui8.

    The network computes the former input, `(pixel / scale - mean) / std`, with an operation in
    float32 for each step. `graph.pixels` records the formula for float samples. `layout` is the
    layout of the bytes, which are transposed if the network requires another. The network must have
    a single input, of f32 and four dimensions.

    Before:

        func.func @main(%x: tensor<1x4x4x3xf32> {graph.name = "x"}) -> tensor<1x4x4x3xf32> {
          %y = graph.unary <relu> %x : tensor<1x4x4x3xf32>
          func.return %y : tensor<1x4x4x3xf32>
        }

    After:

        func.func @main(%x: tensor<1x4x4x3xui8> {graph.name = "x", graph.pixels = {scale =
            array<f32: 255.0>, mean = array<f32: 0.0>, std = array<f32: 1.0>, axes = array<i64: 0,
            1, 2, 3>, channel_axis = array<i64: 3>}}) -> tensor<1x4x4x3xf32> {
          %a = graph.cast %x : (tensor<1x4x4x3xui8>) -> tensor<1x4x4x3xf32>
          %s = graph.constant dense<255.0> : tensor<f32> : tensor<f32>
          %b = graph.binary div %a, %s : (tensor<1x4x4x3xf32>, tensor<f32>) -> tensor<1x4x4x3xf32>
          %y = graph.unary <relu> %b : tensor<1x4x4x3xf32>
          func.return %y : tensor<1x4x4x3xf32>
        }
    """

    name = "take-images"

    layout: Layout = "nhwc"
    """The layout of the bytes."""
    of: str = AUTO
    """The layout of the float input; by default derived from the shape."""
    scale: float = 255.0
    """The first divisor of pixels."""
    mean: tuple[float, ...] = (0.0,)
    """The value to subtract then: a single number or a number per channel."""
    std: tuple[float, ...] = (1.0,)
    """The divisor of the difference: a single number or a number per channel."""

    def __post_init__(self) -> None:
        if self.of not in (AUTO, "nchw", "nhwc"):
            raise UsageError(
                f"option 'of' of pass '{self.name}' must be auto, nchw or nhwc, got '{self.of}'"
            )
        if self.scale == 0.0 or 0.0 in self.std:
            raise UsageError(f"options 'scale' and 'std' of pass '{self.name}' must not be 0")

    def change(self, main: FuncOp) -> None:
        arguments = main.body.block.args
        name = ", ".join(input_names(main))
        is_image = (
            len(arguments) == 1
            and is_tensor(arguments[0].type)
            and len(graph.shape_of(arguments[0])) == 4
            and isinstance(graph.element_of(arguments[0]), builtin.Float32Type)
        )
        if not is_image:
            raise InputError(
                f"images require a single float input of four dimensions, got {name or 'none'}: "
                "leave out --input-image"
            )
        shape = graph.shape_of(arguments[0])
        planar = self._is_planar(shape)
        channels = shape[1 if planar else 3]
        for option in ("mean", "std"):
            if (count := len(getattr(self, option))) not in (1, channels):
                raise UsageError(f"--image-{option} has {count} values for {channels} channels")
        _take(main, self, planar)

    def _is_planar(self, shape: tuple[int, ...]) -> bool:
        from ceras_ir.data.image_folder import is_planar

        return is_planar(shape) if self.of == AUTO else self.of == "nchw"


def _take(main: FuncOp, images: TakeImagesPass, planar: bool) -> None:
    import numpy as np

    (value,) = main.body.block.args
    (name,) = input_names(main)
    shape = graph.shape_of(value)
    order = tuple(range(4))
    if planar != (images.layout == "nchw"):
        order = TO_NCHW if planar else TO_NHWC
    stored_shape = [0] * 4
    for i, d in enumerate(order):
        stored_shape[d] = shape[i]
    axes = (-1, 1, 1) if images.layout == "nchw" else (-1,)
    kind = builtin.TensorType(BYTE, stored_shape)
    value = Rewriter.replace_value_with_new_type(value, kind)
    ops: list[graph.GraphOperation] = [graph.CastOp(value, f32)]
    for function, numbers, neutral in (
        (graph.Binary.DIV, (images.scale,), 1.0),
        (graph.Binary.SUB, images.mean, 0.0),
        (graph.Binary.DIV, images.std, 1.0),
    ):
        if set(numbers) == {neutral}:
            continue
        array = np.array(numbers, np.float32)
        array = array.reshape(axes) if array.size > 1 else array.reshape(())
        constant = graph.ConstantOp.from_array(array, f32)
        last = ops[-1].output
        ops += [constant, graph.BinaryOp(function, last, constant.result, result_element=f32)]
    if order != tuple(range(4)):
        ops.append(graph.TransposeOp(ops[-1].output, order))
    for op in ops:
        op.location = builtin.NameLoc(StringAttr(name), builtin.UnknownLoc())
    first: SSAValue = ops[-1].output
    value.replace_uses_with_if(first, lambda use: use.operation is not ops[0])
    Rewriter.insert_op(ops, InsertPoint.at_start(main.body.block))
    main.properties["function_type"] = builtin.FunctionType.from_lists(
        [kind], list(main.function_type.outputs)
    )
    # Samples of the model can be converted. The other attributes describe floats.
    channel_axis = 1 if images.layout == "nchw" else 3
    pixels = Pixels(order, channel_axis, images.scale, images.mean, images.std)
    entries = {NAME: StringAttr(name), PIXELS: pixels.to_attribute()}
    main.arg_attrs = builtin.ArrayAttr([builtin.DictionaryAttr(entries)])
