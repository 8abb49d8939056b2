"""Change the input of a network from a float image to the bytes of a camera."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xdsl.dialects import builtin
from xdsl.dialects.builtin import StringAttr, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.data.image_options import PIXEL_LAYOUTS, InputImage
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.camera import Channels, FrameFormat
from ceras_ir.dialects.graph.lookup import BYTE
from ceras_ir.dialects.graph.operation import is_tensor
from ceras_ir.dialects.graph.pooling import Resize
from ceras_ir.network.frames import Frame
from ceras_ir.network.function import NAME, input_names
from ceras_ir.network.pixels import PIXELS, Pixels
from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.transforms.pass_kinds import NetworkPass

AUTO = "auto"

TO_NCHW, TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


@dataclass(frozen=True)
class TakeImagesPass(NetworkPass):
    """
    Replace the float image input of a network by plain ui8.

    The network computes the former input, `(pixel / scale - mean) / std`, with an operation in
    float32 for each step. `graph.pixels` records the formula for float samples. `layout` is the
    layout of the bytes, which are transposed if the network requires another. With the format of a
    camera as `layout`, `graph.decode_frame` converts the frame first. The network must have a
    single input, of f32 and four dimensions.

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

    layout: InputImage = "nhwc"
    """The layout of the bytes, or the format of a frame."""
    of: str = AUTO
    """The layout of the float input; by default derived from the shape."""
    scale: float = 255.0
    """The first divisor of pixels."""
    mean: tuple[float, ...] = (0.0,)
    """The value to subtract then: a single number or a number per channel."""
    std: tuple[float, ...] = (1.0,)
    """The divisor of the difference: a single number or a number per channel."""
    size: tuple[int, ...] = ()
    """Height and width of frames; by default, those of the input."""
    crop: tuple[int, ...] = ()
    """
    Top, left, height and width of the part of a frame that becomes the image; by default, the
    largest part in the middle with the proportions of the input.
    """
    resize: Literal["linear", "nearest"] = "linear"
    """The interpolation, if the crop has another size than the input."""
    channels: Literal["rgb", "bgr"] = "rgb"
    """The order of channels in the input of the network, if it has three."""

    def __post_init__(self) -> None:
        if self.of not in (AUTO, "nchw", "nhwc"):
            raise UsageError(
                f"option 'of' of pass '{self.name}' must be auto, nchw or nhwc, got '{self.of}'"
            )
        if self.scale == 0.0 or 0.0 in self.std:
            raise UsageError(f"options 'scale' and 'std' of pass '{self.name}' must not be 0")
        for name, values, count in (("size", self.size, 2), ("crop", self.crop, 4)):
            if values and (len(values) != count or self.layout in PIXEL_LAYOUTS):
                raise UsageError(
                    f"option '{name}' of pass '{self.name}' needs {count} numbers, and the format "
                    f"of a frame as layout, got {values} and {self.layout}"
                )

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
        height, width = shape[2:] if planar else shape[1:3]
        _take(main, self, planar, self._frame(height, width, channels))

    def _frame(self, height: int, width: int, channels: int) -> Frame | None:
        """
        Return the format and crop of camera frames from which the image [height, width, channels]
        of the network is computed. Return `None` if the network receives pixels, not frames.
        """
        if self.layout in PIXEL_LAYOUTS:
            return None
        if channels not in (1, 3):
            raise InputError(
                f"frames become images of 1 or 3 channels, but the input has {channels}: leave out "
                "--input-image"
            )
        rows, columns = self.size or (height, width)
        # The largest part with the proportions of the image.
        part = (
            min(rows, max(1, columns * height // width)),
            min(columns, max(1, rows * width // height)),
        )
        middle = ((rows - part[0]) // 2, (columns - part[1]) // 2, *part)
        top, left, *extents = self.crop or middle
        frame = Frame(
            FrameFormat(self.layout),
            (rows, columns),
            (top, left, extents[0], extents[1]),
            Channels.GRAY if channels == 1 else Channels(self.channels),
            Resize(self.resize),
        )
        if error := frame.error:
            raise UsageError(f"--input-image {self.layout}: {error}")
        return frame

    def _is_planar(self, shape: tuple[int, ...]) -> bool:
        from ceras_ir.data.image_folder import is_planar

        return is_planar(shape) if self.of == AUTO else self.of == "nchw"


def _take(main: FuncOp, images: TakeImagesPass, planar: bool, frame: Frame | None) -> None:
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
    kind = builtin.TensorType(BYTE, stored_shape if frame is None else frame.layout.shape)
    value = Rewriter.replace_value_with_new_type(value, kind)
    ops: list[graph.GraphOperation] = []
    if frame is not None:
        size = stored_shape[1], stored_shape[2]
        kinds = frame.format, frame.channels, frame.resize
        ops.append(graph.DecodeFrameOp(value, *kinds, frame.crop, size))
    ops.append(graph.CastOp(ops[-1].output if ops else value, f32))
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
    pixels = Pixels(order, channel_axis, images.scale, images.mean, images.std, frame)
    entries = {NAME: StringAttr(name), PIXELS: pixels.to_attribute()}
    main.arg_attrs = builtin.ArrayAttr([builtin.DictionaryAttr(entries)])
