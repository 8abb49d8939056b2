"""Print docs/passes.md: a short entry for each pass and pipeline."""

import dataclasses
from textwrap import fill
from typing import get_type_hints

from docstrings import first_sentence
from xdsl.passes import ModulePass

from ceras_ir.driver.opt.modes import rules_of, summary
from ceras_ir.driver.target_options import compiling_targets
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.pass_options import spell, type_name
from ceras_ir.pipeline.pipeline_text import benefits
from ceras_ir.pipeline.stages import all_stages
from ceras_ir.support.options import field_docs
from ceras_ir.targets.protocol import Stage
from ceras_ir.transforms.pass_kinds import PipelinePass
from ceras_ir.universe import CERAS_UNIVERSE

INTRODUCTION = """\
# Passes

`ceras-opt --PASS="option=value"` runs a pass. `-p "a,b{option=value}"` runs several. They run in
the order of the command line.

A **pipeline** is a pass that runs a sequence of other passes. Dumps and timings show these passes.

| command | what it prints |
|---|---|
| `ceras-opt --help-pass=PASS` | the full description of a pass, with the reason why it is exact |
| `ceras-opt --list-passes` | all passes, xDSL's own (`canonicalize`, `cse`, `dce`, ...) included |

A pass with **rules** applies them in the order below; `--PASS="rules=a,b"` applies only these. A
*benefit* names a network of `benchmarks/benefit_networks.py` that is worse without the pass or
rule, and in how many builds the IR changes. `python benchmarks/pass_benefits.py --write` measures
both.

[new-pass.md](new-pass.md) explains how to write a pass."""

MAX_REPEATED = 60
"""The text of a shared option is printed a single time if it has so many characters."""

COMPILED = """\
## What `ceras-compile` runs

This is the order with `--quantize int8`. The target determines the options of the passes.
`--at LEVEL PIPELINE` runs more passes after a level. `--save-temps` writes the network at each
level.

| target | passes | level |
|---|---|---|
"""


def passes_page() -> str:
    classes = {name: load() for name, load in sorted(CERAS_UNIVERSE.all_passes.items())}
    pipelines = {name: cls for name, cls in classes.items() if issubclass(cls, PipelinePass)}
    parts = [INTRODUCTION, COMPILED + "\n".join(_compiled()), "## Pipelines"]
    known: dict[str, str] = {}
    parts += [_describe(cls, known) for cls in pipelines.values()]
    parts.append("## Single passes")
    parts += [_describe(cls, known) for name, cls in classes.items() if name not in pipelines]
    return "\n\n".join(parts)


def _compiled() -> list[str]:
    """Return a row for each level of each target."""
    return [
        _row(cls.name, stage)
        for cls in compiling_targets()
        for stage in all_stages(BuildOptions(cls(), quantize="int8"))
    ]


def _row(target: str, stage: Stage) -> str:
    names = [f"[`{each.name}`](#{each.name})" for each in stage.passes]
    return f"| {target} | {', '.join(names)} | {stage.title} |"


def _describe(cls: type[ModulePass], known: dict[str, str]) -> str:
    """Return a short entry. `known` has the pass that explains each option in these words."""
    parts = [f"### {cls.name}", fill(f"{summary(cls)}.{_benefit(cls.name)}", 100)]
    if issubclass(cls, PipelinePass):
        inner = ", ".join(f"`{p.name}`" for p in cls().passes())
        parts.append(fill(f"Passes: {inner}.", 100, break_on_hyphens=False))
    items = [
        _item(
            f"- Rule `{rule.name}`: {summary(type(rule))}.{_benefit(f'{cls.name}{{{rule.name}}}')}"
        )
        for rule in rules_of(cls)
    ]
    items += _options(cls, known)
    return "\n\n".join([*parts, *(["\n".join(items)] if items else [])])


def _options(cls: type[ModulePass], known: dict[str, str]) -> list[str]:
    types, docs = get_type_hints(cls), field_docs(cls)
    items: list[str] = []
    for field in dataclasses.fields(cls):
        if not field.init or field.name == "name":
            continue
        value = "" if field.default is dataclasses.MISSING else spell(field.default)
        default = f", default `{value}`" if value else ""
        name, kind = field.name.replace("_", "-"), type_name(types[field.name])
        text = first_sentence(docs.get(field.name, ""))
        first = known.setdefault(text, cls.name)
        if first != cls.name and len(text) > MAX_REPEATED:
            text = f"see [`{first}`](#{first})."
        items.append(_item(f"- Option `{name}` ({kind}{default}): {text}".rstrip(": ")))
    return items


def _benefit(name: str, rule: str = "") -> str:
    known = benefits().get(f"{name}{{{rule}}}" if rule else name)
    return "" if known is None else f" *Benefit*: {known.text()}"


def _item(text: str) -> str:
    return fill(text, 100, subsequent_indent="  ", break_on_hyphens=False)
