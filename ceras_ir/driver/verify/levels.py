"""
Compare each level and target of a network with the reference.

The reference is the quantized graph in the interpreter, or the fused float graph without
quantization. If outputs differ, names of nodes, which each lowering preserves, locate the first
operation that differs.
"""

import tempfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ceras_ir.command.entry_point import shown_name
from ceras_ir.command.exit_status import SourceError
from ceras_ir.data.sample_stream import signed_sample, synthetic_steps
from ceras_ir.driver.differences import (
    FLOAT_TOLERANCE,
    Array,
    Verdict,
    after_softmax,
    below_floor,
    compare_outputs,
    describe_noise,
    first_difference,
    flat,
    relative_difference,
)
from ceras_ir.driver.verify.as_written import AsWritten
from ceras_ir.driver.verify.sharing import SharedSamples
from ceras_ir.interpreters.network import Sequence as Steps
from ceras_ir.interpreters.network import in_turn, with_states
from ceras_ir.network.function import is_quantized, main_function, states_of
from ceras_ir.pipeline.build import build_target
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.flash_limit import within_flash
from ceras_ir.pipeline.instrumentation import Watching
from ceras_ir.pipeline.stages import (
    IMPORTED,
    QUANTIZED,
    BuildOptions,
    all_stages,
    front_stages,
    run_stages,
)
from ceras_ir.support.diagnostics import (
    MissingToolError,
    UnsupportedError,
    UsageError,
    node_name,
    progress,
    remark,
)
from ceras_ir.targets.capabilities import Executable, NotEmulated
from ceras_ir.targets.protocol import Stage, Target
from ceras_ir.targets.registry import all_targets
from ceras_ir.transforms.memory.liveness import steps
from ceras_ir.transforms.pass_kinds import flatten
from ceras_ir.transforms.placement import CheckOperationsPass
from ceras_ir.transforms.quantization.analysis.output_noise import (
    OutputNoise,
    network_ratio,
    noise_of,
    quantities_of_outputs,
)
from ceras_ir.transforms.quantization.analysis.output_softmax import softmax_of_outputs
from ceras_ir.transforms.quantization.analysis.qdq import carries_quantization
from ceras_ir.transforms.quantization.quantize import QuantizePass

Outputs = dict[str, Array]
NamedResults = list[tuple[str, Array]]
"""Results in the order of computation, with the name of the node."""

SYNTHETIC_SAMPLES = 4
"""The number of synthetic samples, and of samples that are compared value by value."""

SYNTHETIC_STEPS = 10
"""The number of synthetic samples of a network with states, which need some steps."""


def has_plugin_operations(main: FuncOp) -> bool:
    """Return whether an operation of the network belongs to a dialect of a plugin."""
    roots = {type(op).__module__.partition(".")[0] for op in main.walk()}
    return not roots <= {"ceras_ir", "xdsl"}


