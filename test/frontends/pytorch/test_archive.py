"""Exported programs in files are imported without executing a pickle."""

import io
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

import ceras_ir as ceras
from ceras_ir.frontends.pytorch.archive import without_pickles

TENSOR = {"path_name": "weight_0", "use_pickle": False}
NODE: dict[str, object] = {"target": "torch.ops.aten.relu.default", "metadata": {}}
GUARDS = "guards_code"


def archive(path: Path, **members: object) -> Path:
    """Write an archive with these members, objects as JSON, and return the path."""
    found: dict[str, object] = {
        "archive_format": b"pt2",
        "models/model.json": {"nodes": [{**NODE, "metadata": {"torch_fn": "f"}}], GUARDS: ["f()"]},
        "data/weights/model_weights_config.json": {"config": {"w": TENSOR}},
        "data/weights/weight_0": b"1234",
        "data/sample_inputs/model.pt": pickle.dumps("example"),
        **members,
    }
    with zipfile.ZipFile(path, "w") as file:
        for name, content in found.items():
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            file.writestr(f"net/{name}", data)
    return path


def test_the_copy_has_raw_tensors_only(tmp_path: Path) -> None:
    given = {"data/aotinductor/net.so": b"code", "data/constants/model.pt": pickle.dumps(1)}
    copy = without_pickles(str(archive(tmp_path / "net.pt2", **given)))
    with zipfile.ZipFile(io.BytesIO(copy)) as file:
        assert "net/data/weights/weight_0" in file.namelist()
        assert file.read("net/data/sample_inputs/model.pt") == b""
        assert not [
            name for name in file.namelist() if name.endswith((".so", "constants/model.pt"))
        ]


CONFIGURATION = "data/weights/model_weights_config.json"
REFUSED = {
    "pickle": ({CONFIGURATION: {"config": {"w": {**TENSOR, "use_pickle": True}}}}, "as a pickle"),
    "object": (
        {CONFIGURATION: {"config": {"w": {"path_name": "opaque_obj_0", "use_pickle": False}}}},
        "as a pickle",
    ),
    "configuration": ({CONFIGURATION: [1]}, "not a list of tensors"),
    "function": ({"models/model.json": {"target": "torch.hub.load"}}, "unsupported operator"),
    "size": ({"models/model.json": [{"expr_str": "f()"}]}, "export it with fixed shapes"),
    "text": ({"models/model.json": b"{"}, "not an archive of torch.export.save"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_contents_are_refused(case: str, tmp_path: Path) -> None:
    members, message = REFUSED[case]
    with pytest.raises(ceras.InputError, match=message):
        ceras.load(str(archive(tmp_path / "net.pt2", **members)))


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(pickle.dumps("text"))
    with pytest.raises(ceras.InputError, match=r"not an archive of torch\.export\.save"):
        ceras.load(str(path))


@pytest.mark.slow
def test_an_exported_program(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    x = np.random.default_rng(0).normal(0, 1, (2, 4)).astype(np.float32)
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(network, (torch.from_numpy(x),)), path)
    (result,) = ceras.load(str(path)).run(x).values()
    expected = network(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(result.astype(np.float32).reshape(2, 3), expected, atol=1e-6)
