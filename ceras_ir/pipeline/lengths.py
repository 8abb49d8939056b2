"""
Compile the networks of several lengths of an input into a single program.

Quantization is decided a single time, at the largest length, with the ranges of values at several
lengths. `at_length` applies the decisions at the other lengths, so weights, scales and tables are
equal. A float network, and a network with Q/DQ, is compiled at each length as for a single length.
"""

import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from ceras_ir.command.exit_status import phase
from ceras_ir.dialects.graph import ConstantOp
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import input_names, main_function
from ceras_ir.network.length_table import LENGTHS, LengthTable
from ceras_ir.network.lengths import Lengths, Shape, not_an_input
from ceras_ir.network.sample_shapes import SampleShapeError
from ceras_ir.pipeline.build import Build, PlacedFigures, StageObserver
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.instrumentation import PassRunner
from ceras_ir.pipeline.stages import BuildOptions, front_stages, graph_stages, run_stages
from ceras_ir.support.diagnostics import InputError, UsageError, no_remarks, printable, remark
from ceras_ir.support.option_uses import reporting_unused
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import all_targets

MAX_NAME = 40
"""The characters of the name of an input that the summary shows."""

MAX_OBSERVED_LENGTHS = 3
"""The number of lengths below the largest at which ranges are observed, the smallest first."""


@dataclass
class LengthModules:
    """The network at each length, ascending."""

    lengths: Lengths
    modules: list[ModuleOp]

    @property
    def largest(self) -> ModuleOp:
        return self.modules[-1]


def check_lengths(target: Target, lengths: Lengths) -> None:
    """Refuse several lengths for a target, or an option of it, that needs a single length."""
    if target.compiles and not target.accepts_lengths:
        others = ", ".join(each.name for each in all_targets() if each.accepts_lengths)
        raise UsageError(
            f"--shape: target {target.name} compiles a single length of '{lengths.input}', not "
            f"{len(lengths.values)}: give a single shape, such as {lengths.largest}, or "
            f"use a target that compiles several ({others})"
        )
    target.check_lengths()


def read_lengths(
    read: Callable[[Mapping[str, Shape]], ModuleOp], lengths: Lengths
) -> LengthModules:
    """
    Import the network at each length by `read`, which receives the shapes of inputs. If the largest
    length has the same error as the smallest, its error is raised, since it proposes the maximum of
    all lengths. Otherwise, a note names the length of the error.
    """
    modules: list[ModuleOp] = []
    known: dict[Attribute, Attribute] = {}
    for i, value in enumerate(lengths.values):
        try:
            modules.append(read(lengths.at(i)))
        except Exception as error:
            if i == 0 and (largest := _raised_again(error, lambda: read(lengths.at(-1)))):
                raise largest from None
            remark(f"note: the error is at length {value} of '{lengths.input}'")
            raise
        if lengths.input not in input_names(main_function(modules[-1])):
            raise UsageError(not_an_input(lengths.input))
        share_constants(modules[-1], known)
    return LengthModules(lengths, modules)


def _raised_again(error: Exception, again: Callable[[], object]) -> InputError | None:
    """Return the error that `again` raises if it is the same, apart from numbers in the message."""
    with no_remarks():
        try:
            again()
        except InputError as other:
            texts = (re.sub("[0-9]+", "", str(each)) for each in (error, other))
            return other if type(other) is type(error) and next(texts) == next(texts) else None
    return None


@contextmanager
def samples_of_largest(networks: LengthModules) -> Generator[None]:
    """Name the largest length in errors about calibration data of another length."""
    try:
        yield
    except SampleShapeError as error:
        table = table_of(networks)
        rule = f"samples for calibration must have the largest length, {table.values[-1]}"
        if (length := table.length_of(error.name, error.given)) is None:
            raise InputError(f"{error.message}; {rule}", error.file) from None
        message = f"array '{error.name}' has length {length}: {rule}"
        raise InputError(message, error.file) from None


def share_constants(module: ModuleOp, known: dict[Attribute, Attribute]) -> None:
    """Replace constants by equal constants in `known`, so that memory has a single copy."""
    for op in main_function(module).body.block.ops:
        if isinstance(op, ConstantOp):
            value = op.properties["value"]
            op.properties["value"] = known.setdefault(value, value)


def quantize_lengths(
    networks: LengthModules, options: BuildOptions, after: StageObserver | None = None
) -> None:
    """
    Run the front stages in place, which decide the values of the networks. `after` receives the
    largest network at the end of each stage.
    """
    from ceras_ir.transforms.quantization.accumulators import ProveAccumulatorsPass
    from ceras_ir.transforms.quantization.analysis.qdq import carries_quantization
    from ceras_ir.transforms.quantization.observe_ranges import OtherLengths, observing_lengths
    from ceras_ir.transforms.quantization.other_lengths import at_length

    ctx, stages = load_context(), front_stages(options)
    if not options.is_quantized or carries_quantization(networks.largest):
        known: dict[Attribute, Attribute] = {}
        for module in networks.modules:
            run_stages(ctx, module, stages, after if module is networks.largest else None)
            share_constants(module, known)
        return
    shared = graph_stages(options)
    encodings = stages[len(shared) :]
    for module in networks.modules:
        run_stages(ctx, module, shared[:1], after if module is networks.largest else None)
    fused = networks.largest.clone()
    others = networks.modules[:-1]
    step = max(1, -(-len(others) // MAX_OBSERVED_LENGTHS))
    lengths = OtherLengths(fused, others[::step])
    with observing_lengths(lengths), samples_of_largest(networks):
        run_stages(ctx, networks.largest, shared[1:], after)
    for i, module in enumerate(others):
        networks.modules[i] = at_length(networks.largest, fused, module)
        PassRunner().run(ctx, networks.modules[i], (ProveAccumulatorsPass(),), "other lengths")
    for module in networks.modules:
        run_stages(ctx, module, encodings, after if module is networks.largest else None)


def build_lengths(
    networks: LengthModules, options: BuildOptions, after: StageObserver | None = None
) -> Build:
    """Compile the networks, which are consumed, into a program."""
    target, lengths = options.target, networks.lengths
    check_lengths(target, lengths)
    if options.insertions:
        raise UsageError("--at: passes of the user need a single length: give a single shape")
    placed = PlacedFigures(after)
    with reporting_unused(options, options.target):
        options = options.resolved(networks.largest)
        quantize_lengths(networks, options, after)
        ctx, stages = load_context(), target.lower()
        for module in networks.modules:
            is_largest = module is networks.largest
            run_stages(ctx, module, stages, placed if is_largest else None)
        with phase(f"emission for target {target.name}"):
            emission = target.emit_lengths(networks.modules, lengths.values, options.title)
    name = printable(lengths.input, MAX_NAME)
    shown = {"lengths": f"{lengths.text} of '{name}'; other figures are of the largest"}
    emission.figures = {**shown, **emission.figures}
    emission.manifest[LENGTHS] = table_of(networks).to_json()
    return placed.build(options, networks.largest, emission)


def table_of(networks: LengthModules) -> LengthTable:
    """Return the shapes of inputs and outputs at each length."""
    mains = [main_function(module) for module in networks.modules]
    return LengthTable.of(
        networks.lengths,
        [network_inputs(main) for main in mains],
        [network_outputs(main) for main in mains],
    )
