"""docs/passes.md: every pass and pipeline of this project, from its class."""

import dataclasses
from textwrap import fill
from typing import get_type_hints

from docstrings import markdown
from xdsl.passes import ModulePass

from ceras_ir.driver.opt.modes import rules_of, summary
from ceras_ir.driver.target_options import compiling_targets
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.pass_options import spell, type_name
from ceras_ir.pipeline.pipeline_text import benefits
from ceras_ir.pipeline.stages import all_stages
from ceras_ir.support.options import field_docs
from ceras_ir.targets.protocol import Stage
from ceras_ir.transforms.pipeline import PipelinePass
from ceras_ir.universe import CERAS_UNIVERSE

INTRODUCTION = """\
# Passes

`ceras-opt --PASS="option=value"` runs a pass. `-p "a,b{option=value}"` runs several. They run in
the order of the command line.

A **pipeline** is a pass that is only a sequence of other passes. Dumps and timings show those.

| command | what it prints |
|---|---|
| `ceras-opt --help-pass=PASS` | the description of a pass, as below |
| `ceras-opt --list-passes` | all passes, xDSL's own (`canonicalize`, `cse`, `dce`, ...) included |

A pass with **rules** applies them in the order below; `--PASS="rules=a,b"` applies only these. A
*benefit* names a network of `benchmarks/benefit_networks.py` that is worse without the pass or
rule, and in how many builds the IR changes. `python benchmarks/pass_benefits.py --write` measures
both.

To write a pass of your own, see [new-pass.md](new-pass.md).

- [What `ceras-compile` runs](#what-ceras-compile-runs)
- [Pipelines](#pipelines)
- [Single passes](#single-passes)
"""

MAX_REPEATED = 60
"""The text of a shared option is printed a single time if it has so many characters."""

COMPILED = """\
## What `ceras-compile` runs

In this order, with `--quantize int8`; without it `quantize` is left out. The options of passes
follow from the target. `--at LEVEL PIPELINE` runs passes of yours behind a level. `--save-temps`
writes the network at each level.

| target | passes | level |
|---|---|---|
"""


def passes_page() -> str:
    classes = {name: load() for name, load in sorted(CERAS_UNIVERSE.all_passes.items())}
    pipelines = {name: cls for name, cls in classes.items() if issubclass(cls, PipelinePass)}
    rows = [_item(f"- [`{name}`](#{name}): {summary(cls)}.") for name, cls in classes.items()]
    parts = [INTRODUCTION, "\n".join(rows), COMPILED + "\n".join(_compiled()), "## Pipelines"]
    known: dict[str, str] = {}
    parts += [_describe(cls, known) for cls in pipelines.values()]
    parts.append("## Single passes")
    parts += [_describe(cls, known) for name, cls in classes.items() if name not in pipelines]
    return "\n\n".join(parts)


def _compiled() -> list[str]:
    """One row for each level of each target."""
    return [
        _row(cls.name, stage)
        for cls in compiling_targets()
        for stage in all_stages(BuildOptions(cls(), quantize="int8"))
    ]


def _row(target: str, stage: Stage) -> str:
    names = [f"[`{each.name}`](#{each.name})" for each in stage.passes]
    return f"| {target} | {', '.join(names)} | {stage.title} |"


def _describe(cls: type[ModulePass], known: dict[str, str]) -> str:
    """A pass and its options; `known` has the pass that explains each option in these words."""
    parts = [f"### {cls.name}", markdown(cls.__doc__)]
    if issubclass(cls, PipelinePass):
        inner = ", ".join(f"`{p.name}`" for p in cls().passes())
        parts.append(fill(f"Runs by default: {inner}.", 100, break_on_hyphens=False))
    parts += _benefit(cls.name)
    for rule in rules_of(cls):
        parts += [f"**Rule `{rule.name}`.** " + markdown(type(rule).__doc__)]
        parts += _benefit(f"{cls.name}{{{rule.name}}}")
    fields = [f for f in dataclasses.fields(cls) if f.init and f.name != "name"]
    if fields:
        types, docs = get_type_hints(cls), field_docs(cls)
        rows = ["Options:", ""]
        for f in fields:
            value = "" if f.default is dataclasses.MISSING else spell(f.default)
            default = f", default `{value}`" if value else ""
            name, kind = f.name.replace("_", "-"), type_name(types[f.name])
            text = docs.get(f.name, "")
            first = known.setdefault(text, cls.name)
            if first != cls.name and len(text) > MAX_REPEATED:
                text = f"see [`{first}`](#{first})."
            rows.append(_item(f"- `{name}` ({kind}{default}): {text}".rstrip(": ")))
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def _benefit(step: str) -> list[str]:
    known = benefits().get(step)
    return [] if known is None else [fill(f"*Benefit*: {known.text()}", 100)]


def _item(text: str) -> str:
    return fill(text, 100, subsequent_indent="  ", break_on_hyphens=False)
