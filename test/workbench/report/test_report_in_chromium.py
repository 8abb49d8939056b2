"""The page in a real browser: it is drawn, its script runs, nothing is wider than the window."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from yolox import yolox_s

from ceras_ir.driver.compile import main as compile_main
from ceras_ir.workbench.report.tool import main as report_main

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
PROBE = """
<script>
addEventListener("load", () => {
  const heads = [...document.querySelectorAll("#layers th")];
  const head = heads.find((th) => /^time/.test(th.innerText));
  head.click();
  const column = head.cellIndex, rows = [...document.querySelector("#layers").tBodies[0].rows];
  const tell = (key, value) => { document.body.dataset[key] = value; };
  tell("sorted", rows.map((row) => row.cells[column].dataset.v).join(" "));
  tell("overflow", document.documentElement.scrollWidth - innerWidth);
  const cut = [...document.querySelectorAll(".scroll")].map((e) => e.scrollWidth - e.clientWidth);
  tell("cut", Math.max(...cut));
  document.querySelector("#layers tbody tr").click();
  tell("facts", document.querySelector("#facts h3").innerText);
  tell("first", document.querySelector("#layers tbody tr td.name").innerText);
  document.getElementById("theme").click();
  tell("paper", getComputedStyle(document.body).backgroundColor);
  tell("taken", performance.now());
});
</script>
"""
COLOURS = """
<script>
addEventListener("load", () => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map((text) => {
      const share = Number(text) / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const contrast = (colour) => {
    const other = light(colour);
    return (Math.max(other, paper) + 0.05) / (Math.min(other, paper) + 0.05);
  };
  // Names of buffers are on their rectangles.
  const texts = [...document.querySelectorAll("svg text:not(.memory .name)")];
  const words = [...document.querySelectorAll("h1, h2, h3, p, td, th, .label, .note, a")];
  document.body.dataset.texts = texts.length;
  document.body.dataset.contrast = Math.min(
    ...texts.map((text) => contrast(getComputedStyle(text).fill)),
    ...words.map((word) => contrast(getComputedStyle(word).color)),
  );
  document.body.dataset.paper = getComputedStyle(document.body).backgroundColor;
  const boxes = [...document.querySelectorAll(".scroll")];
  document.body.dataset.hidden = boxes.some((box) => getComputedStyle(box).overflow != "visible");
});
</script>
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium to look at pages with"),
]


def chromium(work: Path, page: Path, *options: str) -> str:
    """What the browser prints."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *QUIET, f"--user-data-dir={work / 'profile'}", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def probed(
    work: Path, page: Path, width: int, *options: str, probe: str = PROBE, as_print: bool = False
) -> dict[str, str]:
    """Return the findings of a script in the page, optionally with the style for print."""
    copy = work / "probed.html"
    text = page.read_text(encoding="utf-8").replace("</body>", f"{probe}</body>")
    copy.write_text(text.replace("@media print", "@media screen") if as_print else text, "utf-8")
    text = chromium(work, copy, f"--window-size={width},900", "--dump-dom", *options)
    found = re.search(r"<body([^>]*)>", text)
    assert found is not None
    return dict(re.findall(r'data-(\w+)="([^"]*)"', found[1]))


def screenshot(work: Path, page: Path, width: int, *options: str) -> Image.Image:
    out = work / f"{width}.png"
    chromium(work, page, f"--window-size={width},1600", f"--screenshot={out}", *options)
    return Image.open(out).convert("RGB")


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a network with an accelerator, calibrated, so that nothing is missing."""
    folder = tmp_path_factory.mktemp("digits") / "out"
    data = DIGITS / "digits_calibration.npz"
    command = [str(DIGITS / "digits.onnx"), "--target", "vta", "--report", "-o", str(folder)]
    assert compile_main([*command, "--calibrate", str(data)]) == 0
    return folder / "report.html"


# A headless browser's window is at least 500 wide.
@pytest.mark.parametrize("width", [500, 800, 1300, 1440])
def test_tables_sort_and_nothing_overflows(digits: Path, tmp_path: Path, width: int):
    found = probed(tmp_path, digits, width)
    times = [float(time) for time in found["sorted"].split()]
    layers = json.loads(digits.with_name("report.json").read_text(encoding="utf-8"))["layers"]
    assert (
        len(times) == len(layers) and times == sorted(times, reverse=True) and times[0] > times[-1]
    )
    assert int(found["overflow"]) <= 0
    # The widest table, with accelerator and noise, is complete.
    assert width < 1300 or int(found["cut"]) == 0
    assert found["facts"] == found["first"]
    assert found["paper"] == "rgb(12, 13, 15)"


DARK = "--blink-settings=preferredColorScheme=0"


@pytest.mark.parametrize("options", [(), (DARK,)])
def test_all_text_has_contrast(digits: Path, tmp_path: Path, options: tuple[str, ...]):
    found = probed(tmp_path, digits, 1300, *options, probe=COLOURS)
    assert int(found["texts"]) > 50
    assert float(found["contrast"]) > 3
    assert found["paper"] == ("rgb(12, 13, 15)" if options else "rgb(255, 255, 255)")


def test_print_is_light_and_complete(digits: Path, tmp_path: Path):
    found = probed(tmp_path, digits, 1300, DARK, probe=COLOURS, as_print=True)
    assert found["paper"] == "rgb(255, 255, 255)" and found["hidden"] == "false"


@pytest.mark.parametrize("dark", [False, True])
def test_a_screenshot_has_the_theme_and_all_colours(digits: Path, tmp_path: Path, dark: bool):
    options = [DARK] if dark else []
    picture = screenshot(tmp_path, digits, 1280, *options)
    assert picture.size[0] == 1280
    pixels = np.asarray(picture).reshape(-1, 3)
    paper = (pixels == ([12, 13, 15] if dark else [255, 255, 255])).all(axis=1).mean()
    assert paper > 0.4
    for colour in ((0x5B, 0x8D, 0xEF), (0xE0, 0x8A, 0x3C)):
        assert (np.abs(pixels.astype(int) - colour).max(axis=1) <= 2).sum() > 500, colour


def test_two_compiles_beside_each_other(digits: Path, tmp_path: Path):
    other = tmp_path / "other"
    model = str(DIGITS / "digits.onnx")
    assert compile_main([model, "--target", "c", "-o", str(other)]) == 0
    page = tmp_path / "page.html"
    assert report_main([str(digits.parent), str(other), "-o", str(page)]) == 0
    picture = screenshot(tmp_path, page, 1280)
    assert len(picture.getcolors(1 << 24) or []) > 50
    text = chromium(tmp_path, page, "--dump-dom")
    assert "conv2d" in text and text.count("<svg") >= 2


def test_yolox_is_small_and_quick(tmp_path: Path):
    """Under 3 MB, and drawn in under 2 s; `benchmarks/report_page.py` prints both for VTA."""
    model, folder = tmp_path / "yolox_s.onnx", tmp_path / "out"
    yolox_s(model)
    assert compile_main([str(model), "--target", "c", "--report", "-o", str(folder)]) == 0
    page = folder / "report.html"
    assert page.stat().st_size < 3_000_000
    found = probed(tmp_path, page, 1440)
    # A busy machine, and the sorting of the probe, are in it too.
    assert float(found["taken"]) < 4000
    assert int(found["overflow"]) <= 0
