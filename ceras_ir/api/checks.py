"""
Check a network in Python: all levels and targets on the same inputs, as `ceras-verify` does.

`compare` returns the loss of quantization, if an extension offers the hook `compare`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import ClassVar, Protocol, TypeAlias

from numpy.typing import ArrayLike

from ceras_ir.api import presentation
from ceras_ir.api.model import QUANTIZATION, Model
from ceras_ir.api.presentation import diagnosed
from ceras_ir.api.samples import Data, read_samples
from ceras_ir.data.image_options import ImageOptions
from ceras_ir.data.samples import Array
from ceras_ir.driver.differences import Verdict
from ceras_ir.driver.shared_options import compiling_targets
from ceras_ir.driver.verify.levels import check_request, verifications
from ceras_ir.pipeline.pass_options import listing
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.extensions import need_hook
from ceras_ir.targets.protocol import Target, configured, find_target
from ceras_ir.transforms.quantization.analysis.layer_noise import LayerNoise


@dataclass(frozen=True)
class Verification:
    """A verdict per level. It is true if each level is good."""

    verdicts: tuple[Verdict, ...]
    samples: int

    @property
    def ok(self) -> bool:
        return all(verdict.good for verdict in self.verdicts)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = (f"{verdict.level:32} {verdict.text}" for verdict in self.verdicts)
        return "\n".join([f"{self.samples} sample(s)", *lines])

    def _repr_html_(self) -> str:
        rows = [[v.level, "yes" if v.good else "NO", v.text] for v in self.verdicts]
        title = presentation.paragraph(f"{'all' if self.ok else 'NOT all'} levels agree")
        return presentation.joined([title, presentation.table(["level", "good", "result"], rows)])


def verify(
    model: Model,
    inputs: Data | None = None,
    *,
    targets: Sequence[str] | None = None,
    board: str | None = None,
    samples: int | None = None,
    images: ImageOptions | None = None,
) -> Verification:
    """
    Run `model` at each level and on `targets`, by default those of `ceras-verify`, on the first
    `samples` of `inputs`, or on synthetic inputs. A model from `quantize` keeps its scales. Any
    other model is quantized for the target.
    """
    if isinstance(targets, str):
        raise UsageError("targets must be a list of names, such as ['c']")
    classes = (
        [cls for cls in compiling_targets() if cls.verified_by_default]
        if targets is None
        else [find_target(name) for name in targets]
    )
    if not classes:
        raise UsageError("targets is empty: name targets, or omit it")
    if useless := [cls.name for cls in classes if not cls.compiles]:
        raise UsageError(
            f"target {useless[0]} is the reference of the comparison: name other targets"
        )
    options = model.options
    verdicts: list[Verdict] = []
    with diagnosed(model.title):
        check_request(options.quantize, classes, samples)
        data = None
        if inputs is not None:
            data = list(read_samples(inputs, model.inputs, "inputs", images).first(samples))
        chosen: list[Target] = [configured(cls.name, board) for cls in classes]
        count = 0
        options = replace(options, target=chosen[0])
        for found, group in verifications(model.module, options, chosen, data, samples):
            count = len(found.samples)
            verdicts += found.run(group)
    return Verification(tuple(verdicts), count)


Metric: TypeAlias = Callable[[Mapping[str, Array], Array | None], float | Mapping[str, float]]
"""A function of the outputs by name and the labels, if any."""


class Measured(Protocol):
    """A figure of merit of two networks."""

    @property
    def name(self) -> str: ...
    @property
    def quantized(self) -> float: ...
    @property
    def real(self) -> float | None: ...


class Variant(Protocol):
    """A network and its reference, with measurements of the difference."""

    @property
    def name(self) -> str: ...
    @property
    def reference(self) -> str: ...
    @property
    def layers(self) -> Sequence[LayerNoise]: ...
    @property
    def metrics(self) -> Sequence[Measured]: ...


class Comparison(Protocol):
    """The measurements of one or two variants of a network, on `samples` inputs."""

    @property
    def title(self) -> str: ...
    @property
    def samples(self) -> int: ...
    @property
    def variants(self) -> Sequence[Variant]: ...

    @property
    def layers(self) -> Sequence[LayerNoise]:
        """The loss in each layer of the first variant, isolated and accumulated."""
        ...

    @property
    def metrics(self) -> Sequence[Measured]:
        """The figures of merit at the outputs of the first variant."""
        ...

    @property
    def decibels(self) -> float:
        """The signal-to-noise ratio at the outputs of the first variant."""
        ...

    def page(self) -> str:
        """Return the page that `ceras-compare --html` writes."""
        ...

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page."""
        ...

    def _repr_html_(self) -> str: ...


class Comparer:
    """Base class of the hook `compare`, with the function that `ceras_ir.compare` calls."""

    compare: ClassVar[Callable[..., Comparison]]


@listing(QUANTIZATION)
def compare(
    model: Model,
    other: Model | None = None,
    *,
    inputs: Data,
    calibration: Data | None = None,
    labels: str | PathLike[str] | ArrayLike | None = None,
    metric: str | Metric | None = None,
    against: Sequence[str] | None = None,
    samples: int | None = None,
    images: ImageOptions | None = None,
    **options: object,
) -> Comparison:
    """
    Quantize `model` and compare it with the float network on `inputs`; with `other`, compare
    `other` with `model` instead. `against` is a second recipe. `metric` and `labels` are as in
    `ceras-compare`; a metric may be a function, and labels an array. `Model.quantize` documents the
    options of quantization.
    """
    return need_hook("compare", Comparer, "ceras_ir.compare")().compare(
        model,
        other,
        inputs=inputs,
        calibration=calibration,
        labels=labels,
        metric=metric,
        against=against,
        samples=samples,
        images=images,
        **options,
    )
