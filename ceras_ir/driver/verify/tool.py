"""`ceras-verify`: every level and every target on the same inputs, integers equal to integers."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.tool_parser import ToolParser
from ceras_ir.driver.options import EXIT_STATUS, add_build_options, scheme_of
from ceras_ir.support.diagnostics import UsageError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ceras_ir.driver.pipeline.stages import BuildOptions
    from ceras_ir.driver.verify.differences import Verdict

ALL_TARGETS = ("c", "nnet", "vta")
TAKEN = (*ALL_TARGETS, "arduino", "onnx")
"""What `--targets` may name; the last two on request only."""

FLOAT_TARGETS = frozenset(TAKEN) - frozenset({"nnet", "vta"})


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
        help="which targets (default: %(metavar)s); arduino is also run on its core under qemu, "
        "onnx is the exported model, imported again",
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
    if unknown := [name for name in names if name not in TAKEN]:
        raise argparse.ArgumentTypeError(
            f"unknown target '{unknown[0]}' (choose from {', '.join(TAKEN)})"
        )
    return names


def _verify(argv: Sequence[str]) -> int:
    arguments = make_parser().read(argv)
    if arguments.samples is not None and arguments.samples < 1:
        raise UsageError(f"--samples must be at least 1, got {arguments.samples}")
    if arguments.quantize == "none" and set(arguments.targets) - FLOAT_TARGETS:
        names = ", ".join(sorted(FLOAT_TARGETS))
        raise UsageError(f"only targets {names} run float networks: add --targets c")

    from ceras_ir.command.named_file import naming
    from ceras_ir.driver.pipeline.stages import read_network
    from ceras_ir.driver.verify.levels import Verification
    from ceras_ir.transforms.quantization.analysis.qdq import carries_quantization

    with naming(arguments.model):
        module = read_network(arguments.model, batch=arguments.batch, shapes=dict(arguments.shape))
        carried = carries_quantization(module)
        # Of several targets VTA is the one whose boards differ most.
        boards = {"vta" if "vta" in arguments.targets else arguments.targets[0]: arguments.board}
        options = replace(
            scheme_of(arguments, "c"),
            quantize="none" if arguments.quantize == "none" else "int8",
            beside=frozenset(arguments.targets),
            convolution=arguments.convolution,
            jobs=arguments.jobs,
            prune=arguments.prune,
            encoding=arguments.encoding,
        )
        narrow = _narrow_targets(module, carried, arguments.silu)
        groups = _groups(module, arguments.targets, narrow, options, boards)
        good = True
        for i, (front_target, targets) in enumerate(groups.items()):
            network = module if i == len(groups) - 1 else module.clone()
            front = replace(options, target=front_target, board=boards.get(front_target))
            verification = Verification(network, front, arguments.inputs, arguments.samples)
            if i == 0:
                print(
                    f"{arguments.model}: {len(verification.samples)} sample(s), "
                    f"{verification.elements:,} output elements",
                    flush=True,
                )
            for verdict in verification.run(targets, boards):
                _print(verdict)
                good &= verdict.good
    return 0 if good else 1


def _narrow_targets(module: "ModuleOp", carries_quantization: bool, silu: str) -> frozenset[str]:
    """Targets whose quantized graph is another than that of target c."""
    from ceras_ir.dialects import graph
    from ceras_ir.driver.pipeline.stages import INTEGER_TARGETS, SHIFTING_TARGETS

    if carries_quantization:
        return SHIFTING_TARGETS
    functions = (op.function for op in module.walk() if isinstance(op, graph.UnaryOp))
    has_tables = any(function.clip_range is None for function in functions)
    return INTEGER_TARGETS if silu == "auto" and has_tables else frozenset()


def _offered(module: "ModuleOp", options: "BuildOptions") -> list[str]:
    """Which forms of functions the target leaves open, function by function."""
    from ceras_ir.dialects import graph
    from ceras_ir.driver.pipeline.context import load_context
    from ceras_ir.driver.pipeline.stages import offers
    from ceras_ir.transforms.graph.fuse import FusePass
    from ceras_ir.transforms.quantization.analysis.function_forms import Form, form_of

    network, ctx = module.clone(), load_context()
    for step in (FusePass(), *offers(options)):
        step.apply(ctx, network)
    functions = [op for op in network.walk() if isinstance(op, graph.UnaryOp)]
    return [form for op in functions if (form := form_of(op)) not in (None, Form.TABLE)]


def _groups(
    module: "ModuleOp",
    targets: Sequence[str],
    narrow: frozenset[str],
    options: "BuildOptions",
    boards: Mapping[str, str | None],
) -> dict[str, list[str]]:
    """The target whose quantized graph some targets share -> these."""
    groups: dict[str, list[str]] = {}
    offered = {
        target: _offered(module, replace(options, target=target, board=boards.get(target)))
        for target in targets
        if target in narrow
    }
    for target in targets:
        # Target arduino encodes weights, which orders the sums of floats.
        front = "arduino" if target == "arduino" else "c"
        if target in narrow:
            alike = (other for other in reversed(targets) if offered.get(other) == offered[target])
            front = next(alike)
        groups.setdefault(front, []).append(target)
    return groups


def _print(verdict: "Verdict") -> None:
    print(f"{verdict.level:32} {verdict.text}", flush=True)
