"""
The page of a compile as the core uses it: `--report`, and pictures in notebooks.

What quantization did to each layer: the quantized graph beside the float one, on a few samples of
the data that calibrated it.
"""

from math import isfinite, isnan

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.command.exit_status import phase
from ceras_ir.data.sample_stream import open_samples
from ceras_ir.driver.hooks import CompileView, Pages
from ceras_ir.network.artefacts import Artefact, network_inputs
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.build import Build
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.report import Entry, spelling
from ceras_ir.pipeline.stages import FUSED, QUANTIZED
from ceras_ir.transforms.quantization.analysis.layer_noise import layer_of
from ceras_ir.transforms.quantization.analysis.output_noise import quantities_of_outputs, ratio_of
from ceras_ir.workbench.compare.variants import beside_another
from ceras_ir.workbench.report.content import NOT_AVAILABLE, content_of
from ceras_ir.workbench.report.graph_picture import module_picture
from ceras_ir.workbench.report.memory_map import memory_picture
from ceras_ir.workbench.report.page import report_page
from ceras_ir.workbench.report.tool import PAGE

SAMPLES = 4
"""How many of the calibration's."""


class NoiseObserver:
    """Keeps the float and the quantized graph while a network is compiled."""

    def __init__(self) -> None:
        self.reference: ModuleOp | None = None
        self.quantized: ModuleOp | None = None

    def see(self, level: str, module: ModuleOp) -> None:
        """Take a copy of the two levels that are compared."""
        if level == FUSED:
            self.reference = module.clone()
        elif level == QUANTIZED:
            self.quantized = module.clone()

    def measured(self, data: str) -> dict[str, object] | None:
        """The entry `noise` of a report; None where nothing was quantized."""
        if self.reference is None or self.quantized is None:
            return None
        with phase("measuring quantization noise"):
            return measure(self.reference, self.quantized, data)


def measure(reference: ModuleOp, quantized: ModuleOp, data: str) -> dict[str, object]:
    """Signal to noise of each layer alone, accumulated, and of the outputs."""
    given = open_samples(data, network_inputs(main_function(reference))).first(SAMPLES)
    samples = list(given)
    meter = beside_another(reference, quantized)
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
    """Return a ratio for JSON, which has no infinity: None if nothing is lost, "n/a" for NaN."""
    if isnan(ratio):
        return NOT_AVAILABLE
    return round(ratio, 2) if isfinite(ratio) else None


class ReportView(CompileView):
    """The page of a compile, and the measurements that only the page shows."""

    def __init__(self, options: BuildOptions):
        super().__init__(options)
        self.noise = NoiseObserver()

    def see(self, level: str, title: str, module: ModuleOp) -> None:
        self.noise.see(level, module)

    def add(self, compiled: Build) -> None:
        """Measure what is missing, and add the page to the files."""
        data, report = self.options.calibration, compiled.report
        if data is not None and (noise := self.noise.measured(data)) is not None:
            report["noise"] = noise
        if (timelines := compiled.emission.timelines) is not None:
            report["timelines"] = [timeline.to_json() for timeline in timelines()]
        text = ReportPages().page(report, self.options.title, self.options.target.name)
        compiled.emission.artefacts.append(Artefact.of_text(PAGE, "a page about it all", text))


class ReportPages(Pages):
    """The page of `ceras-report` and its pictures."""

    def page(self, report: Entry, title: str, target: str) -> str:
        return report_page(content_of(report, title, target))

    def graph(self, module: ModuleOp) -> str:
        return module_picture(module)

    def memory(self, report: Entry, title: str, target: str) -> str | None:
        plan = content_of(report, title, target).plan
        return None if plan is None else memory_picture(plan)
