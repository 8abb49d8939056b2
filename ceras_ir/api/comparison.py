"""What quantization costs a network: `compare`, if an extension offers it as the hook `compare`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import ClassVar, Protocol, TypeAlias

from numpy.typing import ArrayLike

from ceras_ir.api.model import QUANTIZATION, Model
from ceras_ir.api.samples import Data
from ceras_ir.data.image_options import ImageOptions
from ceras_ir.data.samples import Array
from ceras_ir.pipeline.pass_options import listing
from ceras_ir.support.extensions import need_hook
from ceras_ir.transforms.quantization.analysis.layer_noise import LayerNoise

Metric: TypeAlias = Callable[[Mapping[str, Array], Array | None], float | Mapping[str, float]]
"""A function of the outputs by name and the labels, if there are any."""


class Measured(Protocol):
    """A figure of merit of two networks."""

    @property
    def name(self) -> str: ...
    @property
    def quantized(self) -> float: ...
    @property
    def real(self) -> float | None: ...


class Variant(Protocol):
    """A network next to its reference, and the measurements of it."""

    @property
    def name(self) -> str: ...
    @property
    def reference(self) -> str: ...
    @property
    def layers(self) -> Sequence[LayerNoise]: ...
    @property
    def metrics(self) -> Sequence[Measured]: ...


class Comparison(Protocol):
    """The measurements of one variant of a network or of two, on `samples` inputs."""

    @property
    def title(self) -> str: ...
    @property
    def samples(self) -> int: ...
    @property
    def variants(self) -> Sequence[Variant]: ...

    @property
    def layers(self) -> Sequence[LayerNoise]:
        """Of the first variant: what is lost in each layer, alone and accumulated."""
        ...

    @property
    def metrics(self) -> Sequence[Measured]:
        """Of the first variant: the figures of merit at the outputs."""
        ...

    @property
    def decibels(self) -> float:
        """Of the first variant: signal to noise at the outputs."""
        ...

    def page(self) -> str:
        """Return the page that `ceras-compare --html` writes."""
        ...

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page."""
        ...

    def _repr_html_(self) -> str: ...


class Comparer:
    """The function behind `compare`; the hook of the same name."""

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
    Quantize `model` and run it beside its float network on `inputs`; with `other`, run that
    beside `model` instead. `against` is a second recipe. `metric` and `labels` are as in
    `ceras-compare`; a metric may be a function, and labels an array. `Model.quantize`
    documents the options of quantization.
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
