"""Read the settings of a point of a study from the arguments of `ceras-compile`, and check them."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.passes import ModulePass

from ceras_ir.command.recorded_arguments import RecordedArguments
from ceras_ir.driver.build_options import build_options
from ceras_ir.driver.compile import make_parser
from ceras_ir.driver.model_options import interface_passes, single_shapes
from ceras_ir.driver.target_options import TargetClass, target_of
from ceras_ir.pipeline.stages import BuildOptions, pruning
from ceras_ir.support.diagnostics import InputError


@dataclass(frozen=True)
class PointSettings:
    """
    The settings with which a point (configuration) of a study is compiled: shapes of inputs, passes
    after the import, and options.
    """

    batch: int
    shapes: dict[str, tuple[int, ...]]
    passes: tuple[ModulePass, ...]
    options: BuildOptions


def settings_of(target: TargetClass, arguments: argparse.Namespace) -> PointSettings:
    """Return the settings in `arguments`, a parsed command line of `ceras-compile`."""
    return PointSettings(
        arguments.batch,
        single_shapes(arguments),
        interface_passes(arguments),
        build_options(arguments, target_of(target, arguments)),
    )


def check_settings(target: TargetClass, fixed: Sequence[str], arguments: Sequence[str]) -> None:
    """
    Check `arguments`, a choice in a study, together with the arguments `fixed` that all points
    have. Raise an `InputError` if they are invalid, or if an option has no effect in a study.
    """
    parsed = RecordedArguments(make_parser(target).read([*fixed, *arguments]))
    settings = settings_of(target, parsed)
    settings.options.target.check()
    pruning(settings.options)
    if unread := parsed.unread(make_parser(target).read(fixed)):
        raise InputError(f"{unread[0]} has no effect in a study: remove it")
