"""The gallery of the site: reports of compiled examples, made anew with every build of the site."""

import sys
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from ceras_ir.driver.compile.tool import main as compile_main
from ceras_ir.workbench.report.tool import PAGE
from ceras_ir.workbench.report.tool import main as report_main

ROOT = Path(__file__).resolve().parents[2]
CALIBRATED = "--calibrate examples/digits/digits_calibration.npz"
DIGITS = "examples/digits/digits.onnx"


@dataclass(frozen=True)
class Report:
    """One page of the gallery."""

    name: str
    title: str
    text: str
    options: str
    """Of `ceras-compile`; of `ceras-report` with two names of others, for a difference."""

    @property
    def is_difference(self) -> bool:
        return not self.options.startswith("examples/")

    @property
    def command(self) -> str:
        """As a reader would write it."""
        if self.is_difference:
            return f"ceras-report {self.options} -o {self.name}.html"
        return f"ceras-compile {self.options} --report -o {self.name}"


REPORTS = (
    Report(
        "host-float",
        "A network on a host, in float",
        "Predicted times are those of one x86-64 core.",
        f"{DIGITS} --target c",
    ),
    Report(
        "host-int8",
        "The same in int8",
        "The section on noise says what quantization costs each layer, alone and accumulated.",
        f"{DIGITS} --target c {CALIBRATED}",
    ),
    Report(
        "float-against-int8",
        "What differs between the two",
        "Totals and layers of two compiles beside each other.",
        "host-float host-int8",
    ),
    Report(
        "microcontroller",
        "On a microcontroller",
        "An Arduino Uno R4: bytes of flash and SRAM by layer, and predicted instructions.",
        f"{DIGITS} --target arduino --board uno_r4_wifi {CALIBRATED}",
    ),
    Report(
        "vta",
        "On VTA",
        "Two devices, with the reason for every layer on the CPU, and the timeline of each launch.",
        f"{DIGITS} --target vta --board pynq {CALIBRATED}",
    ),
)

HEAD = """\
# Gallery of reports

What `--report` and `ceras-report` write ([reports.md](reports.md) explains the sections). Each page
is one file that needs no network; these were made by this version.
"""


def write_gallery(docs: Path) -> None:
    """Write `gallery.md` and its reports into the folder `docs`."""
    folder = docs / "gallery"
    folder.mkdir(parents=True, exist_ok=True)
    parts = [HEAD]
    with tempfile.TemporaryDirectory(prefix="ceras-gallery-") as work, chdir(ROOT):
        for report in REPORTS:
            page = folder / f"{report.name}.html"
            _make(report, Path(work), page)
            parts.append(
                f"## {report.title}\n\n{report.text}\n\n```console\n$ {report.command}\n```\n\n"
                f"[Open the report](gallery/{page.name}), {page.stat().st_size / 1000:,.0f} kB.\n"
            )
    (docs / "gallery.md").write_text("\n".join(parts), encoding="utf-8")


def _make(report: Report, work: Path, page: Path) -> None:
    said = StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        if report.is_difference:
            folders = [str(work / name) for name in report.options.split()]
            status = report_main([*folders, "-o", str(page)])
        else:
            out = work / report.name
            status = compile_main([*report.options.split(), "--report", "-o", str(out)])
            if not status:
                page.write_bytes((out / PAGE).read_bytes())
    if status:
        sys.exit(f"gallery: {report.command}: {said.getvalue()}")
