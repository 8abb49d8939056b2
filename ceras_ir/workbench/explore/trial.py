"""
Compute the figures of a point of a study, or the reason why there are none.

The cheap steps are first: the report of the compiled network has bytes and modelled times. Only a
point that these do not rule out is judged on the data. Results are cached, and figures do not
depend on the state of the cache.
"""

import io
import json
import time
from collections.abc import Mapping
from contextlib import redirect_stderr
from dataclasses import dataclass, field, replace
from math import isnan
from pathlib import Path

from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.hints import isa

from ceras_ir.command.exit_status import InternalError
from ceras_ir.driver.compile import make_parser
from ceras_ir.driver.target_options import native_target
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.build import build_target
from ceras_ir.pipeline.report import table
from ceras_ir.pipeline.stage_cache import CachedModule, StageCache, digest_of, spelled
from ceras_ir.pipeline.stages import (
    IMPORTED,
    BuildOptions,
    all_stages,
    computing_stages,
    front_stages,
    quantize_pass,
)
from ceras_ir.pipeline.totals import total_figures
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.figure_names import UnknownFigure, identifier, resolved
from ceras_ir.support.files import CacheError, key_of
from ceras_ir.support.workers import ThisProcess, shipped, shipped_paths
from ceras_ir.targets.protocol import Stage
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.quantization.analysis.output_noise import quantities_of_outputs
from ceras_ir.transforms.quantization.analysis.time_model import time_of
from ceras_ir.workbench.evaluation import (
    CacheAt,
    Data,
    NativeNetwork,
    judge_all,
    native_network,
    tasks_of,
)
from ceras_ir.workbench.explore.point_settings import settings_of
from ceras_ir.workbench.explore.study_file import (
    BOARD,
    MODEL_AXIS,
    TARGET_AXIS,
    Point,
    Study,
    arguments_of,
)

Figures = dict[str, float]

WORK = "modelled_work"
"""The modelled work of the network on a general machine, in int8 products; see `time_model`."""

DONE, RULED_OUT, FAILED = "done", "ruled out", "failed"
"""The states of a completed trial."""


