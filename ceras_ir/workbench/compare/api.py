"""Compare networks layer by layer from Python, as `ceras-compare` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import StringIO
from os import PathLike, fspath

import numpy as np
from numpy.typing import ArrayLike
from rich.console import Console

from ceras_ir.api import presentation
from ceras_ir.api.checks import Comparer, Metric
from ceras_ir.api.model import Model, quantization_keywords
from ceras_ir.api.presentation import diagnosed
from ceras_ir.api.samples import Data, SampleFiles, paths_of
from ceras_ir.command.output_files import open_output
from ceras_ir.data.image_options import ImageOptions
from ceras_ir.data.sample_stream import open_samples
from ceras_ir.data.samples import require_finite
from ceras_ir.network.function import inputs_with_missing_values, main_function
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.transforms.quantization.analysis.layer_noise import LayerNoise
from ceras_ir.transforms.quantization_options import check_recipe
from ceras_ir.workbench.compare.output import WIDTH, compare_page, print_table
from ceras_ir.workbench.compare.variants import (
    Task,
    Variant,
    comparing_options,
    one_model,
    two_models,
)
from ceras_ir.workbench.metrics.choose import judgement_of
from ceras_ir.workbench.metrics.figures import Measured


@dataclass(frozen=True)
class Comparison:
    """The measurements of variants of a network, or of two networks, on `samples` inputs."""

    title: str
    variants: tuple[Variant, ...]
    samples: int

    @property
    def layers(self) -> list[LayerNoise]:
        """The noise of each layer of the first variant, isolated and accumulated."""
        return self.variants[0].layers

    @property
    def metrics(self) -> list[Measured]:
        """The figures of merit of the first variant at the outputs."""
        return self.variants[0].metrics

    @property
    def decibels(self) -> float:
        """The signal-to-noise ratio of the first variant at the outputs."""
        return self.variants[0].ratio

    def page(self) -> str:
        """Return the page of `ceras-compare --html`."""
        return compare_page(self.title, self.variants, self.samples)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page."""
        with diagnosed(fspath(path)), open_output(fspath(path)) as stream:
            stream.write(self.page())

    def __str__(self) -> str:
        """Return the table of `ceras-compare`."""
        text = StringIO()
        print_table(self.variants, self.samples, Console(file=text, width=WIDTH, highlight=False))
        return text.getvalue().rstrip()

    def _repr_html_(self) -> str:
        columns = ["layer", "operation", "scale", "alone dB", "accumulated dB", "of the noise"]
        rows = [
            [v.name, v.operator, v.scale, v.isolated_ratio, v.accumulated_ratio, v.share]
            for v in self.layers
        ]
        figures = [[m.name, m.real, m.quantized, m.error] for m in self.metrics]
        first = self.variants[0]
        return presentation.joined(
            [
                presentation.paragraph(f"{self.title}: {first.name} against {first.reference}"),
                presentation.table(
                    ["metric", first.reference, first.name, "standard error"], figures
                ),
                presentation.table(columns, rows),
            ]
        )


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
    """Compare networks; see `ceras_ir.api.checks.compare`."""
    quantization = quantization_keywords(options, "compare")
    check_recipe(list(against or ()), "against")
    if other is not None and against is not None:
        raise UsageError("against is a second recipe of a single model; there are two models")
    if samples is not None and samples < 1:
        raise UsageError(f"samples must be >= 1, got {samples}")
    files = SampleFiles()
    with diagnosed(model.title), files.named():
        network = model.inputs
        folders = images if calibration is None or _is_path(calibration) else None
        data = None
        if calibration is not None:
            data = files.paths(calibration, network, "calibration", folders)
        path = files.paths(inputs, network, "inputs", images if _is_path(inputs) else None)
        truth = labels
        if truth is not None and not isinstance(truth, str | PathLike):
            truth = files.save({"labels": np.asarray(truth)}, "labels")
        everything = open_samples(path, network)
        chosen = everything.first(samples)
        count = len(everything)
        judgement = judgement_of(
            metric, None if truth is None else fspath(truth), path, count, network
        )
        lacking = inputs_with_missing_values(main_function(model.module))
        require_finite(chosen, "inputs", nullable=lacking)
        task = Task(chosen, judgement.first(len(chosen)))
        given = replace(model.options, calibration=data, recipe=(), int16=(), float=(), budget=None)
        scheme = comparing_options(replace(given, **quantization))
        if other is not None:
            pair = [(each.title, each.module) for each in (model, other)]
            variants = two_models(pair, scheme, task)
        else:
            recipes = [scheme.recipe, *([] if against is None else [against])]
            variants = one_model(model.module, scheme, recipes, task)
    return Comparison(model.title, tuple(variants), len(chosen))


def _is_path(data: Data) -> bool:
    return paths_of(data) is not None


class NoiseComparer(Comparer):
    """The hook `compare`, implemented by the workbench."""

    compare = staticmethod(compare)
