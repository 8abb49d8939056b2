"""Test the digits example: the committed model and data, the training script, and the demo."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import check, run_onnxruntime, value_shape
from slow_cases import slow

from ceras_ir.driver.compile import main as compile_tool

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "digits"
ARTEFACTS = ("digits.onnx", "digits_test.npz", "digits_labels.npz", "digits_calibration.npz")


def committed() -> onnx.ModelProto:
    return onnx.ModelProto.FromString((EXAMPLE / "digits.onnx").read_bytes())


def images(name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    with np.load(EXAMPLE / name) as arrays:
        assert arrays.files == ["image"]
        return arrays["image"]


def test_model_is_what_the_readme_says() -> None:
    proto = committed()
    check(proto)
    assert [(opset.domain, opset.version) for opset in proto.opset_import] == [("", 13)]
    assert value_shape(proto, "image") == ("batch", 1, 8, 8)
    assert value_shape(proto, "probabilities") == ("batch", 10)
    operators = Counter(node.op_type for node in proto.graph.node)
    once = "Sigmoid", "Mul", "Add", "MaxPool", "GlobalAveragePool", "Flatten", "Gemm", "Softmax"
    assert operators == {"Conv": 3, "BatchNormalization": 3, "Relu": 2} | dict.fromkeys(once, 1)
    names = [node.name for node in proto.graph.node]
    assert all(names) and len(set(names)) == len(names)


def test_model_carries_nothing_of_the_machine_that_made_it() -> None:
    proto = committed()
    parts = (proto, proto.graph, *proto.graph.node, *proto.graph.initializer)
    assert not any(part.doc_string or part.metadata_props for part in parts)
    assert b".py" not in (EXAMPLE / "digits.onnx").read_bytes()


def test_data() -> None:
    held_out, calibration = images("digits_test.npz"), images("digits_calibration.npz")
    with np.load(EXAMPLE / "digits_labels.npz") as arrays:
        labels = arrays["labels"]
    assert held_out.shape == (360, 1, 8, 8) and calibration.shape == (64, 1, 8, 8)
    assert labels.shape == (360,) and set(labels) == set(range(10))
    for pixels in (held_out, calibration):
        assert pixels.dtype == np.float32
        assert pixels.min() == 0 and pixels.max() == 1
    assert not {image.tobytes() for image in held_out} & {image.tobytes() for image in calibration}
    assert sum((EXAMPLE / name).stat().st_size for name in ARTEFACTS) < 100_000


def test_accuracy() -> None:
    proto = committed()
    answer = run_onnxruntime(proto, {"image": images("digits_test.npz")})["probabilities"]
    with np.load(EXAMPLE / "digits_labels.npz") as arrays:
        correct = int(np.sum(np.argmax(answer, axis=1) == arrays["labels"]))
    # README.md states 357; one more or less is due to the arithmetic of the runtime.
    assert abs(correct - 357) <= 1


@pytest.mark.slow
def test_train_script(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    command = [sys.executable, EXAMPLE / "train.py", "-o", tmp_path, "--epochs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "parameters: 14458" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(ARTEFACTS)
    # Only the weights depend on training; the data and the structure do not.
    for name in ARTEFACTS[1:]:
        assert (tmp_path / name).read_bytes() == (EXAMPLE / name).read_bytes()
    trained = onnx.ModelProto.FromString((tmp_path / "digits.onnx").read_bytes())
    assert list(trained.graph.node) == list(committed().graph.node)


STUB = """#!{python}
import json, pathlib, shutil, sys
import numpy as np
tool, words = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
with open({log!r}, "a") as log:
    print(tool, *words, file=log)
if tool == {broken!r}:
    sys.exit("digits.onnx: error: no such thing" if {status} == 1 else {status})
if tool == "ceras-compile":
    directory = pathlib.Path(words[words.index("-o") + 1])
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "network.bin").write_bytes(bytes(1234))
    totals = {{"weight_bytes": 5678, "sram_bytes": 910}}
    (directory / "report.json").write_text(json.dumps({{"totals": totals}}))
