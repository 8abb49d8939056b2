"""The command-line options that compile, run and verify have in common."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import get_args

from ceras_ir.command.tool_parser import ArgumentContainer
from ceras_ir.driver.calibration_options import add_calibration, calibration_of
from ceras_ir.driver.pipeline.stages import TARGETS, BuildOptions, Convolution, PrecisionOptions
from ceras_ir.transforms.quantization.rewrites.recipes import ASYMMETRIC, AUTO, RECIPES, SYMMETRIC

EXIT_STATUS = (
    "Exit status: 0 done, 1 bad input, 2 wrong usage, 3 valid input that is not supported, "
    "70 an internal error."
)


def add_build_options(parser: argparse.ArgumentParser) -> None:
    """Options that decide what is compiled."""
    group = parser.add_argument_group("compilation")
    group.add_argument(
        "--board", metavar="NAME|FILE", help="board description: a built-in name or a file"
    )
    group.add_argument(
        "--quantize",
        choices=("auto", "int8", "none"),
        default="auto",
        help="int8 with power-of-two scales; auto: if calibration data is given or the target "
        "has no floating point (default: %(default)s)",
    )
    add_scheme(group)
    group.add_argument(
        "--prune",
        metavar="OPTIONS",
        help='set weights to zero that matter least: "method=magnitude threshold=0.01", or '
        '"sparsity=0.9" for that share of every layer',
    )
    group.add_argument(
        "--no-winograd",
        dest="winograd",
        action="store_false",
        help="target c: compute float 3x3 windows by definition, though transforms are faster",
    )
    group.add_argument(
        "--encoding",
        choices=("auto", "dense", "csr", "csr-int8", "code"),
        help="how weights of float matrix products lie in flash; auto, the default of arduino, "
        "compresses only as far as the board's memory asks for",
    )
    group.add_argument(
        "--weights",
        choices=("source", "file", "incbin"),
        default="source",
        help="where the constants of target c are: string literals, a file that the program "
        "loads, or a file that the assembler includes (default: %(default)s)",
    )
    group.add_argument(
        "--regions",
        metavar="NAME:BYTES,...",
        help="memories that target c has, the preferred one first, such as sram:65536,psram:"
        "8388608: every result lies in one of them, none holds more than it has",
    )
    group.add_argument(
        "--convolution",
        choices=get_args(Convolution),
        default="auto",
        help="how target vta computes windows of several taps: with all inputs of a window on "
        "chip, as a product of a matrix that the host makes, or tap by tap; auto, the default, by "
        "modelled time",
    )
    group.add_argument(
        "--jobs",
        type=_jobs,
        default=1,
        metavar="N",
        help="processes that search for schedules of target vta, -1 for one per core; the result "
        "is the same (default: %(default)s)",
    )
    add_shapes(group)


def _jobs(text: str) -> int:
    jobs = int(text) if text.removeprefix("-").isdecimal() else 0
    if jobs < -1 or jobs == 0:
        raise argparse.ArgumentTypeError(f"must be at least 1, or -1 for all cores, got {text}")
    return jobs


def add_scheme(group: ArgumentContainer) -> None:
    """How the network is quantized, if it is."""
    add_calibration(group)
    group.add_argument(
        "--recipe",
        choices=(AUTO, *RECIPES),
        default=AUTO,
        metavar="RECIPE",
        help="which passes make quantization better; auto, the default, tries some on the "
        f"calibration data; or one of {', '.join(SYMMETRIC)}, with {ASYMMETRIC} before it for "
        "zero points",
    )
    group.add_argument(
        "--silu",
        choices=("auto", "table", "table16", "hardswish", "float", "piecewise"),
        default="auto",
        help="how SiLU is computed: by a table on int8 or on 16 bits, as HardSwish (a warning "
        "says what that costs), in float, or by MIN, MAX, ADD and shifts; auto, the default, by "
        "target and by what the calibration data says",
    )
    add_precision(group)


def add_precision(group: ArgumentContainer) -> None:
    """Layers that keep more precision than int8."""
    for name, what in (("int16", "stored in 16 bits"), ("float", "computed in float")):
        group.add_argument(
            f"--{name}",
            type=_names,
            action="extend",
            default=[],
            metavar="LAYER,...",
            help=f"layers {what}, by node name or pattern such as 'conv_*'; may be repeated",
        )
    group.add_argument(
        "--mixed",
        choices=("int16", "float", "auto"),
        help="find the layers that int8 hurts most, by measuring on the calibration data, and "
        "keep them in this precision; auto: in 16 bits, and in float where those are not enough",
    )
    group.add_argument(
        "--budget",
        type=float,
        metavar="B",
        help="of --mixed: share of multiplications below 1, or number of layers (default: 0.1)",
    )
    group.add_argument(
        "--target-sqnr",
        type=float,
        metavar="DB",
        help="of --mixed: no more layers than it takes to reach so many decibels",
    )


def precision_options(arguments: argparse.Namespace) -> PrecisionOptions:
    """The options of `add_precision`."""
    return PrecisionOptions(
        tuple(arguments.int16),
        tuple(arguments.float),
        arguments.mixed,
        arguments.budget,
        arguments.target_sqnr,
    )


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def add_shapes(group: ArgumentContainer) -> None:
    """What symbolic dimensions of the model are."""
    group.add_argument(
        "--batch",
        type=_positive,
        default=1,
        metavar="N",
        help="value of a symbolic batch dimension (default: %(default)s)",
    )
    group.add_argument(
        "--shape",
        type=_shape,
        action="append",
        default=[],
        metavar="NAME=1x3x224x224",
        help="shape of an input with symbolic dimensions; once for each such input",
    )


def add_target(parser: argparse.ArgumentParser, *, interpreter: bool) -> None:
    """The target; with `interpreter`, our own is one and the default."""
    parser.add_argument(
        "--target",
        choices=("interp", "c", "nnet", "vta") if interpreter else TARGETS,
        required=not interpreter,
        default=None,
        help="interpreter (default), or compile for this machine and run there"
        if interpreter
        else "the machine to compile for",
    )


def add_io(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--io",
        choices=("model", "int8"),
        default="model",
        help="types of inputs and outputs: the model's own, or int8 (default: %(default)s)",
    )


def build_options(arguments: argparse.Namespace, target: str) -> BuildOptions:
    """The parsed options as the stages take them."""
    return replace(
        scheme_of(arguments, target),
        quantize=arguments.quantize,
        board=arguments.board,
        convolution=arguments.convolution,
        jobs=arguments.jobs,
        io=getattr(arguments, "io", "model"),
        prune=arguments.prune,
        encoding=arguments.encoding,
        weights=arguments.weights,
        regions=tuple(arguments.regions.split(",")) if arguments.regions else (),
        emit_hls=getattr(arguments, "emit_hls", False),
        title=title_of(arguments.model),
        winograd=arguments.winograd,
    )


def scheme_of(arguments: argparse.Namespace, target: str) -> BuildOptions:
    """The options of `add_scheme`."""
    return BuildOptions(
        target=target,
        calibrate=calibration_of(arguments),
        observer=arguments.observer,
        recipe=arguments.recipe,
        precision=precision_options(arguments),
        silu=arguments.silu,
    )


def title_of(path: str) -> str:
    """What the network in a file is called."""
    return Path(path).stem or "model"


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, extents = text.rpartition("=")
    parts = extents.split("x")
    if not name or not all(p.isdecimal() and 1 <= int(p) < 1 << 31 for p in parts):
        raise argparse.ArgumentTypeError(f"expected NAME=1x3x224x224, got {text!r}")
    return name, tuple(map(int, parts))


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {value}")
    return value
