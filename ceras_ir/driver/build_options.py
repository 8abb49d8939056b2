"""
Define the options for a compilation.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from ceras_ir.command.tool_parser import ArgumentContainer, ToolParser, add_options, values_of
from ceras_ir.driver.data_options import add_calibration, calibration_of
from ceras_ir.driver.model_options import (
    InputOptions,
    OutputOptions,
    ShapeOptions,
    StateOptions,
    title_of,
)
from ceras_ir.driver.worker_options import add_limits
from ceras_ir.pipeline.context import add_plugins, load_universe
from ceras_ir.pipeline.pass_options import build_pipeline, parse_pipeline, with_values
from ceras_ir.pipeline.stages import BuildOptions, Insertion
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.options import option, options
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.quantization_options import (
    REMOVED_FLAGS,
    ActivationBitsOptions,
    BudgetOptions,
    LayerOptions,
    RecipeOptions,
    RowsOptions,
    SiluOptions,
    WeightOptions,
)

if TYPE_CHECKING:
    from ceras_ir.pipeline.instrumentation import Watching


@options
class BisectPassesOptions:
    """The option of the search for the first pass that changes a value."""

    bisect_passes: bool = option(False)
    """
    Run the network after each pass that must change no value, on the first or on synthetic inputs,
    and stop at the first that changes a value, with a reproducer.
    """


def add_build_options(parser: ToolParser) -> None:
    """Add the options of a compilation that do not depend on the target."""
    group = parser.add_argument_group("compilation")
    add_options(group, BuildOptions, ["quantize"])
    add_scheme(group)
    add_options(group, BuildOptions, ["prune"])
    for cls in (ShapeOptions, StateOptions, InputOptions, OutputOptions):
        add_options(group, cls)
    add_extensions(parser)


def add_extensions(parser: ToolParser) -> None:
    """
    Add the options for limits, for plugins, and for passes of the user between levels (`--at`).
    """
    add_limits(parser)
    group = parser.add_argument_group("plugins")
    add_plugins(group)
    group.add_argument(
        "--at",
        nargs=2,
        action="append",
        default=[],
        metavar=("LEVEL", "PIPELINE"),
        help='run passes after a level, such as --at "fused graph" "my-pass{x=1}"; they must '
        "change no value (ceras-verify checks it); may be repeated",
    )
    parser.explanations.append(_as_pass)


def _as_pass(flag: str) -> str | None:
    """
    Return the message about the unknown option `flag` if it is the name of a pass, else `None`.
    """
    name = flag.removeprefix("--")
    if name not in load_universe().all_passes:
        return None
    return (
        f"{flag} is a pass, which ceras-opt runs; here, name the level after which it runs: "
        f'--at "fused graph" {name}'
    )


def insertions_of(arguments: argparse.Namespace) -> tuple[Insertion, ...]:
    """Return the passes that `--at` inserts after levels."""
    passes = load_universe().all_passes if arguments.at else {}
    return tuple(
        Insertion(level, text, tuple(build_pipeline(parse_pipeline(text), passes)))
        for level, text in arguments.at
    )


def add_scheme(group: ArgumentContainer) -> None:
    """Add the options of quantization."""
    add_calibration(group)
    for cls in (
        RecipeOptions,
        SiluOptions,
        RowsOptions,
        LayerOptions,
        WeightOptions,
        ActivationBitsOptions,
        BudgetOptions,
    ):
        add_options(group, cls)
    for removed, instead in REMOVED_FLAGS.items():
        group.add_argument(removed, type=_removed(removed, instead), help=argparse.SUPPRESS)


def arithmetic_of(arguments: argparse.Namespace) -> Target | None:
    """
    Return the target of `--target` and `--board`, which limits the arithmetic of quantization;
    `None` without `--target`.
    """
    if arguments.target is not None:
        given = {} if arguments.board is None else {"board": arguments.board}
        return with_values(find_target(arguments.target), given)
    if arguments.board is not None:
        raise UsageError("--board needs a target: add --target")
    return None


def _removed(option: str, instead: str) -> Callable[[str], NoReturn]:
    def refuse(value: str) -> NoReturn:
        raise UsageError(f"{option} was removed: {instead}")

    return refuse


def watching_of(arguments: argparse.Namespace, inputs: str | None) -> "Watching | None":
    """
    Return the factory of checks for `--bisect-passes`, which compare outputs after each pass on a
    few samples of `inputs`; `None` without the option.
    """
    if not arguments.bisect_passes:
        return None
    from ceras_ir.driver.differences import by_outputs

    return partial(by_outputs, inputs=inputs)


def build_options(arguments: argparse.Namespace, target: Target) -> BuildOptions:
    """Return the options of a compilation for `target`, with the name of the network."""
    return replace(scheme_of(arguments, target), title=title_of(arguments.model))


def scheme_of(arguments: argparse.Namespace, target: Target | None = None) -> BuildOptions:
    """
    Return the options of a compilation for `target`. Without a target, quantization may use any
    arithmetic.
    """
    return replace(
        BuildOptions(),
        **{**values_of(BuildOptions, arguments), "calibration": calibration_of(arguments)},
        target=Target() if target is None else target,
        insertions=insertions_of(arguments),
    )