class LevelComparison:
    """
    A network, samples, and the outputs of the reference for these samples. `run` compares each
    level and target with the reference.
    """

    def __init__(
        self,
        module: ModuleOp,
        options: BuildOptions,
        samples: Sequence[Mapping[str, Array]] | None,
        limit: int | None,
        watching: Watching | None = None,
        floor: float | None = None,
    ):
        """
        Use the first `limit` of `samples`, or synthetic samples. `watching` creates the check after
        each pass (`--bisect-passes`). `floor` is the required signal-to-noise ratio in dB.
        """
        self.watching, self.floor = watching, floor
        self.is_calibrated = options.calibration is not None or carries_quantization(module)
        self.noise_count = limit
        """The number of samples on which the noise of quantization is measured."""
        if samples is None:
            main = main_function(module)
            count = SYNTHETIC_STEPS if states_of(main) else SYNTHETIC_SAMPLES
            self.noise_count = limit = limit or count
            samples = synthetic_steps(main, limit, seed=1)
            if (options.insertions or has_plugin_operations(main)) and not states_of(main):
                # The default range has no negative values, on which a pass or an operation of the
                # user can be wrong; they are outside the range for which scales are chosen.
                samples, limit = [*samples, signed_sample(main)], None
        self.samples = samples if isinstance(samples, SharedSamples) else samples[:limit]
        self.options = options
        self.module = module
        start = perf_counter()
        self.expected = self.interpret(module)
        self.seconds = perf_counter() - start
        """The time of the interpreter for all samples."""
        self.quantities = quantities_of_outputs(main_function(module))
        self.softmax = softmax_of_outputs(main_function(module))
        self.elements = sum(array.size for array in flat(self.expected))

    def interpret(self, module: ModuleOp, level: str = "float graph") -> list[Outputs]:
        """
        Return the outputs of the interpreter for all samples on `module`, at the level called
        `level`.
        """
        if isinstance(self.samples, SharedSamples):
            return self.samples.interpret(module, level)
        return list(in_turn(module, progress(self.samples, level)))

    def run(self, targets: Sequence[Target]) -> Iterator[Verdict]:
        """
        Yield a verdict for each level and machine of `targets`. If a target refuses the network
        before quantization, the other targets are still compared.
        """
        first, *other_targets = targets
        copy = self.module.clone() if other_targets else None
        try:
            yield from self.front()
        except UnsupportedError as error:
            yield _refusal(f"{first.name}: fused graph", error)
            if copy is not None:
                options = replace(self.options, target=other_targets[0])
                rest = LevelComparison(copy, options, self.samples, None, self.watching, self.floor)
                rest.noise_count = self.noise_count
                yield from rest.run(other_targets)
            return
        for target in targets:
            yield from self.target(target)

    def front(self) -> Iterator[Verdict]:
        """
        Run import, fusion and quantization, and yield a verdict for each level. The outputs must
        equal the outputs of the previous level, except after quantization.
        """
        ctx, floats, imported = load_context(), self.expected, IMPORTED
        for stage in front_stages(self.options):
            before = self.expected
            untouched = self.module.clone() if stage.added else None
            written = None
            if stage.level == QUANTIZED and not stage.added:
                # Snapping of scales, before `quantize`, changes the network.
                names = [each.name for each in stage.passes]
                first = names.index(QuantizePass.name)
                run_stages(ctx, self.module, [replace(stage, passes=stage.passes[:first])])
                # A scale of weights does not determine the integers of activations.
                main = main_function(self.module)
                if is_quantized(main) and carries_quantization(self.module):
                    written = self.module.clone()
                stage = replace(stage, passes=stage.passes[first:])
            run_stages(ctx, self.module, [stage], watching=self.watching)
            actual = self.interpret(self.module, stage.title)
            if stage.changes_values:
                self.expected = actual
                count = self.noise_count
                noise = noise_of(floats[:count], actual[:count], self.quantities)
                yield self.above_floor(stage.title, noise)
                if written is not None:
                    yield self.as_written(written)
                continue
            exact = before is not floats and self.options.is_quantized
            wrong = self.differs(actual, exact=exact)
            if wrong is not None and untouched is not None:
                wrong += self.first_wrong_node(self.module, untouched, exact=exact)
            if before is floats:
                floats = self.expected = actual
                error = max(
                    (
                        relative_difference(a[k], e[k])
                        for a, e in zip(actual, before, strict=True)
                        for k in e.keys() & a.keys()
                    ),
                    default=np.inf,
                )
                above = stage.level if stage.added else imported
                if stage.added and stage.level == IMPORTED:
                    imported = f"{IMPORTED} after {stage.added}"
                text = f"within {error:.1e} of the {above}"
            else:
                text = self.agrees(actual)
            yield Verdict(stage.title, wrong is None, wrong or text)

    def above_floor(self, title: str, noise: Mapping[str, OutputNoise]) -> Verdict:
        """
        Return the verdict on the signal-to-noise ratio of quantization. Below `floor`, it is an
        error if ranges originate from calibration data or Q/DQ. With ranges of synthetic samples it
        is a warning, and an error below 0 dB. `title` is the name of the level.
        """
        ratio, text = network_ratio(noise), f"reference; {describe_noise(noise)} against float"
        text += after_softmax(noise, self.softmax)
        if self.floor is None or not ratio < self.floor:
            return Verdict(title, True, text)
        is_wrong = self.is_calibrated or ratio < 0
        remedy = "ceras-compare names the layers and remedies"
        count = len(self.expected[: self.noise_count])
        if not self.is_calibrated:
            remedy = "give data that the network was trained on: --calibrate DATA.npz"
        remark(
            f"{shown_name('ceras-verify')}: {'error' if is_wrong else 'warning'}: "
            f"{below_floor(ratio, self.floor, count, remedy)}"
        )
        return Verdict(title, not is_wrong, f"{text}, below --floor {self.floor:g}")

    def as_written(self, written: ModuleOp) -> Verdict:
        """
        Compare the quantized network with the Q/DQ network `written`, in which operations are
        executed in float, value by value.
        """
        comparison = AsWritten(written, self.module)
        for sample in with_states(written, self.samples[:SYNTHETIC_SAMPLES]):
            comparison.compare(sample)
        found = comparison.found
        return Verdict("quantized graph as written", found.wrong is None, str(found))

    def target(self, target: Target) -> Iterator[Verdict]:
        """Yield a verdict for each level of `target` and for the machine."""
        given, name = self.options, target.name
        options = BuildOptions(target, given.quantize, insertions=given.insertions)
        exact = options.is_quantized
        verdicts: list[Verdict] = []

        def check(stage: Stage, module: ModuleOp) -> None:
            actual = self.interpret(module, f"{name}: {stage.title}")
            wrong = self.differs(actual, exact=exact)
            if wrong is not None:
                wrong += self.first_wrong_node(module, self.module, exact=exact)
            text = wrong or self.agrees(actual)
            verdicts.append(Verdict(f"{name}: {stage.title}", wrong is None, text))

        module = self.module.clone()
        try:
            compiled = build_target(module, options, check, self.watching)
        except SourceError:
            yield from verdicts
            raise
        except UnsupportedError as error:
            yield from verdicts
            yield _refusal(f"{name}: machine", error)
            return
        yield from verdicts
        with tempfile.TemporaryDirectory(prefix="ceras-verify-") as work:
            folder = Path(work)
            manifest = compiled.write(folder)
            try:
                machine = target.open(folder, manifest)
            except MissingToolError as error:
                yield Verdict(f"{name}: machine", True, f"skipped: {error.message}")
                return
            except UnsupportedError as error:
                yield _refusal(f"{name}: machine", error)
                return
            actual = self.execute(machine, f"{name}: machine", target, folder)
            wrong = self.differs(actual, exact=exact)
            if wrong is not None:
                traced: dict[int, bytes] = {}
                number = self.sample_of(actual, exact=exact)
                # A trace begins with the first state.
                if number == 0 or not states_of(main_function(module)):
                    machine.trace(self.samples[number], traced.__setitem__)
                if traced:
                    wrong += self.first_wrong_step(module, traced, number)
            yield Verdict(f"{name}: machine", wrong is None, wrong or self.agrees(actual))
            for label, other in target.other_machines(folder, manifest):
                if isinstance(other, NotEmulated):
                    yield Verdict(f"{name}: {label}", True, f"not emulated: {other.reason}")
                    continue
                actual = self.execute(other, label, target, folder, label)
                wrong = self.differs(actual, exact=exact)
                yield Verdict(f"{name}: {label}", wrong is None, wrong or self.agrees(actual))

    def execute(
        self,
        machine: Executable,
        label: str,
        target: Target,
        folder: Path,
        other: str | None = None,
    ) -> list[Outputs]:
        """
        Return the outputs of `machine`, the compiled network in `folder`, for all samples. `other`
        names the machine if it is not the main machine of `target`; `label` is the text of the
        progress bar.
        """
        if isinstance(self.samples, SharedSamples):
            return self.samples.execute(target, folder, label, other)
        return list(progress(machine.run(self.samples), label, len(self.samples)))

    def agrees(self, actual: Sequence[Outputs]) -> str:
        """
        Return text about outputs that agree with the reference: exactly, or within the tolerance.
        """
        return _agrees(self.differs(actual, exact=True) is None)

    def differs(self, actual: Sequence[Outputs], *, exact: bool) -> str | None:
        """
        Return the first difference between `actual`, the outputs of all samples, and the reference
        in words; `None` if they agree. With `exact`, all bits must be equal.
        """
        for number, (a, e) in enumerate(zip(actual, self.expected, strict=True)):
            if (found := compare_outputs(a, e, exact=exact)) is not None:
                return f"differs on sample {number}: {found}"
        return None

    def sample_of(self, actual: Sequence[Outputs], *, exact: bool) -> int:
        """
        Return the index of the first sample on which `actual` differs from the reference: in any
        bit if `exact`, else by more than the tolerance. There must be one.
        """
        pairs = zip(actual, self.expected, strict=True)
        return next(
            i for i, (a, e) in enumerate(pairs) if compare_outputs(a, e, exact=exact) is not None
        )

    def first_wrong_node(self, module: ModuleOp, reference: ModuleOp, *, exact: bool) -> str:
        """
        Return text about the first operation of `module` with a result that differs from the result
        of the same ONNX node in `reference`.
        """
        number = self.sample_of(self.interpret(module), exact=exact)
        steps = self.samples[: number + 1]
        results = dict(trace(reference, steps))
        # If a node became several operations, the last one has the result of the node.
        for name, array in dict(trace(module, steps)).items():
            expected = results.get(name)
            # Packed and unpacked forms of a value do not correspond.
            if expected is None or expected.size != array.size:
                continue
            array = array.reshape(expected.shape)
            if not exact and relative_difference(array, expected) <= FLOAT_TOLERANCE:
                continue
            found = first_difference(array, expected)
            if found is not None:
                return f"; first at node '{name}'{list(found[0])}: {found[1]}"
        return ""

    def first_wrong_step(self, module: ModuleOp, traced: dict[int, bytes], number: int) -> str:
        """
        Return text about the first operation with a result on the machine that differs from the
        interpreter on `module`. `traced` maps the index of an operation to the bytes that the
        machine has stored, and `number` is the sample.
        """
        order = {op: i for i, op in enumerate(steps(main_function(module)))}
        found: list[str] = []

        def compare(op: Operation, results: tuple[Array, ...]) -> None:
            step = order.get(op)
            if found or step is None or step not in traced or len(results) != 1:
                return
            actual = np.frombuffer(traced[step], results[0].dtype)
            difference = first_difference(actual.reshape(results[0].shape), results[0])
            if difference is not None:
                index, values = difference
                found.append(
                    f"; first at node '{node_name(op)}' ({op.name}){list(index)}: {values}"
                )

        Steps(module).step(self.samples[number], compare)
        return found[0] if found else ""


