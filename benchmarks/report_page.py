"""
Measure the page of `ceras-report` for YOLOX-s: the size, and the layout time in a browser.

    python benchmarks/report_page.py [FOLDER] [--target c]

FOLDER is a result of `ceras-compile`. Without FOLDER, YOLOX-s with random weights is compiled. The
limits are 3 MB, and 2 s to open the page.
"""

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from yolox import yolox

from ceras_ir.driver.compile import main as compile_main
from ceras_ir.workbench.report.tool import main as report_main

ROUNDS = 5
PROBE = """<script>addEventListener("load", () => {
document.body.offsetHeight; document.body.dataset.taken = performance.now(); });</script></body>"""
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--window-size=1440,900",
)


def milliseconds(page: Path, work: Path) -> float:
    """
    Return the time from the start of loading until scripts have run and the layout is finished.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("needs chromium")
    probed = work / "probed.html"
    probed.write_text(page.read_text("utf-8").replace("</body>", PROBE), "utf-8")
    command = [chromium, *OPTIONS, f"--user-data-dir={work / 'profile'}", probed.as_uri()]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r'data-taken="([\d.]+)"', text)
    if found is None:
        sys.exit("the page did not get ready")
    return float(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description="size and time of a report's page")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--target", default="c")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ceras-page-") as name:
        work = Path(name)
        folder = arguments.folder
        if folder is None:
            model, folder = work / "yolox_s.onnx", work / "out"
            yolox(model)
            command = [str(model), "--target", arguments.target, "--report", "-o", str(folder)]
            if status := compile_main(command):
                sys.exit(status)
        page = work / "page.html"
        report_main([str(folder), "-o", str(page)])
        times = [milliseconds(page, work) for _ in range(ROUNDS)]
        print(
            f"{page.stat().st_size / 1e6:.2f} MB of 3, {statistics.median(times) / 1e3:.2f} s of 2"
        )


if __name__ == "__main__":
    main()
