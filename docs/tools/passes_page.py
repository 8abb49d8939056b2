"""Print docs/passes.md: a short entry for each pass and pipeline."""

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from textwrap import fill
from typing import get_type_hints

from xdsl.passes import ModulePass

from ceras_ir.driver.opt.modes import benefits, rules_of, summary
from ceras_ir.driver.target_options import compiling_targets
from ceras_ir.pipeline.pass_options import spell, type_name
from ceras_ir.pipeline.stages import BuildOptions, all_stages
from ceras_ir.transforms.pass_kinds import PipelinePass
from ceras_ir.universe import CERAS_UNIVERSE

INTRODUCTION = """\
# Passes

`ceras-opt --PASS="option=value"` runs a pass. `-p "a,b{{option=value}}"` runs several. They run in
the order of the command line. `--help-pass=PASS` describes a pass and the meaning of its options.
`--list-passes` lists all passes, including xDSL's (`canonicalize`, `cse`, `dce`, ...).

A **pipeline** is a pass that runs a sequence of other passes. Dumps and timings show these passes.

A pass with **rules** applies them in the order below; `--PASS="rules=a,b"` applies only these.

**Options** are listed with the default, which shows the type, or with the type in parentheses; an
option with neither is a string. Without a default, an option is `none`, empty or required.
Parentheses after a default have the choices. *Data* stands for three options that choose samples:
`calibration`, `samples=64` and `draw` (int).

Parentheses after a text have the **benefit**, such as
{example}:

1. The number of builds that the pass or rule changes, of {builds}. A build is a network compiled
   with some options. Many passes have only this number.
2. A network of `benchmarks/benefit_networks.py` that is worse without it, the target and the
   options. The network is in int8, except with `float`.
3. The figure with it and the figure without it, or the failure without it. Times are modelled.
   Bytes are read or written, unless the text names a memory. Decibels are the signal-to-noise
   ratio. A pass with the figures of a rule shows them only at the rule.

`python benchmarks/pass_benefits.py --write` measures the benefits.

[new-pass.md](new-pass.md) explains how to write a pass."""

DATA = ("`calibration`", "`samples=64`", "`draw` (int)")
"""Options that the introduction lists."""

COMPILED = """\
## What `ceras-compile` runs

This is the order with `--quantize int8`. The target determines the options of the passes.
`--at LEVEL PIPELINE` runs more passes after a level. `--save-temps` writes the network at each
level.

"""


def passes_page() -> str:
    classes = {name: load() for name, load in sorted(CERAS_UNIVERSE.all_passes.items())}
    pipelines = {name: cls for name, cls in classes.items() if issubclass(cls, PipelinePass)}
    builds = max(known.builds for known in benefits().values())
    parts = [
        INTRODUCTION.format(builds=builds, example=_benefit("fold-affine").strip()),
        COMPILED + "\n".join(_compiled()),
        "## Pipelines",
    ]
    parts += [_describe(cls) for cls in pipelines.values()]
    parts.append("## Single passes")
    parts += [_describe(cls) for name, cls in classes.items() if name not in pipelines]
    return "\n\n".join(parts)


def _compiled() -> list[str]:
    """Return an item for each level, with the targets that run equal passes."""
    targets = defaultdict[tuple[str, str], list[str]](list)
    for cls in compiling_targets():
        for stage in all_stages(BuildOptions(cls(), quantize="int8")):
            names = ", ".join(f"`{each.name}`" for each in stage.passes)
            targets[names, stage.title].append(cls.name)
    return [
        _item(f"- {title} ({', '.join(names)}): {passes}.")
        for (passes, title), names in targets.items()
    ]


def _describe(cls: type[ModulePass]) -> str:
    """Return a short entry."""
    rules = {rule.name: f"{cls.name}{{{rule.name}}}" for rule in rules_of(cls)}
    parts = [f"### {cls.name}", fill(f"{_summary(cls)}{_benefit(cls.name, *rules.values())}", 100)]
    if issubclass(cls, PipelinePass):
        inner = ", ".join(f"`{p.name}`" for p in cls().passes())
        parts.append(fill(f"Passes: {inner}.", 100, break_on_hyphens=False))
    items = [
        _item(f"- Rule `{rule.name}`: {_summary(type(rule))}{_benefit(rules[rule.name])}")
        for rule in rules_of(cls)
    ]
    inner = cls().passes() if issubclass(cls, PipelinePass) else ()
    items += _options(cls, [type(each) for each in inner])
    return "\n\n".join([*parts, *(["\n".join(items)] if items else [])])


def _options(cls: type[ModulePass], inner: Sequence[type[ModulePass]]) -> list[str]:
    """Return an item with the options, or with the pass of a pipeline that has equal options."""
    options = _option_texts(cls)
    if not options:
        return []
    equal = [each.name for each in inner if _option_texts(each) == options]
    text = f"those of `{equal[0]}`" if equal else "; ".join(options)
    return [_item(f"- Options: {text}.")]


def _option_texts(cls: type[ModulePass]) -> list[str]:
    types, options = get_type_hints(cls), list[str]()
    for field in dataclasses.fields(cls):
        # The introduction of the page explains `rules`.
        if not field.init or field.name in ("name", "rules"):
            continue
        value = "" if field.default in (dataclasses.MISSING, None) else spell(field.default)
        name = field.name.replace("_", "-")
        kind = type_name(types[field.name]).removesuffix(" or none")
        # The introduction explains an option without default and type.
        is_shown = kind != "str" if not value else "|" in kind or "," in kind
        options.append(f"`{name}{f'={value}' if value else ''}`{f' ({kind})' if is_shown else ''}")
    if {*DATA} <= {*options}:
        return ["*data*", *(option for option in options if option not in DATA)]
    return options


def _summary(cls: type) -> str:
    return f"{summary(cls).rstrip(':')}."


def _benefit(name: str, *rules: str) -> str:
    known = benefits().get(name)
    if known is None:
        return ""
    figures = [benefits()[rule].figure for rule in rules if rule in benefits()]
    figure = "" if known.figure in figures else _short(known.figure)
    if not figure:
        return f" ({known.changed} builds)"
    return f" ({known.changed}; `{known.network}`, {known.setting}: {figure})"


def _short(figure: str) -> str:
    """Return the figures without words that the introduction explains, and with one unit."""
    text = figure.removesuffix(" without it").replace(" (modelled)", "")
    return text.removesuffix(" dB").replace(" read and written", "")


def _item(text: str) -> str:
    return fill(text, 100, subsequent_indent="  ", break_on_hyphens=False)
