"""Compare networks layer by layer from Python, as `ceras-compare` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from os import PathLike, fspath

from rich.console import Console

from ceras_ir.api import presentation
from ceras_ir.api.checks import Comparer, ComparisonData
from ceras_ir.api.model import Model
from ceras_ir.api.presentation import diagnosed
from ceras_ir.command.output_files import open_output
from ceras_ir.data.samples import require_finite
from ceras_ir.network.function import inputs_with_missing_values, main_function
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.transforms.quantization.analysis.layer_noise import LayerNoise
from ceras_ir.workbench.compare.output import MAX_LINE_CHARACTERS, compare_page, print_table
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
    """
    The result of `ceras_ir.compare`: the measurements of one or two quantized networks (variants)
    on `samples` inputs.
    """

    title: str
    variants: tuple[Variant, ...]
    samples: int

    @property
    def layers(self) -> list[LayerNoise]:
        """The noise that quantization adds to each layer of the first variant."""
        return self.variants[0].layers

    @property
    def metrics(self) -> list[Measured]:
        """The metrics at the outputs of the first variant, such as the accuracy."""
        return self.variants[0].metrics

    @property
    def decibels(self) -> float:
        """The signal-to-noise ratio at the outputs of the first variant, in dB."""
        return self.variants[0].ratio

    def page(self) -> str:
        """Return the HTML page that `ceras-compare --html` writes."""
        return compare_page(self.title, self.variants, self.samples)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the HTML page of the comparison to the file `path`."""
        with diagnosed(fspath(path)), open_output(fspath(path)) as stream:
            stream.write(self.page())

    def __str__(self) -> str:
        """Return the table that `ceras-compare` prints."""
        text = StringIO()
        print_table(
            self.variants,
            self.samples,
            Console(file=text, width=MAX_LINE_CHARACTERS, highlight=False),
        )
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


class NoiseComparer(Comparer):
    """
    The implementation of `ceras_ir.compare`, which the workbench registers as the hook `compare`.
    """

    def measure(
        self,
        models: Sequence[Model],
        options: BuildOptions,
        recipes: Sequence[Sequence[str]],
        data: ComparisonData,
    ) -> Comparison:
        model, *others = models
        judgement = judgement_of(
            data.metric, data.labels, data.source, data.source_samples, model.inputs
        )
        lacking = inputs_with_missing_values(main_function(model.module))
        require_finite(data.samples, "inputs", nullable=lacking)
        task = Task(data.samples, judgement.first(len(data.samples)))
        scheme = comparing_options(options)
        if others:
            pair = [(each.title, each.module) for each in models]
            variants = two_models(pair, scheme, task)
        else:
            variants = one_model(model.module, scheme, recipes, task)
        return Comparison(model.title, tuple(variants), len(data.samples))
