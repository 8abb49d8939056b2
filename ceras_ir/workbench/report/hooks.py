"""The page of a compile as the core uses it: `--report`, and pictures in notebooks."""

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.driver.hooks import CompileView, Pages
from ceras_ir.network.artefacts import Artefact
from ceras_ir.pipeline.build import Build
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.report import Entry
from ceras_ir.workbench.report.content import content_of
from ceras_ir.workbench.report.graph_picture import module_picture
from ceras_ir.workbench.report.memory_map import memory_picture
from ceras_ir.workbench.report.noise import NoiseObserver
from ceras_ir.workbench.report.page import report_page
from ceras_ir.workbench.report.tool import PAGE


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
