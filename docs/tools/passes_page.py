"""Print docs/passes.md: a short entry for each pass and pipeline."""

import dataclasses
from textwrap import fill
from typing import get_type_hints

from xdsl.passes import ModulePass

from ceras_ir.driver.opt.modes import benefits, rules_of, summary
from ceras_ir.driver.shared_options import compiling_targets
from ceras_ir.pipeline.pass_options import spell, type_name
from ceras_ir.pipeline.stages import BuildOptions, all_stages
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
| `ceras-opt --help-pass=PASS` | the description of a pass and the options |
| `ceras-opt --list-passes` | all passes, xDSL's own (`canonicalize`, `cse`, `dce`, ...) included |

A pass with **rules** applies them in the order below; `--PASS="rules=a,b"` applies only these. A
*benefit* names a network of `benchmarks/benefit_networks.py` that is worse without the pass or
rule, and in how many builds the IR changes. `python benchmarks/pass_benefits.py --write` measures
both.

[new-pass.md](new-pass.md) explains how to write a pass."""

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
    parts += [_describe(cls) for cls in pipelines.values()]
    parts.append("## Single passes")
    parts += [_describe(cls) for name, cls in classes.items() if name not in pipelines]
    return "\n\n".join(parts)


def _compiled() -> list[str]:
    """Return a row for each level of each target."""
    return [
        _row(cls.name, stage)
        for cls in compiling_targets()
        for stage in all_stages(BuildOptions(cls(), quantize="int8"))
    ]


def _row(target: str, stage: Stage) -> str:
    names = [f"`{each.name}`" for each in stage.passes]
    return f"| {target} | {', '.join(names)} | {stage.title} |"


def _describe(cls: type[ModulePass]) -> str:
    """Return a short entry."""
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
    items += _options(cls)
    return "\n\n".join([*parts, *(["\n".join(items)] if items else [])])


def _options(cls: type[ModulePass]) -> list[str]:
    types, options = get_type_hints(cls), list[str]()
    for field in dataclasses.fields(cls):
        if not field.init or field.name == "name":
            continue
        value = "" if field.default is dataclasses.MISSING else spell(field.default)
        default = f", default `{value}`" if value else ""
        options.append(
            f"`{field.name.replace('_', '-')}` ({type_name(types[field.name])}{default})"
        )
    return [_item(f"- Options: {'; '.join(options)}.")] if options else []


def _benefit(name: str, rule: str = "") -> str:
    known = benefits().get(f"{name}{{{rule}}}" if rule else name)
    return "" if known is None else f" *Benefit*: {known.text()}"


def _item(text: str) -> str:
    return fill(text, 100, subsequent_indent="  ", break_on_hyphens=False)
