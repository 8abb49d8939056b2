"""PyTorch modules are loaded without a file, with the names of the module tree."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import model, node

import ceras_ir as ceras
from ceras_ir.frontends.exporters import exporter_of
from ceras_ir.frontends.pytorch import SCOPES, TorchExporter, name_nodes


def scoped(operator: str, operands: str, result: str, *scopes: str) -> onnx.NodeProto:
    found = node(operator, operands, result)
    found.metadata_props.add(key=SCOPES, value=repr(["", *scopes, f"fx_{result}"]))
    return found


def test_names_of_modules() -> None:
    """A module with several operations appends the operator, and a number if it is not unique."""
    nodes = [
        scoped("Relu", "x", "a", "stem"),
        scoped("Relu", "a", "b", "blocks.0", "blocks.0.gate"),
        scoped("Sigmoid", "b", "c", "blocks.0", "blocks.0.gate"),
        scoped("Sigmoid", "c", "d", "blocks.0", "blocks.0.gate"),
        scoped("Abs", "d", "y"),
    ]
    proto = model(nodes, {"x": (1, 4)}, ["y"])
    outside = proto.graph.node[-1].name
    name_nodes(proto)
    gate = "blocks.0.gate"
    names = ["stem", f"{gate}/Relu", f"{gate}/Sigmoid", f"{gate}/Sigmoid_2", outside]
    assert [n.name for n in proto.graph.node] == names


def test_the_class_selects_the_exporter() -> None:
    module = type("Module", (), {"__module__": "torch.nn.modules.module"})
    network = type("Network", (module,), {"__module__": "__main__"})()
    assert isinstance(exporter_of(network), TorchExporter)
    assert exporter_of(SimpleNamespace()) is None


def test_other_objects_are_refused() -> None:
    with pytest.raises(ceras.UsageError, match="or a Keras model, got SimpleNamespace"):
        ceras.load(SimpleNamespace())
    with pytest.raises(ceras.UsageError, match="a file needs no example inputs"):
        ceras.load("model.onnx", (1,))


def test_a_missing_exporter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    module = type("Module", (), {"__module__": "torch.nn.modules.module"})
    with pytest.raises(ceras.UsageError, match=r"needs onnxscript: pip install .*\[pytorch\]"):
        ceras.load(module(), ())


@pytest.mark.slow
def test_a_module_computes_the_same() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.conv = torch.nn.Conv2d(4, 4, 3, padding=1)
            self.norm = torch.nn.BatchNorm2d(4)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.norm(self.conv(x))) + x

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.stem = torch.nn.Conv2d(3, 4, 3, padding=1)
            self.blocks = torch.nn.Sequential(Block(), Block())
            self.head = torch.nn.Linear(4, 5)

        def forward(self, x: Any) -> Any:
            x = self.blocks(torch.nn.functional.silu(self.stem(x)))
            return self.head(x.mean((2, 3)))

    torch.manual_seed(0)
    network = Network()
    image = np.random.default_rng(0).normal(0, 1, (1, 3, 8, 8)).astype(np.float32)
    loaded = ceras.load(network, (image,))
    assert network.training and network.blocks[0].norm.training
    names = {n.name for n in TorchExporter().model(network, (image,)).graph.node}
    assert {"stem", "blocks.0.conv", "blocks.0.norm", "blocks.1.conv", "head"} <= names
    (result,) = loaded.run(image).values()
    with torch.no_grad():
        expected = network.eval()(torch.from_numpy(image)).numpy()
    reals = result.astype(np.float32).reshape(expected.shape)
    np.testing.assert_allclose(reals, expected, rtol=1e-4, atol=1e-5)
    program = torch.export.export(network, (torch.from_numpy(image),))
    (again,) = ceras.load(program).run(image).values()
    np.testing.assert_array_equal(again, result)
