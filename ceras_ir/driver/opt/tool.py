"""
`ceras-opt`: read a module, run passes, print it.

Parts of a split input are independent: all parts are processed, and the highest exit status is
returned.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.universe import Universe

from ceras_ir.command.exit_status import explain_crash, phase, report, run_tool
from ceras_ir.command.output_files import open_output, refuse_overwriting
from ceras_ir.driver.model_options import bindings_of
from ceras_ir.driver.opt.argv import OptArguments, make_parser, parse_arguments, replayed
from ceras_ir.frontends.formats import is_model
from ceras_ir.pipeline.context import load_context, load_universe, plugins
from ceras_ir.pipeline.instrumentation import Dumps, PassRunner, Statistics, Watch
from ceras_ir.pipeline.parsing import (
    display_name,
    load_module,
    parse_text,
    parts_of,
    read_text,
)
from ceras_ir.pipeline.pass_options import build_pipeline, find_pass, spell_pipeline
from ceras_ir.pipeline.printing import print_module
from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.support.options import with_options_of
from ceras_ir.targets.registry import unknown_target

__all__ = ["main", "make_parser"]

Emitter = Callable[[Context, ModuleOp, IO[str]], None]


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-opt", _run, argv)


def _run(argv: Sequence[str]) -> int:
    argv = replayed(argv)
    with plugins(argv):
        return _process(argv, load_universe())


def _process(argv: Sequence[str], universe: Universe) -> int:
    arguments = parse_arguments(argv, universe.all_passes)
    if text := _information(arguments, universe):
        print(text)
        return 0

    _check_bisection(arguments)
    for name in (*arguments.print_ir_before, *arguments.print_ir_after):
        find_pass(name, universe.all_passes)
    passes = build_pipeline(arguments.requests, universe.all_passes)
    if arguments.dump_pass_pipeline:
        print(f"builtin.module({spell_pipeline(passes)})", file=sys.stderr)
    session = _OptRun(
        arguments,
        load_context(universe, allow_unregistered=arguments.allow_unregistered_dialect),
        passes,
        _emitter(arguments, universe),
        PassRunner(
            with_options_of(Dumps, arguments),
            reproducer=arguments.reproducer,
            verify_each=arguments.verify_each,
            statistics=Statistics() if arguments.pass_statistics else None,
        ),
    )
    return session.run()


def _information(arguments: OptArguments, universe: Universe) -> str | None:
    if arguments.list_passes:
        from ceras_ir.driver.opt.modes import list_passes

        return list_passes(universe.all_passes)
    if arguments.help_pass is not None:
        from ceras_ir.driver.opt.modes import describe_pass

        return describe_pass(find_pass(arguments.help_pass, universe.all_passes))
    if arguments.show_dialects:
        return "\n".join(["Available Dialects:", *sorted(universe.all_dialects)])
    return None


def _emitter(arguments: OptArguments, universe: Universe) -> Emitter:
    name, brace, options = arguments.target.partition("{")
    if name == "mlir":

        def emit_mlir(ctx: Context, module: ModuleOp, stream: IO[str]) -> None:
            print_module(
                module,
                stream,
                elide=arguments.largest_printed,
                names=not arguments.strip_names,
                debuginfo=arguments.print_debuginfo,
                generic=arguments.print_op_generic,
            )

        return emit_mlir
    if name not in universe.all_targets:
        raise unknown_target(name, list(universe.all_targets))
    if brace and not options.endswith("}"):
        raise UsageError(f"missing '}}' in the target '{arguments.target}'")
    from ceras_ir.pipeline.pass_options import build

    return build(universe.all_targets[name](), options[:-1]).emit


def _check_bisection(arguments: OptArguments) -> None:
    if arguments.bisect_passes:
        if arguments.bisect_test is not None:
            raise UsageError(
                "--bisect-test and --bisect-passes are two searches: remove one of them"
            )
        return
    for option in ("bisect_inputs", "bisect_samples", "bisect_tolerance"):
        if getattr(arguments, option) is not None:
            raise UsageError(
                f"--{option.replace('_', '-')} has no effect without --bisect-passes: add it"
            )


def _watch(arguments: OptArguments, module: ModuleOp) -> Watch | None:
    if arguments.bisect_passes:
        from ceras_ir.driver.differences import BISECTION_SAMPLES, by_outputs

        count, tolerance = arguments.bisect_samples or BISECTION_SAMPLES, arguments.bisect_tolerance
        return by_outputs(module, arguments.bisect_inputs, count, tolerance)
    if arguments.bisect_test is not None:
        from ceras_ir.driver.opt.modes import by_command

        return by_command(arguments.bisect_test)
    return None


class _PartsFailedError(Exception):
    """A part of the input failed. The error was already reported, and no output file is written."""


@dataclass
class _OptRun:
    arguments: OptArguments
    ctx: Context
    passes: list[ModulePass]
    emit: Emitter
    runner: PassRunner

    def run(self) -> int:
        """
        Run the passes over all parts of the input, print the results, and return the exit status.
        """
        status = 0
        errors = list[str]()
        if is_model(self.arguments.input):
            # Text may be rewritten in place. A trained network could not be restored.
            refuse_overwriting(self.arguments.output, self.arguments.input)
        try:
            with open_output(self.arguments.output) as stream:
                for index, text in enumerate(self._parts()):
                    if index:
                        stream.write("// -----\n")
                    part_status, lines = self._process(text, stream)
                    status = max(status, part_status)
                    errors += lines
                if status:
                    raise _PartsFailedError
        except _PartsFailedError:
            report(errors)
        if self.arguments.time_passes:
            self.runner.stopwatch.report()
        if self.runner.statistics is not None:
            self.runner.statistics.report()
        return status

    def _parts(self) -> Iterator[str | None]:
        if is_model(self.arguments.input):
            yield None
            return
        text = read_text(self.arguments.input)
        if not self.arguments.split_input_file:
            yield text
            return
        yield from parts_of(text)

    def _process(self, text: str | None, stream: IO[str]) -> tuple[int, list[str]]:
        """
        Run the passes over a part of the input and print it to `stream`. Return the exit status and
        the error messages. `text` is `None` for a model file, which is read by name.
        """
        file = display_name(self.arguments.input)
        found: InputError | None = None
        try:
            with phase("reading"):
                if text is None:
                    module = load_module(self.ctx, file, **bindings_of(self.arguments))
                else:
                    module = parse_text(self.ctx, text, file)
            self.runner.stopwatch.lap("(read)")
            runner = replace(self.runner, watch=_watch(self.arguments, module))
            runner.run(self.ctx, module, self.passes)
            with phase("writing"):
                self.emit(self.ctx, module, stream)
            self.runner.stopwatch.lap("(write)")
        except InputError as error:
            found = error
        if self.arguments.verify_diagnostics:
            from ceras_ir.driver.opt.modes import check

            problems = check(found, text or "", file)
            return int(bool(problems)), problems
        if found is None:
            return 0, []
        explain_crash("ceras-opt", found)
        return found.exit_status, found.lines(file)