def check_request(
    quantize: str, targets: Sequence[Target] | Sequence[type[Target]], limit: int | None
) -> None:
    """
    Raise a `UsageError` before any work if no sample would be verified, or if a target cannot run
    the network that `quantize` (`none` for float) requests.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"--samples must be at least 1, got {limit}")
    if quantize == "none" and not all(target.arithmetic.floats for target in targets):
        able = [cls.name for cls in all_targets() if cls.compiles and cls.arithmetic.floats]
        raise UsageError(
            f"only targets {', '.join(able)} run float networks: select them with --targets"
        )


def verifications(
    module: ModuleOp,
    options: BuildOptions,
    targets: Sequence[Target],
    samples: Sequence[Mapping[str, Array]] | None = None,
    limit: int | None = None,
    watching: Watching | None = None,
    floor: float | None = None,
) -> Iterator[tuple[LevelComparison, list[Target]]]:
    """
    Divide `targets` into groups with the same quantized graph, and yield a comparison for each
    group. `module` may be changed. `watching` creates the check after each pass (see `run_stages`).
    """
    options = replace(options, quantize="none" if options.quantize == "none" else "int8")
    options = options.of_network(module)
    for target in targets:
        target.check()
    bare = [replace(options, target=target, insertions=()) for target in targets]
    options.check_levels([stage.level for each in bare for stage in all_stages(each)])
    groups = _groups(targets, options)
    for i, group in enumerate(groups):
        network = module if i == len(groups) - 1 else module.clone()
        own = replace(options, target=group[0])
        if own.flash is not None:
            own = within_flash(network.clone, own)
        own.report_idle(network)
        yield LevelComparison(network, own, samples, limit, watching, floor), group


def _groups(targets: Sequence[Target], options: BuildOptions) -> list[list[Target]]:
    groups: dict[Hashable, list[Target]] = {}
    for target in targets:
        stages = front_stages(replace(options, target=target))
        passes = (inner for stage in stages for each in stage.passes for inner in flatten(each))
        # Checks do not change the graph.
        key = tuple(each for each in passes if not isinstance(each, CheckOperationsPass))
        groups.setdefault(key, []).append(target)
    return list(groups.values())


def trace(module: ModuleOp, samples: Sequence[Mapping[str, Array]]) -> NamedResults:
    """
    Return the name of the node and the array of each result for the last of `samples`. Earlier
    samples are run only if the network has states.
    """
    results: NamedResults = []

    def record(op: Operation, values: tuple[Array, ...]) -> None:
        # Buffers and indices in kernels are no values of the network.
        if op.operands and op.results and isinstance(op.results[0].type, TensorType):
            results.append((node_name(op), values[0].copy()))

    steps = Steps(module)
    if steps.states:
        for sample in samples[:-1]:
            steps.step(sample)
    steps.step(samples[-1], record)
    return results


def _refusal(level: str, error: UnsupportedError) -> Verdict:
    return Verdict(level, False, "unsupported", error)


def _agrees(exact: bool) -> str:
    return "exact" if exact else "within tolerance"