elif tool == "ceras-run":
    labels = np.load({labels!r})["labels"]
    outputs = words[words.index("--outputs") + 1]
    np.savez(outputs, probabilities=np.eye(10, dtype=np.float32)[labels])
else:
    print("level table")
"""


def demo(
    tmp_path: Path, broken: str = "", status: int = 0
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run demo.py with stubs of the three tools; return the result and their commands."""
    programs, log = tmp_path / "bin", tmp_path / "log"
    programs.mkdir()
    labels = str(EXAMPLE / "digits_labels.npz")
    for tool in ("ceras-compile", "ceras-run", "ceras-verify"):
        text = STUB.format(
            python=sys.executable, log=str(log), broken=broken, status=status, labels=labels
        )
        (programs / tool).write_text(text, encoding="utf-8")
        (programs / tool).chmod(0o755)
    # The demo looks for the tools next to the Python program that runs it.
    script = f"import sys; sys.executable = {str(programs / 'python')!r}; sys.argv[0] = 'demo.py'"
    script += "\nimport runpy; runpy.run_path(" + repr(str(EXAMPLE / "demo.py"))
    script += ", run_name='__main__')"
    command = [sys.executable, "-c", script, "-o", str(tmp_path / "out")]
    environment = os.environ | {"COLUMNS": "120"}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    return done, log.read_text(encoding="utf-8").splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("target", ["c", "nnet", "vta"])
def test_readme_has_what_the_demo_prints(tmp_path: Path, target: str) -> None:
    data = str(EXAMPLE / "digits_calibration.npz")
    # demo.py has the same list.
    board = ["--board", "pynq"] if target == "vta" else []
    options = ["--target", target, *board, "--calibrate", data, "-o", str(tmp_path)]
    assert compile_tool([str(EXAMPLE / "digits.onnx"), *options]) == 0
    totals = json.loads((tmp_path / "report.json").read_text())["totals"]
    row = rf"│ int8 {target} .*│ *{totals['weight_bytes']:,} B │ *{totals['sram_bytes']:,} B │"
    assert re.search(row, (EXAMPLE.parents[1] / "README.md").read_text(encoding="utf-8"))


@pytest.mark.needs("nnet", "vta")
@pytest.mark.slow
def test_demo_calls_the_tools_and_counts(tmp_path: Path) -> None:
    done, commands = demo(tmp_path)
    assert done.returncode == 0, done.stderr
    assert [command.split()[0] for command in commands] == [
        "ceras-run",
        *("ceras-compile", "ceras-run") * 3,
        "ceras-verify",
    ]
    calibration = EXAMPLE / "digits_calibration.npz"
    assert commands[5].endswith(
        f"--target vta --board pynq --quantize int8 --calibrate {calibration}"
    )
    assert commands[-1].endswith("--targets c,nnet,vta")
    assert done.stdout.count("100.00%") == 8
    assert done.stdout.count("5,678 B") == done.stdout.count("1,234 B") == 3
    assert "agree on 360 of 360 images" in done.stdout
    assert done.stdout.endswith("level table\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "status"), [("ceras-compile", 3), ("ceras-run", 1), slow("ceras-verify", 1)]
)
def test_demo_ends_with_the_status_of_a_failing_tool(
    tmp_path: Path, tool: str, status: int
) -> None:
    done, commands = demo(tmp_path, tool, status)
    assert done.returncode == status
    assert commands[-1].startswith(tool)
    assert f"{tool} ended with status {status}" in done.stderr
    assert ("no such thing" in done.stderr) == (status == 1)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_demo_without_an_installation(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "digits", ignore=shutil.ignore_patterns("__pycache__"))
    script = "import sys, runpy; sys.executable = sys.argv[1] + '/nowhere/python'; "
    script += "path = sys.argv[1] + '/digits/demo.py'; sys.argv[1:] = []; "
    script += "runpy.run_path(path, run_name='__main__')"
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "no ceras-run in" in done.stderr and "make demo" in done.stderr
