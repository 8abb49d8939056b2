"""docs/passes.md: every pass and pipeline of this project, from its class."""

import dataclasses
from typing import get_type_hints

from docstrings import field_docs, markdown
from xdsl.passes import ModulePass

from ceras_ir.driver.opt.pass_help import spell, summary
from ceras_ir.pipeline.pass_options import type_name
from ceras_ir.transforms.pipeline import PipelinePass
from ceras_ir.universe import CERAS_UNIVERSE

INTRODUCTION = """\
# Passes

`ceras-opt --PASS="option=value"` runs a pass, `-p "a,b{option=value}"` several; they run in the
order of the command line. A pipeline is a pass that is nothing but a sequence of others: dumps
and timings show those. `ceras-opt --help-pass=PASS` prints what is below. xDSL's own passes
(`canonicalize`, `cse`, `dce`, ...) are there too: `ceras-opt --list-passes`. How to write one of
your own: [architecture.md](architecture.md#where-to-add-things).
"""


def passes_page() -> str:
    classes = {name: load() for name, load in sorted(CERAS_UNIVERSE.all_passes.items())}
    pipelines = {name: cls for name, cls in classes.items() if issubclass(cls, PipelinePass)}
    rows = ["| pass | what it does |", "|---|---|"]
    rows += [f"| [`{name}`](#{name}) | {_cell(summary(cls))} |" for name, cls in classes.items()]
    parts = [INTRODUCTION, "\n".join(rows), "## Pipelines"]
    parts += [_describe(cls) for cls in pipelines.values()]
    parts.append("## Single passes")
    parts += [_describe(cls) for name, cls in classes.items() if name not in pipelines]
    return "\n\n".join(parts)


def _describe(cls: type[ModulePass]) -> str:
    parts = [f"### {cls.name}", markdown(cls.__doc__)]
    if issubclass(cls, PipelinePass):
        inner = " ".join(f"`{p.name}`" for p in cls().passes())
        parts.append(f"Runs, by default: {inner}.")
    fields = [f for f in dataclasses.fields(cls) if f.init and f.name != "name"]
    if fields:
        types, docs = get_type_hints(cls), field_docs(cls)
        rows = ["| option | type | default | meaning |", "|---|---|---|---|"]
        for f in fields:
            default = "" if f.default is dataclasses.MISSING else f"`{spell(f.default)}`"
            name, kind = f.name.replace("_", "-"), _cell(type_name(types[f.name]))
            rows.append(f"| `{name}` | {kind} | {default} | {_cell(docs.get(f.name, ''))} |")
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
