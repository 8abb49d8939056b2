"""The command-line options that compile, run and verify have in common."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from ceras_ir.driver.stages import TARGETS, BuildOptions
from ceras_ir.transforms.recipes import AUTO, RECIPES

EXIT_STATUS = (
    "Exit status: 0 done, 1 bad input, 2 wrong usage, 3 valid input that is not supported."
)


class ArgumentContainer(Protocol):
    """A parser, or a group of its options."""

    def add_argument(
        self,
        *names: str,
        type: Callable[[str], object] = ...,
        default: object = ...,
        metavar: str = ...,
        help: str = ...,
        action: str = ...,
    ) -> object: ...


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
    group.add_argument(
        "--calibrate",
        metavar="DATA.npz",
        help="representative inputs, one array per graph input, first axis samples; without "
        "them ranges come from synthetic inputs, which is said on stderr",
    )
    group.add_argument(
        "--recipe",
        choices=(AUTO, *RECIPES),
        default=AUTO,
        help="which passes make quantization better; auto, the default, tries some on the "
        "calibration data",
    )
    group.add_argument(
        "--prune",
        metavar="OPTIONS",
        help='set weights to zero that matter least: "method=magnitude threshold=0.01", or '
        '"sparsity=0.9" for that share of every layer',
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
    add_shapes(group)


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
    return BuildOptions(
        target=target,
        quantize=arguments.quantize,
        calibrate=arguments.calibrate,
        board=arguments.board,
        io=getattr(arguments, "io", "model"),
        recipe=arguments.recipe,
        prune=arguments.prune,
        encoding=arguments.encoding,
        weights=arguments.weights,
        title=title_of(arguments.model),
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
