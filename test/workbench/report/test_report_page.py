"""Check that the page of `ceras-report` matches one folder, or two that it compares."""

import json
import re
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from ceras_ir.driver.compile import main as compile_main
from ceras_ir.frontends.onnx.model.model_file import read_model
from ceras_ir.workbench.report.tool import main as report_main

T = "tensor<1x8x8x4xf32>"
NETWORK = f"""
func.func @main(%x: {T}) -> {T} {{
  %w = "graph.constant"() <{{value = dense<0.25> : tensor<4x1x1x4xf32>}}> : ()
    -> tensor<4x1x1x4xf32>
  %a = graph.unary <relu> %x : {T} loc("first <b>")
  %b = graph.conv2d %a, %w : ({T}, tensor<4x1x1x4xf32>) -> {T} loc("second")
  %c = graph.binary add %b, %a : ({T}, {T}) -> {T} loc("third")
  func.return %c : {T}
}}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "a&b.mlir"
    path.write_text(NETWORK)
    return path


def compiled(model: Path, name: str, *options: str, target: str = "c") -> Path:
    folder = model.parent / name
    assert compile_main([str(model), "--target", target, "-o", str(folder), *options]) == 0
    return folder


def page_of(*folders: Path) -> str:
    out = folders[0].parent / "page.html"
    assert report_main([*map(str, folders), "-o", str(out)]) == 0
    return out.read_text(encoding="utf-8")


def facts(page: str) -> list[dict[str, object]]:
    found = re.search(r'id="facts-data"[^>]*>(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


def test_a_page_has_every_layer_and_loads_nothing(model: Path):
    page = page_of(compiled(model, "out"))
    # The convolution contains the addition.
    assert [layer["title"] for layer in facts(page)] == ["first <b>", "second"]
    assert "first &lt;b&gt;" in page and "first <b>" not in page
    assert not re.search(r'(?:src|href)="(?!#)', page) and "url(" not in page
    assert "a&amp;b.mlir" in page and "&lt;svg" not in page


def test_edges_are_in_the_report(model: Path):
    report = json.loads((compiled(model, "out") / "report.json").read_text())
    assert [layer["inputs"] for layer in report["layers"]] == [["input0"], [0]]
    assert report["results"] == {"output0": 1}
    assert [layer["shape"] for layer in report["layers"]] == [[1, 8, 8, 4]] * 2
    memory = report["memory"]
    assert max(b["offset"] + b["size"] for b in memory["buffers"]) == memory["size"]


def test_the_command_and_the_digest_are_told(model: Path):
    folder = compiled(model, "out", "--report", "--io", "model")
    provenance = json.loads((folder / "report.json").read_text())["provenance"]
    assert provenance["model"]["sha256"] == sha256(model.read_bytes()).hexdigest()
    command = provenance["command"]
    assert command == f"ceras-compile '{model}' --target c -o DIR --report --io model"
    assert {"ceras-ir", "xdsl", "python"} <= provenance["versions"].keys()
    assert "ceras-compile" in (folder / "report.html").read_text()


def test_layers_have_times_that_sum_up(model: Path):
    report = json.loads((compiled(model, "out", target="arduino") / "report.json").read_text())
    times = [layer["microseconds"] for layer in report["layers"]]
    assert all(time > 0 for time in times)
    assert sum(times) == pytest.approx(report["prediction"]["microseconds"], abs=0.01)
    assert report["layers"][1]["instructions"] == pytest.approx(48 * times[1], rel=0.01)


def test_the_builds_of_a_board_are_drawn(model: Path):
    folder = compiled(model, "out", "--quantize", "int8", target="arduino")
    report = json.loads((folder / "report.json").read_text())
    page = page_of(folder)
    assert '<section id="optimize">' in page
    for name, build in report["optimize"]["goals"].items():
        selected = " (selected)" if name == report["optimize"]["selected"] else ""
        assert f'<td class="text">{name}{selected}</td>' in page
        assert f">{build['flash_bytes']:,}</td>" in page
    del report["optimize"]
    (folder / "report.json").write_text(json.dumps(report))
    assert '<section id="optimize">' not in page_of(folder)


def test_the_stack_is_compared_with_the_reserved_bytes(model: Path):
    folder = compiled(model, "out", target="arduino")
    report = json.loads((folder / "report.json").read_text())
    # The bound needs a cross compiler.
    report["totals"] |= {"stack_bytes": 1234, "board_stack_bytes": 4567}
    (folder / "report.json").write_text(json.dumps(report))
    assert "1,234 of 4,567 bytes that the board description reserves" in page_of(folder)


@pytest.mark.slow
def test_calibrated_networks_have_noise(model: Path):
    data = model.parent / "data.npz"
    samples = np.random.default_rng(0).standard_normal((4, 8, 8, 4)).astype(np.float32)
    np.savez(data, input0=samples)
    folder = compiled(model, "out", "--report", "--calibrate", str(data))
    report = json.loads((folder / "report.json").read_text())
    ratios = [layer["accumulated_db"] for layer in report["noise"]["layers"]]
    # The first layer is in float, because it depends only on inputs.
    assert ratios[0] is None and 20 < ratios[1] < 80
    assert report["provenance"]["data"] == {str(data): sha256(data.read_bytes()).hexdigest()}
    page = page_of(folder)
    assert 'id="noise"' in page
    # A target without accelerator has only layers in float.
    assert "Why layers are in float: the rule and the remedy." in page
    assert "encoded, equal arrays once; flash adds padding, tables of kernels, and code" in page


@pytest.mark.needs("vta")
def test_reasons_of_an_accelerator(model: Path):
    page = page_of(compiled(model, "out", "--quantize", "int8", target="vta"))
    assert "Why layers are not on the accelerator or in float: the rule and the remedy." in page


@pytest.mark.slow
def test_two_folders_side_by_side(model: Path):
    before = compiled(model, "before")
    after = compiled(model, "after", "--quantize", "int8")
    page = page_of(before, after)
    assert "2 layers are in both, 0 only in before, 2 only in after" in page
    assert '<td class="text">options quantized' in page and "better" in page


def test_a_trace_has_one_span_a_layer(model: Path):
    folder = compiled(model, "out")
    trace = model.parent / "trace.json"
    page = model.parent / "page.html"
    assert report_main([str(folder), "-o", str(page), "--trace", str(trace)]) == 0
    events = json.loads(trace.read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert [e["name"] for e in spans] == ["first <b>", "second"]
    assert spans[1]["ts"] == pytest.approx(spans[0]["ts"] + spans[0]["dur"], abs=0.01)


@pytest.mark.slow
def test_every_level_is_written_for_viewers(model: Path):
    folder = compiled(model, "out", "--quantize", "int8", "--emit-levels")
    levels = sorted((folder / "levels").iterdir())
    names = [path.name for path in levels]
    assert names[0] == "0-graph.onnx" and "2-quantized-graph.onnx" in names and len(names) == 5
    sizes = [len(read_model(path).graph.node) for path in levels]
    assert all(sizes) and sizes[2] > sizes[1]
    listed = json.loads((folder / "manifest.json").read_text())["files"]
    assert all(f"levels/{name}" in listed for name in names)


BROKEN = {
    "no folder": ("nowhere", None, "no such folder"),
    "no JSON": ("out", "{", "not a readable report"),
    "a list": ("out", "[]", "not a report"),
    "no layers": ("out", '{"layers": 3}', "'layers' is not a list"),
    "an edge to nowhere": (
        "out",
        '{"layers": [{"name": "a", "op": "b", "device": "c", "macs": 1, "bytes": 1, '
        '"inputs": [7]}]}',
        "a layer has an unknown input",
    ),
    "a bar beyond the end": (
        "out",
        '{"layers": [], "timelines": [{"name": "a", "note": "", "cycles": 1, "kinds": ["k"], '
        '"lanes": [{"name": "l", "busy": 1, "bars": "5+9999:0"}]}]}',
        "no bar of a timeline",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_report_is_refused(
    name: str, model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    folder, text, message = BROKEN[name]
    compiled(model, "out")
    if text is not None:
        (model.parent / "out" / "report.json").write_text(text)
    monkeypatch.chdir(model.parent)
    capsys.readouterr()
    assert report_main([folder]) == 1
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert not (model.parent / "report.html").exists()


def test_a_target_without_a_model_has_no_trace(model: Path, capsys: pytest.CaptureFixture[str]):
    folder = compiled(model, "out", "--quantize", "int8", target="nnet")
    assert report_main([str(folder), "-o", str(model.parent / "p"), "--trace", "t.json"]) == 2
    assert "--board" in capsys.readouterr().err


def test_the_arena_is_told_with_what_kernels_take(model: Path):
    """The size of the arena, not only of the values, decides whether it fits a microcontroller."""
    t = "tensor<1x8x8x16xf32>"
    model.write_text(f"""
    func.func @main(%x: {t}) -> {t} {{
      %w = "graph.constant"() <{{value = dense<0.25> : tensor<16x3x3x16xf32>}}> : ()
        -> tensor<16x3x3x16xf32>
      %a = graph.conv2d %x, %w {{padding = array<i64: 1, 1, 1, 1>}}
        : ({t}, tensor<16x3x3x16xf32>) -> {t}
      %b = graph.conv2d %a, %w {{padding = array<i64: 1, 1, 1, 1>}}
        : ({t}, tensor<16x3x3x16xf32>) -> {t}
      func.return %b : {t}
    }}
    """)
    folder = compiled(model, "out", "--quantize", "none")
    totals = json.loads((folder / "report.json").read_text())["totals"]
    arena, values, workspace = (totals[f"{k}_bytes"] for k in ("arena", "peak", "workspace"))
    assert workspace > 0 and arena == values + workspace
    defined = re.search(r"#define MODEL_ARENA_BYTES (\d+)", (folder / "model.h").read_text())
    assert defined is not None and int(defined[1]) == arena
    page = page_of(folder)
    assert f"{arena / 1024:.1f}" in page and "memory for values" not in page
    assert f"{values:,} bytes of values" in page
    assert f"{workspace:,} of workspace of kernels" in page
    assert f"{arena:,} bytes with the workspaces of kernels and the states" in page
    assert "(workspace of a kernel): bytes [" in page
