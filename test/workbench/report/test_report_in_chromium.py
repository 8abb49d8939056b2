"""Check the page in a real browser: it is drawn, its script runs, and it fits the window."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from workbench.browser import APPEARANCE, CHROMIUM, DARK, NO_CHROMIUM, chromium, probed
from yolox import yolox

from ceras_ir.driver.compile import main as compile_main
from ceras_ir.workbench.report.tool import main as report_main

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
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
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM),
]


def screenshot(work: Path, page: Path, width: int, *options: str) -> Image.Image:
    out = work / f"{width}.png"
    chromium(work, page, f"--window-size={width},1600", f"--screenshot={out}", *options)
    return Image.open(out).convert("RGB")


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of a calibrated network with an accelerator, so that all sections exist."""
    folder = tmp_path_factory.mktemp("digits") / "out"
    data = DIGITS / "digits_calibration.npz"
    command = [str(DIGITS / "digits.onnx"), "--target", "vta", "--report", "-o", str(folder)]
    assert compile_main([*command, "--calibrate", str(data)]) == 0
    return folder / "report.html"


# The window of a headless browser is at least 500 wide.
@pytest.mark.parametrize("width", [500, 800, 1300, 1440])
def test_tables_sort_and_nothing_overflows(digits: Path, tmp_path: Path, width: int):
    found = probed(tmp_path, digits, width, PROBE)
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


@pytest.mark.parametrize("options", [(), (DARK,)])
def test_all_text_has_contrast(digits: Path, tmp_path: Path, options: tuple[str, ...]):
    found = probed(tmp_path, digits, 1300, APPEARANCE, *options)
    assert int(found["texts"]) > 50
    assert float(found["contrast"]) > 3 and not found["overlaps"]
    assert found["paper"] == ("rgb(12, 13, 15)" if options else "rgb(255, 255, 255)")


def test_print_is_light_and_complete(digits: Path, tmp_path: Path):
    found = probed(tmp_path, digits, 1300, APPEARANCE, DARK, as_print=True)
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
    for width in (800, 1300):
        found = probed(tmp_path, page, width, APPEARANCE)
        assert int(found["overflow"]) <= 0 and not found["overlaps"]
    picture = screenshot(tmp_path, page, 1280)
    assert len(picture.getcolors(1 << 24) or []) > 50
    text = chromium(tmp_path, page, "--dump-dom")
    assert "conv2d" in text and text.count("<svg") >= 2


def test_a_network_of_many_layers_with_long_names(tmp_path: Path):
    shape = "tensor<1x16x16x8xf32>"
    name = "features/Mobile_Block_{}/conv_{}/fuse_transform_prequant"
    lines = [
        f"%{i} = graph.conv2d %{i - 1 if i else 'x'}, %w : ({shape}, tensor<8x1x1x8xf32>) -> "
        f'{shape} loc("{name.format(i, i % 3)}")'
        for i in range(90)
    ]
    weights = "tensor<8x1x1x8xf32>"
    model = tmp_path / "many.mlir"
    model.write_text(
        "\n".join(
            [
                f"func.func @main(%x: {shape}) -> {shape} {{",
                f"%w = graph.constant dense<0.125> : {weights} : {weights}",
                *lines,
                f"func.return %89 : {shape} }}",
            ]
        )
    )
    command = [str(model), "--target", "arduino", "--quantize", "int8", "--report"]
    assert compile_main([*command, "-o", str(tmp_path / "out")]) == 0
    for width in (800, 1300):
        found = probed(tmp_path, tmp_path / "out" / "report.html", width, APPEARANCE)
        assert int(found["overflow"]) <= 0 and not found["overlaps"]
        assert int(found["texts"]) > 250


def test_yolox_is_small_and_quick(tmp_path: Path):
    """The page has less than 3 MB and is drawn in 2 s; `benchmarks/report_page.py` prints both."""
    model, folder = tmp_path / "yolox_s.onnx", tmp_path / "out"
    yolox(model)
    assert compile_main([str(model), "--target", "c", "--report", "-o", str(folder)]) == 0
    page = folder / "report.html"
    assert page.stat().st_size < 3_000_000
    found = probed(tmp_path, page, 1440, PROBE)
    # The time includes a busy machine and the sorting of the probe.
    assert float(found["taken"]) < 4000
    assert int(found["overflow"]) <= 0
