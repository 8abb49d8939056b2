"""
Define the options for the model, and read it: shapes, lengths, fixed inputs, states, images of a
camera, decisions.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar

from ceras_ir.data.image_options import PIXEL_LAYOUTS, ImageOptions, InputImage
from ceras_ir.driver.data_options import image_options, network_image_options
from ceras_ir.network.lengths import Lengths, Shape, lengths_of, parse_shapes
from ceras_ir.support.diagnostics import UsageError, did_you_mean
from ceras_ir.support.options import choices_of, option, options, types_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from ceras_ir.frontends.onnx import Observer

MAX_SHOWN = 60
"""The characters of an invalid option that a message shows."""

BOOLEAN_WORDS = {"true": "1", "false": "0"}
"""The words for elements of a boolean input."""


def _shape(text: str) -> tuple[str, tuple[Shape, ...]]:
    name, _, shapes = text.rpartition("=")
    try:
        if not name:
            raise ValueError("expected NAME=1x3x224x224")
        return name, parse_shapes(shapes)
    except ValueError as error:
        shown = text if len(text) < MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
        raise argparse.ArgumentTypeError(f"{error}, got {shown!r}") from None


def _numbers(text: str) -> tuple[str, tuple[float, ...]]:
    name, _, numbers = text.rpartition("=")
    try:
        found = tuple(
            float(BOOLEAN_WORDS.get(number.lower(), number)) for number in numbers.split(",")
        )
    except ValueError:
        found = ()
    if not name or not found:
        raise argparse.ArgumentTypeError(
            f"expected NAME=16000, a list such as NAME=1,2, or NAME=true, got {text!r}"
        )
    return name, found


def _pair(text: str) -> tuple[str, str]:
    name, _, result = text.rpartition("=")
    if not name or not result:
        raise argparse.ArgumentTypeError(f"expected INPUT=OUTPUT, got {text!r}")
    return name, result


@options
class ShapeOptions:
    """The options for symbolic dimensions and inputs of a model."""

    batch: int = option(1, metavar="N", minimum=1)
    """Set a symbolic batch dimension to N."""
    shape: tuple[tuple[str, tuple[Shape, ...]], ...] = option(
        (), metavar="NAME=1x3x224x224", action="append", read=_shape, usual=True
    )
    """
    Set the shape of an input with symbolic dimensions; for each such input. ceras-compile and
    ceras-run also take several, such as NAME=1x32..512:32 or NAME=1x32,1x64: one program for all.
    For a value inside an ONNX model, NAME=1x3x0..480x0..640 is the maximum of extents that data
    decide.
    """
    set: tuple[tuple[str, tuple[float, ...]], ...] = option(
        (), metavar="NAME=16000", action="append", read=_numbers
    )
    """
    Fix an input to a number, or to a list of numbers with commas: it is removed, and conditions
    that depend on it are evaluated; may be repeated.
    """


@options
class StateOptions:
    """The option that declares states."""

    state: tuple[tuple[str, str], ...] = option(
        (), metavar="INPUT=OUTPUT", action="append", read=_pair
    )
    """
    Keep an output from call to call as this input, and hide both from callers; the first call uses
    zeros; may be repeated.
    """


Value = TypeVar("Value")


class Bindings(TypedDict):
    """
    The settings of the inputs of a model: the batch, shapes by input, and fixed values by input.
    """

    batch: int
    shapes: dict[str, tuple[int, ...]]
    values: dict[str, tuple[float, ...]]


class Interface(Bindings):
    """
    The settings of `Bindings` and `states`, which maps an input to the output of the previous call
    that it receives.
    """

    states: dict[str, str]


def interface_of(
    arguments: argparse.Namespace, shapes: Mapping[str, Shape] | None = None
) -> Interface:
    """
    Return the settings of inputs and states in parsed arguments. `shapes` are the shapes of inputs
    at one of several lengths.
    """
    return {**bindings_of(arguments, shapes), "states": dict(arguments.state)}


def bindings_of(
    arguments: argparse.Namespace | ShapeOptions, shapes: Mapping[str, Shape] | None = None
) -> Bindings:
    """
    Return the settings of `ShapeOptions` in parsed arguments. Without `shapes`, several lengths of
    an input are refused.
    """
    return {
        "batch": arguments.batch,
        "shapes": single_shapes(arguments) if shapes is None else dict(shapes),
        "values": _unique("--set", arguments.set),
    }


def given_lengths(arguments: argparse.Namespace | ShapeOptions) -> Lengths | None:
    """
    Return the lengths of an input that `--shape` specifies, or `None` if each input has a single
    shape.
    """
    return lengths_of(_unique("--shape", arguments.shape))


def single_shapes(arguments: argparse.Namespace | ShapeOptions) -> dict[str, Shape]:
    """
    Return the shape of each input in `--shape`. Raise a `UsageError` if an input has several
    lengths.
    """
    shapes = _unique("--shape", arguments.shape)
    if (lengths := lengths_of(shapes)) is not None:
        raise UsageError(
            f"--shape: '{lengths.input}' has {len(lengths.values)} lengths, and this command takes "
            f"a single length: give a shape such as {lengths.largest}. Check each with its "
            "shape: a float program of several lengths computes the bits of the program of each"
        )
    return {name: found[0] for name, found in shapes.items()}


def _unique(option: str, given: Sequence[tuple[str, Value]]) -> dict[str, Value]:
    """
    Return the value for each input from `given`, pairs of an input and a value. Raise a
    `UsageError` that names `option` if an input has two values.
    """
    names = [name for name, _ in given]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise UsageError(f"{option} is given twice for input '{twice[0]}': remove one")
    return dict(given)


MODEL_FILE = "an ONNX model, or IR text in .mlir"
"""The help of the argument of commands that read a model."""


def frame_size(text: str) -> tuple[int, int]:
    """Parse the height and width in text such as `240x320`."""
    found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected HxW, such as 240x320, got '{text}'")
    return int(found[1]), int(found[2])


def frame_crop(text: str) -> tuple[int, int, int, int]:
    """Parse the row, column, height and width in text such as `0,40,240x240`."""
    found = re.fullmatch(r"(\d{1,5}),(\d{1,5}),(\S+)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected Y,X,HxW, such as 0,40,240x240, got '{text}'")
    return int(found[1]), int(found[2]), *frame_size(found[3])


@options
class InputOptions:
    """The option that changes the type of the input."""

    input_image: InputImage | None = option(None, metavar="FORMAT")
    """
    Let the network take an image from a camera, uint8, divide it by --image-scale, subtract
    --image-mean and divide by --image-std; the other --image options apply to folders. nhwc and
    nchw are pixels of the size of the input. All others are frames, which are converted to RGB or
    gray, cropped and resized: gray, rgb888, bgr888, rgb565_be (the upper byte first), rgb565_le,
    yuyv, uyvy, nv12, nv21, and the Bayer patterns rggb, bggr, grbg and gbrg.

    Data of the model is converted to pixels or frames.
    """
    frame_size: tuple[int, int] | None = option(None, metavar="HxW", read=frame_size)
    """Take frames of this height and width."""
    frame_crop: tuple[int, int, int, int] | None = option(None, metavar="Y,X,HxW", read=frame_crop)
    """
    Use the part of the frame of this height and width, with its upper left corner at row Y and
    column X (default: the largest part in the middle with the proportions of the input).
    """
    frame_resize: Literal["linear", "nearest"] | None = option(None)
    """Resize the part to the input by this interpolation (default: linear)."""


@options
class OutputOptions:
    """The option that replaces scores by decisions."""

    decode: tuple[str, ...] = option(
        (), metavar="KIND[,OPTION=VALUE...]", action="append", read=str
    )
    """
    Compute decisions in the network, so that an application needs a single call: top (the best
    classes, such as top,count=3), ctc (the text of a recognizer, such as ctc,blank=0) or boxes (of
    a detector, by non-maximum suppression, such as boxes,overlap=0.45,least=0.3). labels=FILE adds
    the names of classes to the interface, and scores=NAME selects an output; ceras-opt --help-pass
    decode-outputs explains all options. May be repeated for other outputs.
    """


def read_model(
    arguments: argparse.Namespace,
    observe: "Observer | None" = None,
    shapes: "Mapping[str, Shape] | None" = None,
) -> "ModuleOp":
    """
    Import the network on the command line, and apply the changes of inputs and outputs that options
    request (`interface_passes`). `observe` receives the import of an ONNX file before transposes
    are eliminated. `shapes` are the shapes of inputs at one of several lengths.
    """
    from ceras_ir.pipeline.parsing import read_network

    module = read_network(arguments.model, **interface_of(arguments, shapes), observe=observe)
    for each in interface_passes(arguments):
        from xdsl.context import Context

        from ceras_ir.pipeline.verification import verify_module

        each.apply(Context(), module)
        verify_module(module)
    return module


FRAME_OPTIONS = ("size", "crop", "resize")
"""The options of `take-images` that `--frame-OPTION` sets."""


def interface_passes(arguments: argparse.Namespace) -> "tuple[ModulePass, ...]":
    """
    Return the passes that change inputs and outputs of the network, as `--input-image` and
    `--decode` request.
    """
    return (*_image_passes(arguments), *map(_decode_pass, arguments.decode))


def _decode_pass(text: str) -> "ModulePass":
    from ceras_ir.pipeline.pass_options import build, spell
    from ceras_ir.transforms.graph.decode_outputs import DecodeOutputsPass

    kind, *given = text.split(",")
    kinds = choices_of(types_of(DecodeOutputsPass)["kind"])
    if kind not in kinds:
        raise UsageError(
            f"--decode {text}: expected {', '.join(kinds)}, and options after commas, such as "
            f"--decode top,count=3{did_you_mean(kind, kinds)}"
        )
    words = [f"kind={kind}"]
    for each in given:
        key, equals, value = each.partition("=")
        if not equals:
            raise UsageError(f"--decode {text}: expected OPTION=VALUE after commas, got '{each}'")
        words.append(f"{key}={spell(value) if set(value) & set(' {}') else value}")
    return build(DecodeOutputsPass, " ".join(words), f"--decode {kind}")


def _image_passes(arguments: argparse.Namespace) -> "tuple[ModulePass, ...]":
    """Return the pass of `--input-image`, or () without the option."""
    layout = arguments.input_image
    given = {name: getattr(arguments, f"frame_{name}", None) for name in FRAME_OPTIONS}
    given = {name: value for name, value in given.items() if value is not None}
    if layout is None:
        if given:
            raise UsageError(f"--frame-{next(iter(given))} needs --input-image FORMAT")
        return ()
    from ceras_ir.transforms.graph.take_images import TakeImagesPass

    images = ImageOptions.parse(image_options(arguments, network_image_options(layout)))
    scale = images.divisor("float32")
    if "size" not in given and layout not in PIXEL_LAYOUTS:
        raise UsageError(
            f"--input-image {layout} needs --frame-size HxW: the height and width of a frame"
        )
    if given and layout in PIXEL_LAYOUTS:
        raise UsageError(f"--frame-{next(iter(given))} needs a frame: --input-image FORMAT")
    chosen = layout, images.layout, scale, images.mean, images.std
    return (TakeImagesPass(*chosen, channels=images.channels, **given),)


def title_of(path: str) -> str:
    """Return the name of the network in the file `path`: the file name without the suffix."""
    return Path(path).stem or "model"
