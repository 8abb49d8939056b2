"""`ceras-verify`: every level and every target on the same inputs, integers equal to integers."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ceras_ir.diagnostics import UsageError
from ceras_ir.driver.diagnostics import run_tool
from ceras_ir.driver.options import EXIT_STATUS, add_build_options

if TYPE_CHECKING:
    from ceras_ir.driver.compare import Verdict

ALL_TARGETS = ("c", "nnet", "vta")


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-verify", _verify, argv)


def make_parser() -> argparse.ArgumentParser:
    """The command line of `ceras-verify`."""
    parser = argparse.ArgumentParser(
        "ceras-verify",
        description="Run a model at every level of the compiler and on every target, and compare. "
        "One line per level: exact, or the first operation and element that differ.",
        epilog=f"{EXIT_STATUS} A level that differs is status 1.",
    )
    parser.add_argument("model", metavar="MODEL.onnx", help="an ONNX model, or IR text in .mlir")
    parser.add_argument(
        "--inputs", metavar="IN.npz", help="inputs to compare on (default: synthetic, seeded)"
    )
    parser.add_argument(
        "--targets",
        metavar="c,nnet,vta",
        type=_targets,
        default=ALL_TARGETS,
        help="which targets (default: all)",
    )
    parser.add_argument(
        "--samples",
        type=int,
        metavar="N",
        help="compare on the first N samples only (default: all of --inputs)",
    )
    add_build_options(parser)
    return parser


def _targets(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in ALL_TARGETS]:
        raise argparse.ArgumentTypeError(
            f"unknown target '{unknown[0]}' (choose from {', '.join(ALL_TARGETS)})"
        )
    return names


def _verify(argv: Sequence[str]) -> int:
    arguments = make_parser().parse_args(argv)
    if arguments.samples is not None and arguments.samples < 1:
        raise UsageError(f"--samples must be at least 1, got {arguments.samples}")
    if arguments.quantize == "none" and set(arguments.targets) - {"c"}:
        raise UsageError("only target c runs float networks: add --targets c")

    from ceras_ir.driver.levels import Verification
    from ceras_ir.driver.named_file import naming
    from ceras_ir.driver.stages import BuildOptions, read_network

    with naming(arguments.model):
        module = read_network(arguments.model, batch=arguments.batch)
        options = BuildOptions(
            target="c",
            quantize="none" if arguments.quantize == "none" else "int8",
            calibrate=arguments.calibrate,
            board=arguments.board,
        )
        verification = Verification(module, options, arguments.inputs, arguments.samples)
        print(
            f"{arguments.model}: {len(verification.samples)} sample(s), "
            f"{verification.elements:,} output elements",
            flush=True,
        )
        good = True
        for verdict in verification.run(arguments.targets):
            _print(verdict)
            good &= verdict.good
    return 0 if good else 1


def _print(verdict: "Verdict") -> None:
    print(f"{verdict.level:32} {verdict.text}", flush=True)
