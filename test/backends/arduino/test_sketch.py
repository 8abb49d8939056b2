"""Test the sketch folder: compiles as C++, equals the interpreter, refuses mixed files."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from backends.arduino.networks import colour_mlp, colours
from backends.arduino.sketches import build_sketch, run_sketch
from c_harness import make_network, needs_arm
from xdsl.dialects.builtin import ModuleOp, f32

from ceras_ir.backends.arduino.sketch import sketch_name
from ceras_ir.backends.arduino.target import ArduinoTarget
from ceras_ir.command.output_files import write_artefacts
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.driver.compile import main as compile_main
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.build import Build, build, open_folder
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import InputError

Q = UniformType(0.5)
DIGITS = Path(__file__).parents[3] / "examples/digits/digits.onnx"
REQUIRED_PROPERTIES = {
    *("name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url"),
    "architectures",
}


def compiled(module: ModuleOp, folder: Path, title: str = "colour") -> Build:
    """Return the folder of the network, as ceras-compile writes it."""
    result = build(module, BuildOptions(ArduinoTarget(), title=title))
    write_artefacts(folder, result.files())
    return result


def test_the_folder_is_a_sketch_and_a_library(tmp_path: Path):
    compiled(colour_mlp(12), tmp_path, "my net-2")
    sketch = tmp_path / "my_net_2"
    assert (sketch / "my_net_2.ino").is_file(), "the IDE wants NAME/NAME.ino"
    assert (sketch / "examples/scan/scan.ino").is_file()
    properties = dict(
        line.split("=", 1) for line in (sketch / "library.properties").read_text().splitlines()
    )
    assert properties["name"] == "my_net_2" and properties["architectures"] == "renesas_uno"
    assert (sketch / properties["includes"]).is_file()
    assert all(properties.values()) and set(properties) >= REQUIRED_PROPERTIES
    assert re.fullmatch(r"\d+\.\d+\.\d+", properties["version"])
    assert not list(tmp_path.rglob("main.c")), "a second main would not link"


def test_sketches_and_header_describe_the_frame_of_a_camera(tmp_path: Path):
    board = ["--target", "arduino", "--board", "nano_33_ble", "--quantize", "none"]
    camera = ["--input-image", "rgb565_be", "--frame-size", "12x16"]
    assert compile_main([str(DIGITS), *board, *camera, "-o", str(tmp_path / "out")]) == 0
    sketch = tmp_path / "out" / "digits"
    described = "is a frame of 12x16 pixels in format rgb565_be, of which 12x12 are used, from row"
    assert f"/* It {described}" in (sketch / "model.h").read_text()
    for name in ("digits.ino", "examples/predict/predict.ino"):
        text = (sketch / name).read_text()
        assert f"// The array 'image' {described}" in text
        assert "static uint8_t image[MODEL_IMAGE_SIZE];" in text


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("my net-2", "my_net_2"),
        ("3d", "model_3d"),
        ("Arduino net", "model_Arduino_net"),
        ("9" * 80, "model_" + "9" * 57),
        ("\u00e9", "model"),
    ],
)
def test_names_of_libraries_are_legal(title: str, name: str):
    assert sketch_name(title) == name and len(name) <= 63


def two_inputs() -> ModuleOp:
    return make_network(
        [(f32, (1, 3)), (Q, (1, 4))],
        lambda x, q: [graph.ReshapeOp(x, (3,)).result, graph.ReshapeOp(q, (4,)).result],
    )


@pytest.mark.slow
@needs_arm
@pytest.mark.parametrize("title", ["colour", "pair"])
def test_the_example_equals_the_interpreter(tmp_path: Path, title: str):
    """Each library has an example, which also compiles for integers and several inputs."""
    module = compiled(colour_mlp(8) if title == "colour" else two_inputs(), tmp_path, title).module
    sketch, work = tmp_path / title, tmp_path / "work"
    example = sketch / "examples/predict/predict.ino"
    elf = build_sketch(sketch, example, work, flags=("-DLOOPS=2",))
    answers, text = run_sketch(elf, work, np.zeros(0, np.float32))
    inputs = network_inputs(main_function(module))
    results = run(module, {t.name: np.zeros(t.shape, t.dtype) for t in inputs})
    expected = np.concatenate([r.reshape(-1) for r in results.values()]).astype(np.float32)
    np.testing.assert_array_equal(answers, np.tile(expected, 2))
    assert text == ""


def has_arduino_core() -> bool:
    if not shutil.which("arduino-cli"):
        return False
    command = ["arduino-cli", "core", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "arduino:renesas_uno" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not has_arduino_core(), reason="needs arduino-cli with arduino:renesas_uno")
def test_arduino_cli_compiles_the_example(tmp_path: Path):
    compiled(colour_mlp(8), tmp_path)
    sketch = tmp_path / "colour"
    command = ["arduino-cli", "compile", "--fqbn", "arduino:renesas_uno:unor4wifi", "--library"]
    subprocess.run([*command, sketch, sketch / "examples/predict"], check=True)


def test_the_folder_runs_on_the_host(tmp_path: Path):
    module = compiled(colour_mlp(24, zeros=0.8), tmp_path).module
    samples = colours(5)
    for sample, got in zip(samples, open_folder(tmp_path).run(samples), strict=True):
        np.testing.assert_array_equal(got["output0"], run(module, sample)["output0"])


@pytest.mark.slow
@needs_arm
@pytest.mark.parametrize("zeros", [0.0, 0.9])
def test_the_sketch_equals_the_interpreter(tmp_path: Path, zeros: float):
    module = compiled(colour_mlp(20, zeros=zeros), tmp_path).module
    sketch, work = tmp_path / "colour", tmp_path / "work"
    elf = build_sketch(sketch, sketch / "colour.ino", work)
    samples = colours(6)
    answers, text = run_sketch(elf, work, np.concatenate([s["input0"] for s in samples]))
    expected = np.concatenate([run(module, s)["output0"] for s in samples])
    np.testing.assert_array_equal(answers.reshape(expected.shape), expected)
    assert text.count("microseconds: ") == 6


@pytest.mark.slow
@needs_arm
def test_the_scanner_calibrates_and_corrects(tmp_path: Path):
    module = compiled(colour_mlp(16), tmp_path).module
    sketch, work = tmp_path / "colour", tmp_path / "work"
    elf = build_sketch(sketch, sketch / "examples/scan/scan.ino", work, flags=("-DSCAN",))
    rng = np.random.default_rng(3)
    black = np.array([40, 60, 50], np.float32)
    white = np.array([900, 800, 1000], np.float32)
    cells = rng.integers(0, 1024, (9, 3)).astype(np.float32)  # below black and above white too
    _, text = run_sketch(elf, work, np.concatenate([black, white, cells.reshape(-1)]))
    expected: list[int] = []
    for cell in cells:
        normalised = np.clip((cell - black) / (white - black), np.float32(0), np.float32(1))
        corrected = run(module, {"input0": normalised.reshape(1, 3)})["output0"].reshape(-1)
        expected += [int(v * np.float32(255) + np.float32(0.5)) for v in corrected]
    head, _, body = text.partition("255\n")
    assert head == "# black stored\n# white stored\nP3\n3 3\n"
    assert [int(word) for word in body.split()] == expected


@pytest.mark.slow
@needs_arm
def test_files_of_another_model_do_not_compile(tmp_path: Path):
    compiled(colour_mlp(12), tmp_path / "a")
    compiled(colour_mlp(16), tmp_path / "b")
    a, b = tmp_path / "a/colour", tmp_path / "b/colour"
    for name in ("model.c", "model.h", "model_weights.c", "model_weights.h"):
        mixed = tmp_path / f"mixed_{name}"
        shutil.copytree(a, mixed)
        shutil.copy(b / name, mixed / name)
        with pytest.raises(InputError, match=r"of_this_model|_size|negative|too long"):
            build_sketch(mixed, mixed / "colour.ino", tmp_path / f"work_{name}")


@pytest.mark.slow
@needs_arm
def test_a_wrong_dimension_does_not_compile(tmp_path: Path):
    compiled(colour_mlp(12), tmp_path)
    sketch = tmp_path / "colour"
    ino = tmp_path / "wrong.ino"
    text = (sketch / "colour.ino").read_text()
    ino.write_text(text.replace("input0[MODEL_INPUT0_SIZE]", "input0[4]"))
    with pytest.raises(InputError, match=r"float \[4\]|float\[4\]|float \(&\)\[3\]"):
        build_sketch(sketch, ino, tmp_path / "work")
    scan = (sketch / "examples/scan/scan.ino").read_text()
    ino.write_text(scan.replace("CHANNELS = 3;", "CHANNELS = 4;"))
    with pytest.raises(InputError, match="one number per channel"):
        build_sketch(sketch, ino, tmp_path / "work2")
