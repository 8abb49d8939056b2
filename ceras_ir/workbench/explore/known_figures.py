"""
Refuse unknown figures of a study before the first trial.

Known are the totals that the schemas of the targets declare, the results of an evaluation, and the
figures of the study. The names of outputs and of the results of a user's metric are known only
after a trial.
"""

from collections.abc import Mapping

from ceras_ir.driver.target_options import BOARD
from ceras_ir.pipeline.totals import declares_report, total_units
from ceras_ir.support.diagnostics import InputError, did_you_mean
from ceras_ir.support.figure_names import identifier, matching
from ceras_ir.targets.registry import find_target
from ceras_ir.workbench.explore.study_file import MODEL_AXIS, TARGET_AXIS, Study
from ceras_ir.workbench.explore.trial import WORK
from ceras_ir.workbench.metrics.choose import FIGURE_NAMES, IOU_OF_CLASS, METRIC_NAMES

EVALUATED = tuple(map(identifier, FIGURE_NAMES))


def check_figures(study: Study, path: str) -> None:
    """
    Raise an `InputError` if an objective or constraint of the study uses a figure that no trial can
    have, such as a misspelled name. `path` is the study file.
    """
    known = _KnownFigures(study, path)
    for objective in study.objectives:
        known.check(objective.figure, "objective")
    axes = [MODEL_AXIS, TARGET_AXIS, *(identifier(axis.name) for axis in study.axes)]
    expressions = [("constraint", each) for each in study.constraints]
    for name, figure in study.figures.items():
        if isinstance(figure, Mapping):
            for axis, numbers in figure.items():
                _check_table(study, name, axis, numbers, path)
        else:
            expressions.append((f"[figures] {name}", figure))
    for place, expression in expressions:
        for name in expression.names():
            if not matching(name, axes):
                known.check(name, f"{place} '{expression.text}'")


class _KnownFigures:
    def __init__(self, study: Study, path: str):
        targets = list(map(find_target, study.targets))
        metrics = {model.metric for model in study.models.values()}
        self.path = path
        self.names = [*total_units(targets), WORK, *study.figures]
        self.is_open = not (metrics <= {None, *METRIC_NAMES} and all(map(declares_report, targets)))
        self.evaluates = any(model.inputs for model in study.models.values())

    def check(self, name: str, place: str) -> None:
        if self.is_open or matching(name, self.names):
            return
        known = list(self.names)
        if self.evaluates:
            known += EVALUATED
        if _is_evaluated(name):
            if self.evaluates:
                return
            reason = f"'{name}' needs inputs in [models.NAME]"
        else:
            reason = f"no figure is called '{name}'{did_you_mean(name, known)}"
        raise InputError(f"{place}: {reason} (known: {', '.join(known)})", self.path)


def _is_evaluated(name: str) -> bool:
    # The name of an output, or `float`, can precede the name of the figure.
    words = name.split("_")
    ends = ["_".join(words[i:]) for i in range(len(words))]
    of_class = identifier(IOU_OF_CLASS)
    return any(matching(end, EVALUATED) or end.startswith(f"{of_class}_") for end in ends)


def _check_table(
    study: Study, figure: str, axis: str, numbers: Mapping[str, float], path: str
) -> None:
    # Each choice of each target must have a number.
    for target in study.targets:
        name = f"{target}.{BOARD}" if axis == BOARD else axis
        choices = {each.name: list(each.choices) for each in study.axes_of(target)}
        choices |= {MODEL_AXIS: list(study.models), TARGET_AXIS: [target]}
        if name not in choices:
            raise InputError(f"[figures.{figure}]: target {target} has no axis '{axis}'", path)
        if missing := [label for label in choices[name] if label not in numbers]:
            near = did_you_mean(missing[0], numbers)
            raise InputError(
                f"[figures.{figure}]: no number for {axis} {', '.join(missing)}{near}", path
            )
