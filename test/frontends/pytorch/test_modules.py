"""PyTorch modules are loaded without a file, with the names of the module tree."""

import sys
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx_models import Array, model, node

import ceras_ir as ceras
from ceras_ir.frontends.exporters import Export, NetworkExporter, exporter_of, import_exported
from ceras_ir.frontends.pytorch import SCOPES, TorchExporter, name_nodes
from ceras_ir.network.function import input_names, main_function
from ceras_ir.support.diagnostics import InputError, UnsupportedError


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


class Exporter(NetworkExporter):
    """Exports the networks of a list."""

    def exports(self, network: object, example_inputs: Sequence[object] | None) -> Sequence[Export]:
        assert isinstance(network, list)
        models = cast("list[onnx.ModelProto | InputError]", network)
        return [partial(self.given, each) for each in models]

    def given(self, model: onnx.ModelProto | InputError) -> onnx.ModelProto:
        if isinstance(model, InputError):
            raise model
        return model

    def title(self, network: object) -> str:
        return "given"


def imported(*models: onnx.ModelProto | InputError) -> list[str]:
    """Return the names of the inputs of the first model that is imported."""
    module = import_exported(
        Exporter(), list(models), None, batch=1, shapes=None, values=None, name="given"
    )
    return input_names(main_function(module))


def test_the_next_export_is_a_remedy() -> None:
    good = model([node("Relu", "good", "y")], {"good": (1, 4)}, ["y"])
    contradictory = model(
        [node("Add", "x w", "y", "layer")], {"x": (1, 4)}, ["y"], {"w": np.zeros(3, np.float32)},
        infer=False,
    )  # fmt: skip
    unsupported = model([node("NonZero", "x", "y", "other")], {"x": (1, 4)}, ["y"], infer=False)
    failed = UnsupportedError("unsupported by the exporter")
    for first in (contradictory, unsupported, failed):
        assert imported(first, good) == ["good"]
    with pytest.raises(UnsupportedError) as error:
        imported(contradictory, unsupported)
    (finding,) = error.value.findings
    assert finding.node == "layer" and "wrote an invalid model" in finding.message
    assert "compute this layer with other operations" in finding.message
    for first, text in ((unsupported, "node 'other'"), (failed, "by the exporter")):
        with pytest.raises(UnsupportedError, match=text):
            imported(first, contradictory)


@pytest.mark.slow
def test_what_the_exporter_of_functions_refuses() -> None:
    """A projected LSTM and a Conv3d without bias are invalid models unless they are decomposed."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")

    class Projected(torch.nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.lstm = torch.nn.LSTM(4, 6, proj_size=3, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0]

    class Dependent(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x + 1 if x.sum() > 0 else x - 1

    for network, shape in (
        (Projected(), (1, 5, 4)),
        (torch.nn.Conv3d(2, 3, 3, bias=False), (1, 2, 4, 5, 6)),
    ):
        sample = np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)
        (result,) = ceras.load(network, (sample,)).run(sample).values()
        with torch.no_grad():
            expected = network(torch.from_numpy(sample)).numpy()
        found = cast("Array", result).reshape(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    sample = np.ones((1, 4), np.float32)
    with pytest.raises(UnsupportedError, match=r"by torch.export \(\w+: .*draft_export"):
        ceras.load(Dependent(), (sample,))


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
    names = {n.name for n in TorchExporter().exports(network, (image,))[0]().graph.node}
    assert {"stem", "blocks.0.conv", "blocks.0.norm", "blocks.1.conv", "head"} <= names
    (result,) = loaded.run(image).values()
    with torch.no_grad():
        expected = network.eval()(torch.from_numpy(image)).numpy()
    reals = result.astype(np.float32).reshape(expected.shape)
    np.testing.assert_allclose(reals, expected, rtol=1e-4, atol=1e-5)
    program = torch.export.export(network, (torch.from_numpy(image),))
    (again,) = ceras.load(program).run(image).values()
    np.testing.assert_array_equal(again, result)
