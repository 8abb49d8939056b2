"""`ceras-verify`: every level and every target on the same inputs, integers equal to integers."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ceras_ir.diagnostics import UsageError
from ceras_ir.driver.diagnostics import run_tool
from ceras_ir.driver.options import EXIT_STATUS, add_build_options
from ceras_ir.driver.tool_parser import ToolParser

if TYPE_CHECKING:
    from ceras_ir.driver.compare import Verdict

ALL_TARGETS = ("c", "nnet", "vta")


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-verify", _verify, argv)


def make_parser() -> ToolParser:
    """The command line of `ceras-verify`."""
    parser = ToolParser(
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
    arguments = make_parser().read(argv)
    if arguments.samples is not None and arguments.samples < 1:
        raise UsageError(f"--samples must be at least 1, got {arguments.samples}")
    if arguments.quantize == "none" and set(arguments.targets) - {"c"}:
        raise UsageError("only target c runs float networks: add --targets c")

    from ceras_ir.analysis.qdq import carries_quantization
    from ceras_ir.driver.levels import Verification
    from ceras_ir.driver.named_file import naming
    from ceras_ir.driver.stages import SHIFTING_TARGETS, BuildOptions, read_network

    with naming(arguments.model):
        module = read_network(arguments.model, batch=arguments.batch, shapes=dict(arguments.shape))
        carried = carries_quantization(module)
        # Of several targets VTA is the one whose boards differ most.
        board_of = "vta" if "vta" in arguments.targets else arguments.targets[0]
        groups = _groups(arguments.targets, carried)
        options = BuildOptions(
            target="c",
            quantize="none" if arguments.quantize == "none" else "int8",
            calibrate=arguments.calibrate,
            recipe=arguments.recipe,
            board=arguments.board,
            prune=arguments.prune,
            encoding=arguments.encoding,
        )
        good = True
        for i, targets in enumerate(groups):
            network = module if i == len(groups) - 1 else module.clone()
            snapped = any(target in SHIFTING_TARGETS for target in targets)
            front = replace(options, target="vta") if carried and snapped else options
            verification = Verification(network, front, arguments.inputs, arguments.samples)
            if i == 0:
                print(
                    f"{arguments.model}: {len(verification.samples)} sample(s), "
                    f"{verification.elements:,} output elements",
                    flush=True,
                )
            for verdict in verification.run(targets, board_of):
                _print(verdict)
                good &= verdict.good
    return 0 if good else 1


def _groups(targets: Sequence[str], carries_quantization: bool) -> list[list[str]]:
    """Targets that share a quantized graph; those that shift have their own of a Q/DQ network."""
    from ceras_ir.driver.stages import SHIFTING_TARGETS

    if not carries_quantization:
        return [list(targets)]
    shifting = [target for target in targets if target in SHIFTING_TARGETS]
    others = [target for target in targets if target not in SHIFTING_TARGETS]
    return [group for group in (others, shifting) if group]


def _print(verdict: "Verdict") -> None:
    print(f"{verdict.level:32} {verdict.text}", flush=True)
