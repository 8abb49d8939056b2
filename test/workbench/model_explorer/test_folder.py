"""Check the output of `--model-explorer` with the classes of the viewer, for each level."""

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from ceras_ir.driver.compile import main as compile_main
from ceras_ir.workbench.model_explorer.folder import FIGURES

T = "tensor<1x8x8x16xf32>"
NETWORK = f"""
func.func @main(%x: {T} {{graph.name = "picture"}}) -> ({T} {{graph.name = "y"}}) {{
  %w = "graph.constant"() <{{value = dense<0.25> : tensor<16x3x3x16xf32>}}> : ()
    -> tensor<16x3x3x16xf32>
  %a = graph.conv2d %x, %w {{padding = array<i64: 1, 1, 1, 1>}}
    : ({T}, tensor<16x3x3x16xf32>) -> {T} loc("/body/0/conv")
  %b = graph.unary <sigmoid> %a : {T} loc("/body/gate")
  func.return %b : {T}
}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("viewer") / "net.mlir"
    path.write_text(NETWORK)
    out = path.parent / "out"
    assert compile_main([str(path), "--target", "vta", "-o", str(out), "--model-explorer"]) == 0
    return out / "model_explorer"


def loaded(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def nodes_of(collection: Any, graph: str) -> dict[str, Any]:
    (found,) = (g for g in collection["graphs"] if g["id"] == graph)
    return {node["id"]: node for node in found["nodes"]}


def test_every_level_and_every_kernel_is_a_graph(folder: Path):
    collection = loaded(folder / "levels.json")
    names = [graph["id"] for graph in collection["graphs"]]
    assert collection["label"] == "net" and len(set(names)) == len(names)
    for level in ("0 graph", "1 fused graph", "2 quantized graph", "3 placed graph"):
        assert level in names
    assert any("memory" in name for name in names)
    kernels = [name for name in names if ": " in name]
    linked = {
        target
        for graph in collection["graphs"]
        for node in graph["nodes"]
        for target in node.get("subgraphIds", ())
    }
    assert kernels and linked == set(kernels)


def test_edges_lead_from_results_that_are_there(folder: Path):
    for graph in loaded(folder / "levels.json")["graphs"]:
        nodes = {node["id"]: node for node in graph["nodes"]}
        assert len(nodes) == len(graph["nodes"])
        edges = [edge for node in graph["nodes"] for edge in node["incomingEdges"]]
        assert edges and all(edge["sourceNodeId"] in nodes for edge in edges)


def test_a_node_says_what_it_is(folder: Path):
    collection = loaded(folder / "levels.json")
    placed = nodes_of(collection, "3 placed graph")
    (conv,) = (node for node in placed.values() if node["label"] == "conv2d")
    facts = {pair["key"]: pair["value"] for pair in conv["attrs"]}
    assert conv["namespace"] == "body/0"
    assert facts["node"] == "/body/0/conv, /body/gate" and "vta" in facts["mem.device"]
    assert "requant" in facts
    shape = {pair["key"]: pair["value"] for pair in conv["outputsMetadata"][0]["attrs"]}
    assert "quant.uniform" in shape["tensor_shape"]
    assert [node["label"] for node in placed.values() if node["namespace"] == "inputs"] == [
        "picture"
    ]


def test_figures_are_those_of_the_report(folder: Path):
    layers = loaded(folder.parent / "report.json")["layers"]
    names = {path.stem for path in folder.iterdir()} - {"levels"}
    assert {"cycles", "bytes", "multiplications"} <= names <= set(FIGURES.values())
    data = loaded(folder / "bytes.json")["3 placed graph"]["results"]
    assert sorted(v["value"] for v in data.values()) == sorted(
        layer["bytes"] for layer in layers if layer["bytes"]
    )
    nodes = nodes_of(loaded(folder / "levels.json"), "3 placed graph")
    assert set(data) <= set(nodes)


def test_the_manifest_lists_the_files(folder: Path):
    files = loaded(folder.parent / "manifest.json")["files"]
    assert {f"model_explorer/{path.name}" for path in folder.iterdir()} <= set(files)


def test_the_viewers_own_classes_take_it(folder: Path):
    builder = pytest.importorskip("model_explorer.graph_builder", reason="the viewer is not there")
    data = pytest.importorskip("model_explorer.node_data_builder")
    expect(loaded(folder / "levels.json"), builder.GraphCollection)
    for path in folder.iterdir():
        if path.stem != "levels":
            for graph in loaded(path).values():
                expect(graph, data.GraphNodeData)


def expect(value: Any, kind: Any) -> None:
    """Fail unless JSON has the fields of a data class with the declared types."""
    if is_dataclass(kind) and isinstance(kind, type):
        hints, known = get_type_hints(kind), {field.name for field in fields(kind)}
        assert isinstance(value, dict)
        given: dict[str, Any] = {str(key): entry for key, entry in pairs(value)}
        assert set(given) <= known, (kind, set(given) - known)
        for name, entry in given.items():
            expect(entry, hints[name])
        kind(**given)
    elif get_origin(kind) in (Union, UnionType):
        assert any(holds(value, option) for option in get_args(kind)), (value, kind)
    elif get_origin(kind) is list:
        assert isinstance(value, list)
        for entry in elements(value):
            expect(entry, get_args(kind)[0])
    elif get_origin(kind) is dict:
        assert isinstance(value, dict)
        for entry in elements(value.values()):
            expect(entry, get_args(kind)[1])
    elif isinstance(kind, type):
        assert isinstance(value, kind), (value, kind)


def elements(values: Any) -> Iterator[Any]:
    yield from values


def pairs(value: Any) -> Iterator[tuple[Any, Any]]:
    yield from value.items()


def holds(value: Any, kind: Any) -> bool:
    try:
        expect(value, kind)
    except (AssertionError, TypeError):
        return False
    return True
