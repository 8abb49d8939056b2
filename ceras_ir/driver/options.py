"""The command-line options that compile, run and verify have in common."""

import argparse

from ceras_ir.driver.stages import TARGETS, BuildOptions

EXIT_STATUS = (
    "Exit status: 0 done, 1 bad input, 2 wrong usage, 3 valid input that is not supported."
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
    group.add_argument(
        "--calibrate",
        metavar="DATA.npz",
        help="representative inputs, one array per graph input, first axis samples; without "
        "them ranges come from synthetic inputs, which is said on stderr",
    )
    group.add_argument(
        "--batch",
        type=_positive,
        default=1,
        metavar="N",
        help="value of a symbolic batch dimension (default: %(default)s)",
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
    )


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {value}")
    return value
