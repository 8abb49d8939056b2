"""
Write the files of `--model-explorer`: all levels of a compile as graphs, and node data.

1. Each function is a graph in the JSON format of Model Explorer. The graph of `main` has the name
   of the level. A launch links to the graph of the kernel.
2. The slashes in the names of nodes define groups of operations. The operations of a loop are in
   the group of the loop. The viewer hides constants.
3. A file of node data per figure of the report colours the nodes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FunctionType,
    ModuleOp,
    SymbolRefAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.utils.hints import isa

from ceras_ir.dialects.graph import ConstantOp
from ceras_ir.dialects.sparse import Encoded
from ceras_ir.driver.compile import CompileView
from ceras_ir.network.artefacts import Artefact
from ceras_ir.network.function import input_names, main_function
from ceras_ir.pipeline.build import Build
from ceras_ir.pipeline.report import Entry, entries_by_key, spelling
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import node_name, node_names
from ceras_ir.targets.capabilities import MICROSECONDS

Json = dict[str, object]

CONSTANT_LABEL = "constant"
MAX_TEXT_LENGTH = 200
"""The maximum number of characters of an attribute; the IR has the rest."""


@dataclass
class LevelGraphs:
    """
    The graphs of a level of the IR for Model Explorer, and the layer of the report to which each
    node belongs.
    """

    title: str
    graphs: list[Json] = field(default_factory=list[Json])
    layers: dict[str, list[tuple[str, tuple[str, str]]]] = field(
        default_factory=dict[str, list[tuple[str, tuple[str, str]]]]
    )
    """
    For each graph, the nodes: the identifier, and the name and operator of the layer in reports.
    """


def level_graphs(title: str, module: ModuleOp) -> LevelGraphs:
    """Return the graphs of a module for Model Explorer; `title` is the name of the level."""
    main = main_function(module)
    found = LevelGraphs(title)
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp) and op.body.blocks]
    names = {
        f.sym_name.data: title if f is main else f"{title}: {f.sym_name.data}" for f in functions
    }
    for function in sorted(functions, key=lambda f: f is not main):
        graph = _Function(names)
        if function is main:
            graph.input_names = input_names(main)
        graph.add(function)
        name = names[function.sym_name.data]
        found.graphs.append(
            {
                "id": name,
                "nodes": graph.nodes,
                "nodeLabelsToHide": [CONSTANT_LABEL, "arith.constant"],
            }
        )
        found.layers[name] = graph.layers
    return found


class _Function:
    def __init__(self, graphs: Mapping[str, str]):
        self.graphs = graphs
        self.nodes: list[Json] = []
        self.layers: list[tuple[str, tuple[str, str]]] = []
        self.input_names: Sequence[str] = ()
        self._producers: dict[SSAValue, tuple[str, int]] = {}

    def add(self, function: FuncOp) -> None:
        block = function.body.block
        for i, argument in enumerate(block.args):
            name = self.input_names[i] if i < len(self.input_names) else f"argument {i}"
            self._node(f"input {i}", name, "inputs", (), [argument], {})
        self._block(block, "")

    def _block(self, block: Block, group: str) -> None:
        for op in block.ops:
            self._operation(op, group)

    def _operation(self, op: Operation, group: str) -> None:
        identifier = str(len(self.nodes))
        names = node_names(op)
        label = (
            CONSTANT_LABEL if isinstance(op, ConstantOp) else spelling(op).removeprefix("graph.")
        )
        if op.regions:
            group = "/".join(filter(None, (group, f"{label} {identifier}")))
        folders = names[0].strip("/").split("/")[:-1] if names else []
        inside = "/".join(filter(None, (group, *folders)))
        attributes: dict[str, str] = {"operation": op.name}
        if names:
            attributes["node"] = ", ".join(names)
        attributes |= dict(_attributes(op))
        node = self._node(identifier, label, inside, op.operands, op.results, attributes)
        callees = [a.root_reference.data for a in _values(op) if isinstance(a, SymbolRefAttr)]
        if kernels := [self.graphs[name] for name in callees if name in self.graphs]:
            node["subgraphIds"] = kernels
        if op.parent_op() is not None and not isinstance(op, ConstantOp) and op.results:
            self.layers.append((identifier, (node_name(op), spelling(op))))
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    # The producer of the arguments of a loop body is the loop.
                    self._producers[argument] = (identifier, len(op.results) + argument.index)
                self._block(block, group)

    def _node(
        self,
        identifier: str,
        label: str,
        group: str,
        operands: Sequence[SSAValue],
        results: Sequence[SSAValue],
        attributes: Mapping[str, str],
    ) -> Json:
        for i, value in enumerate(results):
            self._producers[value] = (identifier, i)
        producers = enumerate(self._producers[value] for value in operands)
        edges: list[Json] = [
            {"sourceNodeId": node, "sourceNodeOutputId": str(n), "targetNodeInputId": str(i)}
            for i, (node, n) in producers
        ]
        node: Json = {
            "id": identifier,
            "label": label,
            "namespace": group,
            "attrs": _pairs(attributes),
            "incomingEdges": edges,
            "outputsMetadata": [
                {"id": str(i), "attrs": _pairs(_tensor(value, f"{identifier}:{i}"))}
                for i, value in enumerate(results)
            ],
        }
        self.nodes.append(node)
        return node


def _pairs(entries: Mapping[str, str]) -> list[Json]:
    return [{"key": key, "value": value} for key, value in entries.items()]


def _tensor(value: SSAValue, tag: str) -> dict[str, str]:
    name = value.name_hint if not isinstance(value, BlockArgument) else None
    return {"tensor_name": name or tag, "tensor_shape": str(value.type)}


def _values(op: Operation) -> Iterator[Attribute]:
    yield from op.properties.values()
    yield from op.attributes.values()


def _attributes(op: Operation) -> Iterator[tuple[str, str]]:
    # Properties and attributes as text. For data, only the type is shown.
    for name, value in sorted({**op.properties, **op.attributes}.items()):
        if isinstance(value, FunctionType | BytesAttr):
            continue
        if isinstance(value, DenseResourceAttr):
            yield name, str(value.type)
        elif isinstance(value, DenseIntOrFPElementsAttr):
            kind: Attribute = value.parameters[0]
            yield name, str(kind)
        elif isinstance(value, Encoded):
            yield name, f"#{value.name}"
        else:
            text = str(value).strip('"')
            is_short = len(text) <= MAX_TEXT_LENGTH
            yield name, text if is_short else f"{text[:MAX_TEXT_LENGTH]}..."


EXPLORER_FOLDER = "model_explorer"
LEVELS_FILE = f"{EXPLORER_FOLDER}/levels.json"

GRADIENT: list[Json] = [{"stop": 0.0, "bgColor": "#ffffff"}, {"stop": 1.0, "bgColor": "#e0662f"}]
"""The colours of the smallest and the largest figure."""

FIGURES: Mapping[str, str] = {
    MICROSECONDS: "microseconds",
    "cycles": "cycles",
    "instructions": "instructions",
    "macs": "multiplications",
    "bytes": "bytes",
}
"""The figures of a layer in the report, and the names in the viewer."""


class ModelExplorer(CompileView):
    """
    Collects the levels of a compilation in order, and writes them as graphs for Model Explorer.
    """

    def __init__(self, options: BuildOptions):
        super().__init__(options)
        self.levels: list[LevelGraphs] = []

    def see(self, level: str, title: str, module: ModuleOp) -> None:
        """Add the graphs of a level of the compilation."""
        self.levels.append(level_graphs(f"{len(self.levels)} {title}", module))

    def add(self, compiled: Build) -> None:
        """Add the graphs and the figures of layers to the compiled files."""
        layers = compiled.report["layers"]
        assert isa(layers, list[Entry])
        compiled.emission.artefacts.extend(self._artefacts(layers))

    def _artefacts(self, layers: list[Entry]) -> Iterator[Artefact]:
        collection = {
            "label": self.options.title,
            "graphs": [graph for level in self.levels for graph in level.graphs],
            "graphSorting": "name_asc",
        }
        yield _json(LEVELS_FILE, "the graphs of all levels, for Model Explorer", collection)
        for entry, name in FIGURES.items():
            graphs: dict[str, Json] = {}
            for level in self.levels:
                for graph, nodes in level.layers.items():
                    known = entries_by_key(layers, (key for _, key in nodes))
                    values: dict[str, Json] = {}
                    for (node, _), found in zip(nodes, known, strict=True):
                        value = None if found is None else found.get(entry)
                        if isinstance(value, int | float) and value:
                            values[node] = {"value": value}
                    if values:
                        graphs[graph] = {"name": name, "results": values, "gradient": GRADIENT}
            if graphs:
                path = f"{EXPLORER_FOLDER}/{name}.json"
                yield _json(path, f"{name} by node, for Model Explorer", graphs)


def _json(path: str, description: str, content: object) -> Artefact:
    return Artefact.of_text(path, description, json.dumps(content, separators=(",", ":")) + "\n")
