"""
Read a study from TOML: models and data, choices, search, objectives.

The parser of `ceras-compile` checks each choice before a trial runs. `docs/explore.md` is the
reference of the format. `Study` is a list of axes, of which a point has a choice each, and the
judgement of points.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from xdsl.utils.hints import isa

from ceras_ir.command.exit_status import naming
from ceras_ir.driver.target_options import BOARD
from ceras_ir.support.diagnostics import (
    InputError,
    UnsupportedError,
    UsageError,
    did_you_mean,
    missing_file_remedy,
    with_remedy,
)
from ceras_ir.support.files import parse_toml
from ceras_ir.support.user_files import read_text
from ceras_ir.targets.registry import find_target
from ceras_ir.workbench.explore.board_variants import board_variants
from ceras_ir.workbench.explore.expressions import Expression, parse_expression
from ceras_ir.workbench.explore.point_settings import check_settings

TomlTable = dict[str, object]

MODEL_AXIS, TARGET_AXIS = "model", "target"
"""The names of the axes of each study."""

SAMPLERS = ("grid", "random", "nsga2", "tpe")

STUDY_FIELDS: Mapping[str, tuple[str, ...]] = {
    "": ("name", "models", "options", "axes", "targets", "search", "objectives", "figures"),
    "search": ("sampler", "trials", "seed"),
    "objectives": ("maximize", "minimize", "constraints"),
    "models": ("file", "calibrate", "inputs", "labels", "metric", "samples"),
}
"""The entries of each table; `ceras-compile` defines the options."""


@dataclass(frozen=True)
class ModelData:
    """A model of a study, and the data for the calibration and evaluation, as absolute paths."""

    file: str
    calibrate: str | None = None
    inputs: str | None = None
    labels: str | None = None
    metric: str | None = None
    samples: int | None = None

    def files(self) -> list[str]:
        """Return the paths of the model file and of all the data files."""
        named = (self.file, self.calibrate, self.inputs, self.labels)
        return [part for text in named if text for part in text.split(",")]


@dataclass(frozen=True)
class StudyAxis:
    """A choice of a study: each label in `choices` represents arguments of `ceras-compile`."""

    name: str
    choices: Mapping[str, tuple[str, ...]]
    target: str | None = None
    """The only target for which this choice exists; `None` if it exists for all."""


@dataclass(frozen=True)
class Objective:
    """A figure, such as `flash_bytes`, that the study maximizes or minimizes."""

    figure: str
    maximize: bool


@dataclass(frozen=True)
class Study:
    """
    The contents of a study file. A point of the study is a model, a target and a label of each
    axis.
    """

    name: str
    models: Mapping[str, ModelData]
    targets: tuple[str, ...]
    axes: tuple[StudyAxis, ...]
    objectives: tuple[Objective, ...]
    constraints: tuple[Expression, ...] = ()
    figures: Mapping[str, Expression | Mapping[str, Mapping[str, float]]] = field(
        default_factory=dict[str, Expression | Mapping[str, Mapping[str, float]]]
    )
    """Figures of the user: an expression, or numbers by the choice of an axis."""
    sampler: str = "grid"
    trials: int | None = None
    seed: int = 0

    def axes_of(self, target: str) -> list[StudyAxis]:
        """Return the axes (choices of options) that exist for `target`."""
        return [axis for axis in self.axes if axis.target in (None, target)]


def load_study(path: str, boards: Path) -> Study:
    """
    Read the study in the file `path`. If the study varies fields of boards, the board files are
    written to `boards`.
    """
    try:
        text = read_text(path)
    except OSError as error:
        raise InputError(f"cannot be read: {with_remedy(error, path)}", path) from None
    except UnicodeDecodeError:
        raise InputError(
            "not a study: the file is not text. A study is a TOML file that names the model, such "
            f"as [models.m] with file = '{path}' (docs/explore.md)",
            path,
        ) from None
    with naming(path):
        content = parse_toml(text, path)
        try:
            return _StudyReader(content, Path(path), boards).study()
        except UsageError as error:
            # The error is in the study, not in the command line.
            raise InputError(error.message, path) from None


class _StudyReader:
    def __init__(self, content: TomlTable, path: Path, boards: Path):
        self.content, self.path, self.folder = content, path, path.parent
        self.boards = boards

    def study(self) -> Study:
        _expect_known(self.content, "", "")
        models = {
            name: self._model(name, _table(table, f"models.{name}"))
            for name, table in self._section("models").items()
        }
        if not models:
            raise InputError("names no model: [models.NAME] with file = 'MODEL.onnx'")
        targets = {
            name: _table(table, f"targets.{name}")
            for name, table in self._section("targets").items()
        }
        if not targets:
            raise InputError("names no target: [targets.NAME], such as [targets.c]")
        for name in targets:
            find_target(name)
        axes = [*self._options(self._section("options"), None), *self._bundles()]
        for name, table in targets.items():
            axes += self._target_axes(name, table)
        _expect_distinct([axis.name for axis in axes])
        for model in models.values():
            for name in targets:
                for axis in axes:
                    self._check(axis, axes, name, model)
        search, objectives = self._section("search"), self._section("objectives")
        _expect_known(search, "search", "[search]")
        _expect_known(objectives, "objectives", "[objectives]")
        goals = [
            Objective(figure, maximize=key == "maximize")
            for key in ("maximize", "minimize")
            for figure in _texts(objectives.get(key, []), f"objectives.{key}")
        ]
        if not goals:
            raise InputError("has no objective: [objectives] with minimize = ['flash_bytes']")
        sampler = search.get("sampler", "grid")
        if not isinstance(sampler, str) or sampler not in SAMPLERS:
            hint = did_you_mean(str(sampler), SAMPLERS)
            raise InputError(f"search.sampler must be one of {', '.join(SAMPLERS)}{hint}")
        trials = _integer(search, "trials", 1)
        if sampler != "grid" and trials is None:
            raise InputError(f"search.sampler {sampler} needs search.trials, their number")
        limits = _texts(objectives.get("constraints", []), "objectives.constraints")
        return Study(
            name=_text(self.content.get("name", self.path.stem), "name"),
            models=models,
            targets=tuple(targets),
            axes=tuple(axes),
            objectives=tuple(goals),
            constraints=tuple(parse_expression(text) for text in limits),
            figures=self._figures(axes),
            sampler=sampler,
            trials=trials,
            seed=_integer(search, "seed", 0) or 0,
        )

    def _section(self, name: str) -> TomlTable:
        return _table(self.content.get(name, {}), name)

    def _model(self, name: str, table: TomlTable) -> ModelData:
        where = f"models.{name}"
        _expect_known(table, "models", f"[{where}]")
        if "file" not in table:
            raise InputError(f"[{where}] has no file")
        paths = {
            key: ",".join(self._path(p) for p in _text(table[key], f"{where}.{key}").split(","))
            for key in ("file", "calibrate", "inputs", "labels")
            if key in table
        }
        for path in paths.values():
            for part in path.split(","):
                if not Path(part.partition("?")[0]).exists():
                    remedy = missing_file_remedy(part.partition("?")[0])
                    raise InputError(f"[{where}]: no such file: {part}{remedy}")
        if "labels" in paths and "inputs" not in paths:
            raise InputError(f"[{where}] has labels and no inputs")
        metric = table.get("metric")
        samples = _integer(table, "samples", 1)
        return ModelData(
            **paths,
            metric=None if metric is None else _text(metric, f"{where}.metric"),
            samples=samples,
        )

    def _path(self, text: str) -> str:
        return str((self.folder / text).resolve())

    def _options(self, table: TomlTable, target: str | None) -> Iterator[StudyAxis]:
        # An option with a single value is an axis with a single choice.
        prefix = "" if target is None else f"{target}."
        for name, given in table.items():
            values = given if isa(given, list[object]) else [given]
            if not values:
                raise InputError(f"option '{name}' has an empty list of choices")
            choices = {_label(value): self._arguments(name, value) for value in values}
            yield StudyAxis(f"{prefix}{name}", choices, target)

    def _bundles(self) -> Iterator[StudyAxis]:
        for name, table in self._section("axes").items():
            choices: dict[str, tuple[str, ...]] = {}
            for label, options in _table(table, f"axes.{name}").items():
                pairs = _table(options, f"axes.{name}.{label}").items()
                choices[label] = tuple(a for k, v in pairs for a in self._arguments(k, v))
            if not choices:
                raise InputError(f"[axes.{name}] has no choices")
            yield StudyAxis(name, choices)

    def _target_axes(self, name: str, table: TomlTable) -> Iterator[StudyAxis]:
        ranges = _table(table.get("vary", {}), f"targets.{name}.vary")
        rest = {key: value for key, value in table.items() if key != "vary"}
        if ranges:
            boards = rest.pop(BOARD, None)
            named = _texts(boards, f"targets.{name}.board")
            lists = {k: v if isa(v, list[object]) else [v] for k, v in ranges.items()}
            places = [b if self._is_built_in(name, b) else self._path(b) for b in named]
            found = board_variants(find_target(name), places, lists, self.boards)
            choices = {label: (f"--{BOARD}={file}",) for label, file in found.items()}
            yield StudyAxis(f"{name}.{BOARD}", choices, name)
        yield from self._options(rest, name)

    def _is_built_in(self, target: str, board: str) -> bool:
        return board in find_target(target).boards()

    def _arguments(self, name: str, value: object) -> tuple[str, ...]:
        # `false` and an empty text leave out the option.
        flag = f"--{name.replace('_', '-')}"
        if value is False or value == "" or value == []:
            return ()
        if value is True:
            return (flag,)
        if isa(value, list[object]):
            return (f"{flag}={','.join(map(str, value))}",)
        if isinstance(value, dict):
            raise InputError(f"option '{name}' is a table; bundles of options are [axes.NAME]")
        text = str(value)
        if name == BOARD and text.endswith((".toml", ".json")):
            text = self._path(text)
        return (f"{flag}={text}",)

    def _check(
        self, axis: StudyAxis, axes: Sequence[StudyAxis], target: str, model: ModelData
    ) -> None:
        # The parser of `ceras-compile` and the target check each choice.
        if axis.target not in (None, target):
            return
        cls = find_target(target)
        fixed = [*fixed_arguments(model, target), "-o", "unused"]
        others = [each for each in axes if each is not axis and each.target in (None, target)]
        for label, arguments in axis.choices.items():
            refusals = list[InputError]()
            # An option can need an option of another axis, such as --input-image and --frame-size.
            for more in _with_others(others):
                try:
                    check_settings(cls, fixed, [*more, *arguments])
                    break
                except UnsupportedError:
                    # A board of a range can be unsupported: the trials report the reason.
                    break
                except InputError as error:
                    refusals.append(error)
            else:
                raise InputError(
                    f"choice '{label}' of '{axis.name}' for target {target}: {refusals[0]}"
                )

    def _figures(
        self, axes: Sequence[StudyAxis]
    ) -> dict[str, Expression | Mapping[str, Mapping[str, float]]]:
        found: dict[str, Expression | Mapping[str, Mapping[str, float]]] = {}
        known = {MODEL_AXIS, TARGET_AXIS, BOARD, *(axis.name for axis in axes)}
        for name, given in self._section("figures").items():
            if isinstance(given, str):
                found[name] = parse_expression(given)
                continue
            tables: dict[str, Mapping[str, float]] = {}
            for axis, numbers in _table(given, f"figures.{name}").items():
                if axis not in known:
                    raise InputError(
                        f"[figures.{name}]: no axis '{axis}'{did_you_mean(axis, known)}"
                    )
                if not isa(numbers, dict[str, float | int]):
                    raise InputError(f"figures.{name}.{axis} must have a number for each choice")
                tables[axis] = {label: float(number) for label, number in numbers.items()}
            found[name] = tables
        return found


def _with_others(axes: Sequence[StudyAxis]) -> Iterator[tuple[str, ...]]:
    """
    Yield lists of arguments of other `axes` with which a choice is checked: no arguments, the
    arguments that all points have, and these with each choice of another axis.
    """
    yield ()
    lists = [list(axis.choices.values()) for axis in axes]
    common = [argument for choices in lists if len(choices) == 1 for argument in choices[0]]
    yield tuple(common)
    for choices in lists:
        if len(choices) > 1:
            yield from ((*common, *choice) for choice in choices)


def fixed_arguments(model: ModelData, target: str, *, calibrated: bool = True) -> list[str]:
    """
    Return the arguments of `ceras-compile` that all points with this model and target have. Without
    `calibrated`, the calibration data is omitted, for float networks.
    """
    known = calibrated and model.calibrate is not None
    calibration = [f"--calibrate={model.calibrate}"] if known else []
    return [model.file, f"--target={target}", *calibration]


def _label(value: object) -> str:
    if isa(value, list[object]):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) or "none"


def _expect_known(table: TomlTable, kind: str, where: str) -> None:
    for key in table:
        if key not in STUDY_FIELDS[kind]:
            what = f"{where} has an unknown entry" if where else "has an unknown entry"
            hint = (
                did_you_mean(key, STUDY_FIELDS[kind])
                or f" (known: {', '.join(STUDY_FIELDS[kind])})"
            )
            raise InputError(f"{what} '{key}'{hint}")


def _expect_distinct(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1 or name in (MODEL_AXIS, TARGET_AXIS):
            raise InputError(f"two axes are called '{name}'")


def _table(value: object, where: str) -> TomlTable:
    if not isa(value, TomlTable):
        raise InputError(f"{where} must be a table")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"{where} must be a text")
    return value


def _texts(value: object, where: str) -> list[str]:
    values = [value] if isinstance(value, str) else value
    if not isa(values, list[str]):
        raise InputError(f"{where} must be a list of texts")
    return values


def _integer(table: TomlTable, key: str, minimum: int) -> int | None:
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise InputError(f"{key} must be an integer and not below {minimum}, got {value!r}")
    return value


FLOAT_CHOICE = "--quantize=none"
"""The choice without calibration data."""

Point = Mapping[str, str]
"""Name of an axis -> label of the choice."""


def arguments_of(study: Study, point: Point) -> list[str]:
    """
    Return the arguments of `ceras-compile` for a point of the study, without the output folder.
    """
    model, target = study.models[point[MODEL_AXIS]], point[TARGET_AXIS]
    chosen = [a for axis in study.axes_of(target) for a in axis.choices[point[axis.name]]]
    return [*fixed_arguments(model, target, calibrated=FLOAT_CHOICE not in chosen), *chosen]


def grid(study: Study) -> Iterator[Point]:
    """
    Yield all points of the study, grouped by target and board. Points with common compilation
    stages then follow each other and use the cache.
    """
    for model in study.models:
        for target in study.targets:
            axes = study.axes_of(target)
            # The axes of the target, such as boards, vary slowest.
            order = sorted(axes, key=lambda axis: axis.target is None)
            for labels in product(*(axis.choices for axis in order)):
                chosen = dict(zip((axis.name for axis in order), labels, strict=True))
                yield {MODEL_AXIS: model, TARGET_AXIS: target, **chosen}


def grid_size(study: Study) -> int:
    return len(study.models) * sum(
        math.prod(len(axis.choices) for axis in study.axes_of(target)) for target in study.targets
    )


def random_points(study: Study) -> Iterator[Point]:
    """
    Yield distinct random points: the number of trials of the study, at most all points. Equal seeds
    give equal points. All points of a target have equal probability.
    """
    generator = random.Random(study.seed)
    wanted = min(study.trials or 0, grid_size(study))
    drawn = set[tuple[tuple[str, str], ...]]()
    while len(drawn) < wanted:
        target = generator.choice(study.targets)
        point = {MODEL_AXIS: generator.choice(list(study.models)), TARGET_AXIS: target}
        for axis in study.axes_of(target):
            point[axis.name] = generator.choice(list(axis.choices))
        if (key := tuple(sorted(point.items()))) not in drawn:
            drawn.add(key)
            yield point
