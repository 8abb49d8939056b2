"""The command-line options that compile, run and verify have in common."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypedDict, TypeVar

from ceras_ir.command.tool_parser import ArgumentContainer, ToolParser
from ceras_ir.driver.calibration_options import (
    NETWORK,
    add_calibration,
    calibration_of,
    image_options,
)
from ceras_ir.pipeline.context import load_universe
from ceras_ir.pipeline.options import BuildOptions, CalibrationOptions, Insertion, PrecisionOptions
from ceras_ir.pipeline.pass_options import with_values
from ceras_ir.pipeline.pipeline_text import build_pipeline, parse_pipeline
from ceras_ir.pipeline.plugins import add_plugins
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.quantization.recipe import (
    DEFAULT_BUDGET,
    HOST_BUDGET,
    NONE,
    OPTIONAL,
    REMOVED_FLAGS,
    check_recipe,
)

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ceras_ir.frontends.onnx import Observer
    from ceras_ir.pipeline.instrumentation import Watching

EXIT_STATUS = (
    "Exit status: 0 done, 1 bad input, 2 wrong usage, 3 valid input that is not supported, "
    "70 an internal error."
)


def add_build_options(parser: ToolParser) -> None:
    """Options that decide what is compiled, whatever the target."""
    group = parser.add_argument_group("compilation")
    group.add_argument(
        "--quantize",
        choices=("auto", "int8", "none"),
        default="auto",
        help="compute in int8 (int8) or as the model says (none); auto is int8 if the model has "
        "Q/DQ, calibration data is given, or the target has no floating point "
        "(default: %(default)s)",
    )
    add_scheme(group)
    group.add_argument(
        "--prune",
        metavar="OPTIONS",
        help='set the least important weights to zero: "threshold=0.01", "sparsity=0.9" of every '
        'layer, "method=filter sparsity=0.9" of every filter, "ratios=conv1:0.9,fc*:0.8", or what '
        'a scan proposes for "target-bytes=..."; see the pass prune',
    )
    add_shapes(group)
    add_states(group)
    group.add_argument(
        "--input-image",
        choices=("nhwc", "nchw"),
        help="let the network take an image as a camera gives it, uint8 in this layout, and divide "
        "by --image-scale, subtract --image-mean and divide by --image-std itself; the other "
        "--image options say how folders are read",
    )
    add_extensions(parser)


def add_extensions(parser: ToolParser) -> None:
    """Plugins, and passes of the user's between levels."""
    group = parser.add_argument_group("plugins")
    add_plugins(group)
    group.add_argument(
        "--at",
        nargs=2,
        action="append",
        default=[],
        metavar=("LEVEL", "PIPELINE"),
        help='run passes behind a level, such as --at "fused graph" "my-pass{x=1}"; they must '
        "change no value (ceras-verify checks it); may be repeated",
    )


def insertions_of(arguments: argparse.Namespace) -> tuple[Insertion, ...]:
    """The passes of `--at`."""
    passes = load_universe().all_passes if arguments.at else {}
    return tuple(
        Insertion(level, text, tuple(build_pipeline(parse_pipeline(text), passes)))
        for level, text in arguments.at
    )


def add_scheme(group: ArgumentContainer) -> None:
    """How the network is quantized, if it is."""
    add_calibration(group)
    group.add_argument(
        "--recipe",
        type=recipe_names,
        action="extend",
        default=[],
        metavar="PASS,...",
        help=f"run these optional passes of quantization, of {', '.join(OPTIONAL)}; or {NONE} "
        "(default: all, but choose-row-exponents only where the target shifts each channel by "
        "itself)",
    )
    group.add_argument(
        "--silu",
        choices=("auto", "table", "table16", "hardswish", "float", "piecewise"),
        default="auto",
        help="compute SiLU by a table on int8 (table) or on 16 bits (table16), as HardSwish (a "
        "warning states the cost), in float, or by MIN, MAX, ADD and shifts (piecewise); auto, "
        "the default: by tables, on 16 bits where it matters, or as the target prefers",
    )
    group.add_argument(
        "--rows",
        choices=("auto", "integer", "float"),
        default="auto",
        help="compute softmax and normalizations in integers, or in float between them; auto, the "
        "default: in integers where the target has them",
    )
    add_precision(group)


