"""The points of a study: one choice of each axis, and the command line that stands for it."""

import math
import random
from collections.abc import Iterator, Mapping
from itertools import product

from ceras_ir.workbench.explore.study_file import MODEL, TARGET, Study, fixed_arguments

FLOAT = "--quantize=none"
"""The choice that takes no calibration data."""

Point = Mapping[str, str]
"""Name of an axis -> what its choice is called."""


def arguments_of(study: Study, point: Point) -> list[str]:
    """What `ceras-compile` is told for a point, but for its output folder."""
    model, target = study.models[point[MODEL]], point[TARGET]
    chosen = [a for axis in study.axes_of(target) for a in axis.choices[point[axis.name]]]
    return [*fixed_arguments(model, target, calibrated=FLOAT not in chosen), *chosen]


def grid(study: Study) -> Iterator[Point]:
    """
    All points. Those of one target and board come together: what they share with the next target
    is then in the cache, and what runs at once has little in common to wait for.
    """
    for model in study.models:
        for target in study.targets:
            axes = study.axes_of(target)
            # The target's own axes, as boards, turn slowest.
            order = sorted(axes, key=lambda axis: axis.target is None)
            for labels in product(*(axis.choices for axis in order)):
                chosen = dict(zip((axis.name for axis in order), labels, strict=True))
                yield {MODEL: model, TARGET: target, **chosen}


def grid_size(study: Study) -> int:
    return len(study.models) * sum(
        math.prod(len(axis.choices) for axis in study.axes_of(target)) for target in study.targets
    )


def random_points(study: Study) -> Iterator[Point]:
    """
    Distinct points, each as likely as any other of its target, the same ones for the same seed. As
    many as the study asks for, or all there are.
    """
    generator = random.Random(study.seed)
    wanted = min(study.trials or 0, grid_size(study))
    seen = set[tuple[tuple[str, str], ...]]()
    while len(seen) < wanted:
        target = generator.choice(study.targets)
        point = {MODEL: generator.choice(list(study.models)), TARGET: target}
        for axis in study.axes_of(target):
            point[axis.name] = generator.choice(list(axis.choices))
        if (key := tuple(sorted(point.items()))) not in seen:
            seen.add(key)
            yield point
