"""
What `--model-explorer` writes: all levels of a compile as one collection of graphs, and for each
figure of the report a file of node data, which colours the nodes by it.
"""

import json
from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.hints import isa

from ceras_ir.driver.hooks import CompileView
from ceras_ir.network.artefacts import Artefact
from ceras_ir.pipeline.build import Build
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.report import Entry, entries_by_key
from ceras_ir.targets.capabilities import MICROSECONDS
from ceras_ir.workbench.model_explorer.graphs import Json, LevelGraphs, level_graphs

FOLDER = "model_explorer"
LEVELS = f"{FOLDER}/levels.json"

GRADIENT: list[Json] = [{"stop": 0.0, "bgColor": "#ffffff"}, {"stop": 1.0, "bgColor": "#e0662f"}]
"""From the least figure to the greatest."""

FIGURES: Mapping[str, str] = {
    MICROSECONDS: "microseconds",
    "cycles": "cycles",
    "instructions": "instructions",
    "macs": "multiplications",
    "bytes": "bytes",
}
"""Entries of a layer in the report, and what the viewer calls them."""


class ModelExplorer(CompileView):
    """The levels of one compile, in order."""

    def __init__(self, options: BuildOptions):
        super().__init__(options)
        self.levels: list[LevelGraphs] = []

    def see(self, level: str, title: str, module: ModuleOp) -> None:
        """Keep a level as it is now."""
        self.levels.append(level_graphs(f"{len(self.levels)} {title}", module))

    def add(self, compiled: Build) -> None:
        """Add the files, with the figures of the report's layers."""
        layers = compiled.report["layers"]
        assert isa(layers, list[Entry])
        compiled.emission.artefacts.extend(self._artefacts(layers))

    def _artefacts(self, layers: list[Entry]) -> Iterator[Artefact]:
        collection = {
            "label": self.options.title,
            "graphs": [graph for level in self.levels for graph in level.graphs],
            "graphSorting": "name_asc",
        }
        yield _json(LEVELS, "the graphs of all levels, for Model Explorer", collection)
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
                yield _json(f"{FOLDER}/{name}.json", f"{name} by node, for Model Explorer", graphs)


def _json(path: str, description: str, content: object) -> Artefact:
    return Artefact.of_text(path, description, json.dumps(content, separators=(",", ":")) + "\n")