def add_arithmetic(group: ArgumentContainer) -> None:
    """The target in whose arithmetic a network is quantized that is not compiled for it."""
    group.add_argument(
        "--target",
        metavar="NAME",
        help="quantize in the arithmetic of this target (default: of any)",
    )
    group.add_argument("--board", metavar="NAME|FILE", help="quantize for this board of the target")


def arithmetic_of(arguments: argparse.Namespace) -> Target | None:
    """The target that the options of `add_arithmetic` name, if any."""
    if arguments.target is not None:
        given = {} if arguments.board is None else {"board": arguments.board}
        return with_values(find_target(arguments.target), given)
    if arguments.board is not None:
        raise UsageError("--board is of a target: add --target")
    return None


def add_precision(group: ArgumentContainer) -> None:
    """Layers that keep more precision than int8."""
    for name, what in (
        ("int16", "store these layers in 16 bits"),
        ("float", "compute these layers in float"),
    ):
        group.add_argument(
            f"--{name}",
            type=names,
            action="extend",
            default=[],
            metavar="LAYER,...",
            help=f"{what}, by node name or pattern such as 'conv_*'; may be repeated",
        )
    group.add_argument(
        "--budget",
        type=_share,
        metavar="SHARE",
        help="let values in 16 bits take this share of the network's modelled time, those first "
        f"that int8 hurts most; 0 for none (default: {DEFAULT_BUDGET:g}, and {HOST_BUDGET:g} where "
        "layers with such values leave the accelerator for its host)",
    )
    for removed, instead in REMOVED_FLAGS.items():
        group.add_argument(removed, type=_removed(removed, instead), help=argparse.SUPPRESS)


def precision_options(arguments: argparse.Namespace) -> PrecisionOptions:
    """The options of `add_precision`."""
    return PrecisionOptions(
        tuple(arguments.int16),
        tuple(arguments.float),
        arguments.budget,
    )


def recipe_names(text: str) -> list[str]:
    """The passes of `--recipe`, checked."""
    found = names(text)
    check_recipe(found, "--recipe")
    return found


def _removed(option: str, instead: str) -> Callable[[str], NoReturn]:
    def refuse(value: str) -> NoReturn:
        raise UsageError(f"{option} is gone: {instead}")

    return refuse


def names(text: str) -> list[str]:
    """The names in a list with commas, none of them empty."""
    found = text.split(",")
    if not all(found):
        raise argparse.ArgumentTypeError(f"expected names with commas between, got {text!r}")
    return found


def add_shapes(group: ArgumentContainer) -> None:
    """What symbolic dimensions of the model are."""
    group.add_argument(
        "--batch",
        type=_positive,
        default=1,
        metavar="N",
        help="set a symbolic batch dimension to N (default: %(default)s)",
    )
    group.add_argument(
        "--shape",
        type=_shape,
        action="append",
        default=[],
        metavar="NAME=1x3x224x224",
        help="set the shape of an input with symbolic dimensions; once for each such input",
    )
    group.add_argument(
        "--set",
        type=_numbers,
        action="append",
        default=[],
        metavar="NAME=16000",
        help="fix an input to a number, or to a list of them with commas: it is no input any more, "
        "and conditions that it decides are taken; may be repeated",
    )


def add_states(group: ArgumentContainer) -> None:
    """The option that says which inputs are states."""
    group.add_argument(
        "--state",
        type=_pair,
        action="append",
        default=[],
        metavar="INPUT=OUTPUT",
        help="keep an output from call to call as this input, which callers then see neither of; "
        "the first call reads zeros; may be repeated",
    )


Value = TypeVar("Value")

TRUTH = {"true": "1", "false": "0"}
"""Words for the elements of a boolean input."""


class Bindings(TypedDict):
    """What decides the inputs of a model, as `read_network` takes it."""

    batch: int
    shapes: dict[str, tuple[int, ...]]
    values: dict[str, tuple[float, ...]]


class Interface(Bindings):
    """The same, with the inputs that are states."""

    states: dict[str, str]


