"""Implement `ceras-targets`: list the targets, or print the properties of a target."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.tool_parser import ToolParser
from ceras_ir.driver.lists import WIDTH, definitions
from ceras_ir.support.diagnostics import aligned
from ceras_ir.support.native import find_program
from ceras_ir.support.options import docstring
from ceras_ir.targets.protocol import Arithmetic, Target
from ceras_ir.targets.registry import all_targets, find_target


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-targets", _targets, argv)


def make_parser() -> ToolParser:
    """Return the parser of `ceras-targets`."""
    parser = ToolParser(
        "ceras-targets",
        description="List the targets with arithmetic, number of boards and installed programs, "
        "or print the properties of a target.",
        epilog="Exit status: 0 success, 2 wrong usage or an unknown name.",
    )
    parser.add_argument("target", nargs="?", metavar="NAME", help="only this target, in detail")
    return parser


def _targets(argv: Sequence[str]) -> int:
    arguments = make_parser().read(argv)
    name = arguments.target
    lines = _listed(all_targets()) if name is None else _described(find_target(name))
    print("\n".join(lines))
    return 0


def summary_of(target: type[Target]) -> str:
    """Return the first sentence of the description of a target."""
    return " ".join(docstring(target).split("\n\n")[0].split())


def numbers_of(arithmetic: Arithmetic) -> str:
    """Return the types that the fastest device stores, as text: `int8, int16, float`."""
    return ", ".join([f"int{width}" for width in arithmetic.widths] + ["float"] * arithmetic.floats)


def _listed(targets: Sequence[type[Target]]) -> Iterator[str]:
    rows = [["target", "numbers", "requantization", "boards", "programs"]]
    for target in targets:
        exact = target.arithmetic
        scale = "multiplier" if exact.multipliers else "shift"
        scope = "channel" if exact.channel_shifts else "layer"
        found = sum(find_program(commands) is not None for commands in target.programs.values())
        programs = f"{found} of {len(target.programs)}" if target.programs else "none needed"
        count = str(len(target.boards()))
        rows.append([target.name, numbers_of(exact), f"{scale} per {scope}", count, programs])
    yield from aligned(rows, right=(3,))
    yield ""
    yield from definitions((target.name, summary_of(target)) for target in targets)
    yield ""
    yield "Numbers: of the fastest device. 'ceras targets NAME' lists the programs."


def _described(target: type[Target]) -> Iterator[str]:
    yield from wrap(f"{target.name}: {summary_of(target)}", WIDTH)
    yield ""
    rows = [("arithmetic", str(target.arithmetic)), ("boards", str(len(target.boards())))]
    for use, commands in target.programs.items():
        found = find_program(commands)
        rows.append((use, f"{' or '.join(commands)}: {found or 'not installed'}"))
    yield from definitions(rows)