@dataclass(frozen=True)
class Work:
    """The data from which a worker computes a point (configuration) of a study."""

    study: Study
    cache: CacheAt
    point: Point = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Path -> digest of the files that all points read; a cluster stores them elsewhere."""

    def here(self) -> "Work":
        """
        Return a copy for this worker. If a cluster has stored the files of the study at other paths
        on this machine, the copy has these paths.
        """
        moved = {path: shipped(digest, path) for path, digest in self.files.items()}
        if all(path == place for path, place in moved.items()):
            return self

        def place(text: str) -> str:
            return shipped_paths(text, self.files)

        def there(text: str | None) -> str | None:
            return None if text is None else place(text)

        def argument(text: str) -> str:
            flag, equals, value = text.partition("=")
            return f"{flag}{equals}{place(value)}" if flag == f"--{BOARD}" else text

        models = {
            name: replace(m, file=place(m.file), calibrate=there(m.calibrate),
                          inputs=there(m.inputs), labels=there(m.labels))
            for name, m in self.study.models.items()
        }  # fmt: skip
        axes = tuple(
            replace(axis, choices={k: tuple(map(argument, v)) for k, v in axis.choices.items()})
            for axis in self.study.axes
        )
        return replace(self, study=replace(self.study, models=models, axes=axes))


@dataclass
class Outcome:
    """The result of compiling and judging a point of a study: figures, or a diagnostic."""

    state: str
    point: Point
    figures: Figures = field(default_factory=Figures)
    diagnostic: str = ""
    """The error, or the constraint that ruled out the point."""
    report: dict[str, object] = field(default_factory=dict[str, object])
    table: str = ""
    """The report as `ceras-compile` prints it."""
    command: str = ""
    digests: dict[str, str] = field(default_factory=dict[str, str])
    """The digests of the files that the point depends on."""
    seconds: float = 0.0


def run_trial(work: Work) -> Outcome:
    """Compile and judge a point of a study. An error becomes the diagnostic of the result."""
    started = time.perf_counter()
    stderr = io.StringIO()
    try:
        with redirect_stderr(stderr):
            outcome = _Trial(work.here()).outcome()
    except CacheError:
        # The point is not the cause: the study stops and can be continued.
        raise
    except InternalError as error:
        outcome = _failed(work, error)
    except (DiagnosticException, OSError, MemoryError) as error:
        outcome = _failed(work, error)
    outcome.seconds = round(time.perf_counter() - started, 3)
    return outcome


def _failed(work: Work, error: BaseException) -> Outcome:
    file = work.study.models[work.point[MODEL_AXIS]].file
    if isinstance(error, UnknownFigure):
        file = f"study '{work.study.name}'"
    lines = error.lines(file) if isinstance(error, InputError) else [f"{file}: error: {error}"]
    return Outcome(FAILED, work.point, diagnostic="\n".join(lines))


class _Trial:
    def __init__(self, work: Work):
        self.study, self.point, self.at = work.study, work.point, work.cache
        self.stages = StageCache(work.cache.open())
        self.cache = self.stages.cache
        self.model = self.study.models[self.point[MODEL_AXIS]]
        target = find_target(self.point[TARGET_AXIS])
        self.argv = arguments_of(self.study, self.point)
        point = settings_of(target, make_parser(target).read([*self.argv, "-o", "unused"]))
        imported = self.stages.source(self.model.file, batch=point.batch, shapes=point.shapes)
        passes = point.passes
        stages = [Stage(IMPORTED, passes, changes_values=True)] if passes else []
        self.source = self.stages.after(imported, stages)
        point.options.check()
        self.options = self._resolved(point.options)

    def outcome(self) -> Outcome:
        front = self.stages.after(self.source, front_stages(self.options))
        compiled = self._compiled(front)
        report, text = compiled["report"], compiled["table"]
        assert isa(report, dict[str, object]) and isinstance(text, str)
        figures = total_figures(report)
        work = compiled[WORK]
        if isinstance(work, int | float):
            figures[WORK] = float(work)
        result = Outcome(DONE, self.point, figures, report=report, table=text)
        self._add_own(figures, partial=True)
        if (broken := self._broken(figures, partial=True)) is None:
            if self.model.inputs is not None:
                figures |= self._judged(self.model.inputs)
            self._add_own(figures, partial=False)
            broken = self._broken(figures, partial=False)
            self._expect_objectives(figures)
        if broken is not None:
            result.state, result.diagnostic = RULED_OUT, f"not {broken}"
        return result

    def _resolved(self, options: BuildOptions) -> BuildOptions:
        # Replace `--quantize auto` by the decision for this model, which is cached.
        if options.quantize != "auto" or options.is_quantized:
            return options

        def make() -> bytes:
            return options.resolved(self.source.module()).quantize.encode()

        chosen = self.cache.computed(key_of("resolved", self.source.digest), make).decode()
        return replace(options, quantize=chosen)

    def _compiled(self, front: CachedModule) -> dict[str, object]:
        target = self.options.target
        passes = [f"{s.level}: {s.passes}" for s in target.lower()]
        own = spelled(target.board_name), repr(target)
        io = self.options.io, self.options.title, spelled(self.options.calibration)
        # Reports name all optional passes of a recipe, including passes without effect.
        named = quantize_pass(self.options).optional if self.options.is_quantized else ()
        key = key_of("compiled", front.digest, target.name, repr(named), *own, *io, *passes)

        def make() -> bytes:
            all_stages(self.options)  # Refuses unknown levels.
            module = front.module()
            main = main_function(module)
            work = time_of(main) if self.options.is_quantized else None
            build = build_target(module, self.options)
            text = table(build.report, target.name, build.emission)
            return json.dumps({"report": build.report, "table": text, WORK: work}).encode()

        content: object = json.loads(self.cache.computed(key, make))
        assert isa(content, dict[str, object])
        return content

    def _judged(self, inputs: str) -> Figures:
        # Figures of the outputs, which are equal on all targets and boards.
        model = self.model
        data = Data(inputs, model.labels, model.metric, model.samples)
        parts = (spelled(inputs), spelled(model.labels), spelled(model.metric), str(model.samples))
        data_key = key_of("data", *parts)
        native = native_target()().for_host()
        plain = BuildOptions(native, quantize="none", title=self.options.title)
        real = self.stages.after(self.source, front_stages(plain))
        network = self.stages.after(self.source, computing_stages(self.options))
        key = key_of("judged", network.digest, real.digest, data_key)

        def make() -> bytes:
            networks = self._network(real, plain), self._network(network, self.options)
            quantities = quantities_of_outputs(main_function(real.module()))
            tasks, bad = tasks_of(data, *networks, self.at, data_key, quantities)
            if bad:
                raise InputError(bad[0].reason, bad[0].shard.path)
            found = judge_all(tasks, ThisProcess(), stop=True)
            figures: Figures = {}
            for each in found.measured:
                if isnan(each.quantized):
                    continue  # Samples that do not vary have no signal-to-noise ratio.
                figures[identifier(each.name)] = each.quantized
                if each.real is not None:
                    figures[f"float_{identifier(each.name)}"] = each.real
            return json.dumps(figures).encode()

        content: object = json.loads(self.cache.computed(key, make))
        assert isa(content, dict[str, float])
        return content

    def _network(self, module: CachedModule, options: BuildOptions) -> NativeNetwork:
        # The network as a program; all points need the program of the float network.
        key = key_of("native", module.digest, options.title)

        def make() -> bytes:
            native = native_network(module.module(), options)
            named = [[name, content.hex()] for name, content in native.files]
            return json.dumps([native.key, named, sorted(native.inputs_with_nan)]).encode()

        digest, named, lacking = json.loads(self.cache.computed(key, make))
        files = tuple((name, bytes.fromhex(text)) for name, text in named)
        return NativeNetwork(digest, files, frozenset(lacking))

    def _add_own(self, figures: Figures, *, partial: bool) -> None:
        # Figures that the study defines; with `partial`, they can depend on missing figures.
        for name, given in self.study.figures.items():
            if isinstance(given, Mapping):
                figures[name] = sum(
                    self._of_choice(name, axis, numbers) for axis, numbers in given.items()
                )
                continue
            try:
                figures[name] = float(given.value({**self._choices(), **figures}))
            except UnknownFigure:
                if not partial:
                    raise

    def _choices(self) -> dict[str, str]:
        return {identifier(axis): label for axis, label in self.point.items()}

    def _of_choice(self, figure: str, axis: str, numbers: Mapping[str, float]) -> float:
        label = self.point.get(axis)
        if axis == BOARD:
            label = self.point.get(f"{self.point[TARGET_AXIS]}.{BOARD}")
        if label is None or label not in numbers:
            raise InputError(f"[figures.{figure}]: no number for {axis} '{label}'")
        return numbers[label]

    def _broken(self, figures: Figures, *, partial: bool) -> str | None:
        for constraint in self.study.constraints:
            try:
                if not constraint.holds({**self._choices(), **figures}):
                    return constraint.text
            except UnknownFigure:
                if not partial:
                    raise
        return None

    def _expect_objectives(self, figures: Figures) -> None:
        for objective in self.study.objectives:
            try:
                resolved(objective.figure, figures)
            except UnknownFigure as error:
                raise UnknownFigure(f"objective: {error}") from None


def study_digests(study: Study) -> dict[str, str]:
    """
    Map the digest of each file on which points of the study depend to the path. Folders of images
    are omitted: all workers must be able to access them.
    """
    files = [file for model in study.models.values() for file in model.files()]
    for axis in study.axes:
        for arguments in axis.choices.values():
            values = [a.partition("=")[2] for a in arguments if a.startswith(f"--{BOARD}=")]
            files += [value for value in values if Path(value).is_file()]
    plain = [path.partition("?")[0] for path in files]
    # Folders of images are not sent; all workers must be able to access them.
    return {digest_of(path): path for path in plain if Path(path).is_file()}
