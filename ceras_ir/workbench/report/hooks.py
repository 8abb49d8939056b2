"""
Implement the hooks for the page of `--report` and for pictures in notebooks.

The quantization noise of layers is measured on a few calibration samples, against the float graph.
"""

from math import isfinite, isnan

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.api.presentation import Pages
from ceras_ir.command.exit_status import phase
from ceras_ir.data.sample_stream import open_samples
from ceras_ir.driver.compile import CompileView
from ceras_ir.network.artefacts import Artefact, network_inputs
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.build import Build
from ceras_ir.pipeline.report import Entry, spelling
from ceras_ir.pipeline.stages import FUSED, QUANTIZED, BuildOptions
from ceras_ir.transforms.quantization.analysis.layer_noise import layer_of
from ceras_ir.transforms.quantization.analysis.output_noise import quantities_of_outputs, ratio_of
from ceras_ir.workbench.compare.variants import pair_with_another
from ceras_ir.workbench.report.content import NOT_AVAILABLE, content_of
from ceras_ir.workbench.report.graph_picture import module_picture
from ceras_ir.workbench.report.memory_picture import memory_picture
from ceras_ir.workbench.report.page import report_page
from ceras_ir.workbench.report.tool import COMPARISON_PAGE

SAMPLES = 4
"""The number of calibration samples."""


class NoiseObserver:
    """
    Copies the float and the quantized network during a compilation, to measure the noise of layers
    for the report.
    """

    def __init__(self) -> None:
        self.reference: ModuleOp | None = None
        self.quantized: ModuleOp | None = None

    def see(self, level: str, module: ModuleOp) -> None:
        """
        Receive the network at the end of a level, and copy it if the level is the float or
        quantized graph.
        """
        if level == FUSED:
            self.reference = module.clone()
        elif level == QUANTIZED:
            self.quantized = module.clone()

    def measured(self, data: str) -> dict[str, object] | None:
        """
        Return the quantization noise of layers on the samples in `data`, as an entry of the report.
        Return `None` if the network was not quantized.
        """
        if self.reference is None or self.quantized is None:
            return None
        with phase("measuring quantization noise"):
            return measure(self.reference, self.quantized, data)


def measure(reference: ModuleOp, quantized: ModuleOp, data: str) -> dict[str, object]:
    """
    Return the signal-to-noise ratio in dB of each layer, isolated and accumulated, and of the
    outputs, as an entry of the report. `data` names files or folders, of which the first samples
    are used.
    """
    given = open_samples(data, network_inputs(main_function(reference))).first(SAMPLES)
    samples = list(given)
    meter = pair_with_another(reference, quantized)
    expected, actual = zip(*meter.measure(samples), strict=True)
    quantities = quantities_of_outputs(main_function(reference))
    spelled = {
        number: spelling(op)
        for op in main_function(quantized).body.block.ops
        if (number := layer_of(op)) is not None
    }
    layers = [
        {
            "name": layer.name,
            "op": spelled[number],
            "alone_db": decibels_of(layer.isolated_ratio),
            "accumulated_db": decibels_of(layer.accumulated_ratio),
            "clipped": round(layer.clipped_share, 6),
        }
        for number, layer in meter.layers.items()
    ]
    return {
        "samples": len(samples),
        "output_db": decibels_of(ratio_of(expected, actual, quantities)),
        "layers": layers,
    }


def decibels_of(ratio: float) -> float | str | None:
    """
    Return a ratio in dB for JSON, which has no infinity: `None` for exact results, "n/a" for NaN.
    """
    if isnan(ratio):
        return NOT_AVAILABLE
    return round(ratio, 2) if isfinite(ratio) else None


class ReportView(CompileView):
    """
    Writes the HTML page of `ceras-compile --report`, and measures the figures that only this page
    shows.
    """

    def __init__(self, options: BuildOptions):
        super().__init__(options)
        self.noise = NoiseObserver()

    def see(self, level: str, title: str, module: ModuleOp) -> None:
        self.noise.see(level, module)

    def add(self, compiled: Build) -> None:
        """
        Measure figures that the report does not have, and add the HTML page to the compiled files.
        """
        data, report = self.options.calibration, compiled.report
        if data is not None and (noise := self.noise.measured(data)) is not None:
            report["noise"] = noise
        if (timelines := compiled.emission.timelines) is not None:
            report["timelines"] = [timeline.to_json() for timeline in timelines()]
        text = ReportPages().page(report, self.options.title, self.options.target.name)
        compiled.emission.artefacts.append(
            Artefact.of_text(COMPARISON_PAGE, "a page about it all", text)
        )


class ReportPages(Pages):
    """The implementation of the hook `pages`: report pages, and pictures in notebooks."""

    def page(self, report: Entry, title: str, target: str) -> str:
        return report_page(content_of(report, title, target))

    def graph(self, module: ModuleOp) -> str:
        return module_picture(module)

    def memory(self, report: Entry, title: str, target: str) -> str | None:
        plan = content_of(report, title, target).plan
        return None if plan is None else memory_picture(plan)
