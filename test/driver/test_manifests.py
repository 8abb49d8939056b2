"""Check that the manifest of a changed compiled folder is validated before a run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import conv_model

from ceras_ir.driver.compile import main as compile_main
from ceras_ir.driver.run import main as run
from ceras_ir.targets.registry import target_names

TARGETS = [name for name in ("c", "vta") if name in target_names()]
Captured = pytest.CaptureFixture[str]
Manifest = dict[str, Any]
Change = Callable[[Manifest], object]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile a network for C and for VTA."""
    place = tmp_path_factory.mktemp("folders")
    (place / "m.onnx").write_bytes(conv_model((1, 2, 6, 6), 3, (3, 3)).SerializeToString())
    for target in TARGETS:
        command = [place / "m.onnx", "-o", place / target, "--target", target, "--quantize", "int8"]
        assert compile_main([str(part) for part in command]) == 0
    np.savez(place / "x.npz", x=np.zeros((2, 2, 6, 6), np.float32))
    return place


def outcome(folders: Path, target: str, tmp_path: Path) -> int:
    files = ["--inputs", str(folders / "x.npz"), "--outputs", str(tmp_path / "y.npz")]
    return run([str(tmp_path / target), *files])


def shape(end: str, *extents: int) -> Change:
    return lambda m: m[end][0].update(shape=list(extents))


WRONG: dict[str, tuple[str, Change, str]] = {
    "a path outside": ("c", lambda m: m["files"].update({"../model.c": ""}), "no list of files"),
    "no files": ("c", lambda m: m.pop("files"), "no list of files"),
    "a smaller input": ("c", shape("inputs", 1, 2, 6, 5), "array 'x' has shape"),
    "a smaller output": ("c", shape("outputs", 1), "has no '#define MODEL_"),
    "narrower numbers": ("c", lambda m: m["outputs"][0].update(dtype="int8"), "has other inputs"),
    "more outputs": ("c", lambda m: m["outputs"].append(m["outputs"][0]), "has other inputs and"),
    "no outputs": ("c", lambda m: m["outputs"].clear(), "has other inputs and outputs"),
    "no vta": ("vta", lambda m: m.pop("vta"), "has no entry 'vta'"),
    "no launches": ("vta", lambda m: m["vta"].update(launches=[]), "the host part runs launch 0"),
    "a launch elsewhere": (
        "vta",
        lambda m: m["vta"]["launches"][0].update(instructions="../launch_0.insns"),
        "'instructions' must name a file of the folder, got '../launch_0.insns'",
    ),
    "much DRAM": ("vta", lambda m: m["vta"]["dram"].update(size=10**15), "bytes of DRAM, expected"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs(WRONG[name][0])) for name in WRONG]
)
def test_a_manifest_that_lies(name: str, folders: Path, tmp_path: Path, capsys: Captured):
    target, change, message = WRONG[name]
    shutil.copytree(folders / target, tmp_path / target)
    manifest: Manifest = json.loads((tmp_path / target / "manifest.json").read_text())
    change(manifest)
    (tmp_path / target / "manifest.json").write_text(json.dumps(manifest))
    assert outcome(folders, target, tmp_path) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.needs("vta")
@pytest.mark.parametrize("file", ["launch_0.insns", "dram.bin", "vta_config.json", "model.h"])
def test_a_file_that_is_missing(file: str, folders: Path, tmp_path: Path, capsys: Captured):
    shutil.copytree(folders / "vta", tmp_path / "vta")
    (tmp_path / "vta" / file).unlink()
    assert outcome(folders, "vta", tmp_path) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"vta/{file}: error: " in line and "No such file" in line


def test_a_folder_that_is_whole(folders: Path, tmp_path: Path):
    for target in TARGETS:
        shutil.copytree(folders / target, tmp_path / target)
        assert outcome(folders, target, tmp_path) == 0