def interface_of(arguments: argparse.Namespace) -> Interface:
    """What the options of `add_build_options` say of a network's inputs and outputs."""
    return {**bindings_of(arguments), "states": dict(arguments.state)}


def bindings_of(arguments: argparse.Namespace) -> Bindings:
    """The options of `add_shapes`."""
    return {
        "batch": arguments.batch,
        "shapes": _unique("--shape", arguments.shape),
        "values": _unique("--set", arguments.set),
    }


def _unique(option: str, given: Sequence[tuple[str, Value]]) -> dict[str, Value]:
    """Return what an option gives for each input; refuse two for one input."""
    names = [name for name, _ in given]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise UsageError(f"{option} is given twice for input '{twice[0]}': remove one")
    return dict(given)


def read_model(arguments: argparse.Namespace, observe: "Observer | None" = None) -> "ModuleOp":
    """The network that a command line names, which takes bytes if `--input-image` says so."""
    from ceras_ir.pipeline.reading import read_network

    module = read_network(arguments.model, **interface_of(arguments), observe=observe)
    if arguments.input_image is not None:
        _take_images(module, arguments)
    return module


def _take_images(module: "ModuleOp", arguments: argparse.Namespace) -> None:
    from xdsl.context import Context

    from ceras_ir.data.image_folder import ImageOptions
    from ceras_ir.pipeline.verification import verify_module
    from ceras_ir.transforms.graph.take_images import TakeImagesPass

    images = ImageOptions.parse(image_options(arguments, NETWORK))
    scale = images.divisor("float32")
    chosen = arguments.input_image, images.layout, scale, images.mean, images.std
    TakeImagesPass(*chosen).apply(Context(), module)
    verify_module(module)


def add_io(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--io",
        choices=("model", "int8"),
        default="model",
        help="give inputs and outputs the model's own types, or int8 (default: %(default)s)",
    )


def add_bisection(parser: argparse.ArgumentParser, inputs: str) -> None:
    """Add --bisect-passes, which compares outputs on `inputs`."""
    parser.add_argument(
        "--bisect-passes",
        action="store_true",
        help=f"run the network behind every pass that must change no value, on {inputs}, and stop "
        "at the first one that does, with a reproducer",
    )


def watching_of(arguments: argparse.Namespace, inputs: str | None) -> "Watching | None":
    """What --bisect-passes has looked at behind every pass, on a few of `inputs`."""
    if not arguments.bisect_passes:
        return None
    from ceras_ir.driver.bisection import by_outputs

    return partial(by_outputs, inputs=inputs)


def build_options(arguments: argparse.Namespace, target: Target) -> BuildOptions:
    """The parsed options as the stages take them."""
    return replace(
        scheme_of(arguments, target),
        quantize=arguments.quantize,
        io=getattr(arguments, "io", "model"),
        prune=arguments.prune,
        title=title_of(arguments.model),
    )


def scheme_of(arguments: argparse.Namespace, target: Target | None = None) -> BuildOptions:
    """The options of `add_scheme` and `add_extensions`; without a target, for any arithmetic."""
    return BuildOptions(
        target=Target() if target is None else target,
        calibrate=calibration_of(arguments),
        calibration=CalibrationOptions(arguments.calibration_samples, arguments.calibration_seed),
        observer=arguments.observer,
        recipe=tuple(arguments.recipe),
        precision=precision_options(arguments),
        silu=arguments.silu,
        rows=arguments.rows,
        insertions=insertions_of(arguments),
    )


def title_of(path: str) -> str:
    """What the network in a file is called."""
    return Path(path).stem or "model"


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, extents = text.rpartition("=")
    parts = extents.split("x")
    if not name or not all(p.isdecimal() and int(p) < 1 << 31 for p in parts):
        raise argparse.ArgumentTypeError(f"expected NAME=1x3x224x224, got {text!r}")
    return name, tuple(map(int, parts))


def _numbers(text: str) -> tuple[str, tuple[float, ...]]:
    name, _, numbers = text.rpartition("=")
    try:
        found = tuple(float(TRUTH.get(number.lower(), number)) for number in numbers.split(","))
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


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not share >= 0:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, got {text!r}")
    return share


def _positive(text: str) -> int:
    if not text.isdecimal() or (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return value
