"""
Compare the levels (stages of the compiler) and targets of a network on the same inputs, as
`ceras-verify` does, but from Python.

`compare` measures the loss of accuracy by quantization. An installed extension must provide the
hook `compare`; otherwise it raises a `UsageError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ceras_ir.api import presentation
from ceras_ir.api.model import QUANTIZATION, Model, quantization_keywords
from ceras_ir.api.presentation import diagnosed
from ceras_ir.api.samples import Data, SampleFiles, paths_of, read_samples
from ceras_ir.data.image_options import ImageOptions
from ceras_ir.data.sample_stream import StreamedSamples, open_samples
from ceras_ir.data.samples import Array, Samples
from ceras_ir.driver.differences import Verdict
from ceras_ir.driver.target_options import compiling_targets
from ceras_ir.driver.verify.levels import check_request, verifications
from ceras_ir.pipeline.pass_options import listing
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.extensions import need_hook
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import configured, find_target
from ceras_ir.transforms.quantization.analysis.layer_noise import LayerNoise
from ceras_ir.transforms.quantization_options import check_recipe


@dataclass(frozen=True)
class Verification:
    """
    The result of `verify`: a verdict for each level of the compiler and each target. It is true in
    a condition if all verdicts are good.
    """

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
    Run `model` at each level and on `targets`, by default the targets of `ceras-verify`, on the
    first `samples` of `inputs`, or on synthetic inputs. A model from `quantize` keeps the scales.
    Any other model is quantized for the target.
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
    """
    A metric, such as the accuracy, of the quantized network (`quantized`) and of the network with
    which it is compared (`real`, `None` if it was not measured).
    """

    @property
    def name(self) -> str: ...
    @property
    def quantized(self) -> float: ...
    @property
    def real(self) -> float | None: ...


class Variant(Protocol):
    """
    A network, such as a quantized form, and the network with which it is compared (`reference`),
    with the noise of each layer and the metrics.
    """

    @property
    def name(self) -> str: ...
    @property
    def reference(self) -> str: ...
    @property
    def layers(self) -> Sequence[LayerNoise]: ...
    @property
    def metrics(self) -> Sequence[Measured]: ...


class Comparison(Protocol):
    """
    The result of `compare`: the measurements of one or two variants of a network, on `samples`
    inputs.
    """

    @property
    def title(self) -> str: ...
    @property
    def samples(self) -> int: ...
    @property
    def variants(self) -> Sequence[Variant]: ...

    @property
    def layers(self) -> Sequence[LayerNoise]:
        """
        The noise of each layer of the first variant compared with the float layer: isolated (only
        this layer is quantized, and the operands are from the float network) and accumulated (all
        layers before it are quantized, too).
        """
        ...

    @property
    def metrics(self) -> Sequence[Measured]:
        """The metrics at the outputs of the first variant, such as the accuracy."""
        ...

    @property
    def decibels(self) -> float:
        """The signal-to-noise ratio in dB at the outputs of the first variant."""
        ...

    def page(self) -> str:
        """Return the HTML page that `ceras-compare --html` writes."""
        ...

    def save(self, path: str | PathLike[str]) -> None:
        """Write the HTML page of `ceras-compare --html` to the file `path`."""
        ...

    def _repr_html_(self) -> str: ...


@dataclass(frozen=True)
class ComparisonData:
    """
    The samples, labels and metric of a comparison. Arrays of the caller were written to files.
    """

    samples: Samples | StreamedSamples
    """The compared samples."""
    source: str
    """
    The files or folders of the samples, separated by commas. They can have more samples than are
    compared.
    """
    source_samples: int
    labels: str | None
    metric: str | Metric | None


class Comparer(ABC):
    """Base class of the hook `compare`, which measures networks for `ceras_ir.compare`."""

    @abstractmethod
    def measure(
        self,
        models: Sequence[Model],
        options: BuildOptions,
        recipes: Sequence[Sequence[str]],
        data: ComparisonData,
    ) -> Comparison:
        """
        Quantize a single model with each of `recipes` and compare the results with the float
        network, or, given two models, compare the second with the first.
        """


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
    Quantize `model` and compare it with the float network on `inputs`, or, if `other` is given,
    compare `other` with `model`. `against` is a second recipe (list of quantization passes), for
    which `model` is quantized and measured too. `metric` and `labels` are as in `ceras-compare`; a
    metric may be a function, and labels an array. `Model.quantize` documents `options`.
    """
    comparer = need_hook("compare", Comparer, "ceras_ir.compare")()
    quantization = quantization_keywords(options, "compare")
    check_recipe(list(against or ()), "against")
    if other is not None and against is not None:
        raise UsageError("against is a second recipe of a single model; there are two models")
    if samples is not None and samples < 1:
        raise UsageError(f"samples must be >= 1, got {samples}")
    files = SampleFiles()
    with diagnosed(model.title), files.named():
        network = model.inputs
        data = None
        if calibration is not None:
            folders = images if _is_path(calibration) else None
            data = files.paths(calibration, network, "calibration", folders)
        # The image options apply to the folders of both arguments, and one of them can be arrays.
        path = files.paths(inputs, network, "inputs", images if _is_path(inputs) else None)
        truth = labels
        if truth is not None and not isinstance(truth, str | PathLike):
            truth = files.save({"labels": np.asarray(truth)}, "labels")
        everything = open_samples(path, network)
        chosen = everything.first(samples)
        unquantized = replace(
            model.options,
            calibration=data,
            recipe=(),
            int16=(),
            float=(),
            activation_bits=(),
            weight_bits=(),
            budget=None,
        )
        scheme = replace(unquantized, **quantization)
        return comparer.measure(
            [model] if other is None else [model, other],
            scheme,
            [scheme.recipe, *([] if against is None else [against])],
            ComparisonData(
                chosen, path, len(everything), None if truth is None else fspath(truth), metric
            ),
        )


def _is_path(data: Data) -> bool:
    return paths_of(data) is not None
