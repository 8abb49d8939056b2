"""Describe passes and their options, from the code."""

import dataclasses
from textwrap import fill
from typing import get_type_hints

from xdsl.passes import ModulePass
from xdsl.transforms import get_all_passes

from ceras_ir.pipeline.benefits import benefits
from ceras_ir.pipeline.pass_options import spell, type_name
from ceras_ir.pipeline.pipeline_text import PassTable
from ceras_ir.support.docstrings import docstring
from ceras_ir.support.field_docs import field_docs

INSIDE = " " * 6


def summary(cls: type[ModulePass]) -> str:
    """Return the first sentence of the pass's docstring."""
    first = " ".join(docstring(cls).split("\n\n")[0].split())
    return first.partition(". ")[0].removesuffix(".")


def list_passes(passes: PassTable) -> str:
    """A table of the passes of this project and of plugins, and the names of xDSL's."""
    upstream = get_all_passes().keys() & passes.keys()
    own = sorted(passes.keys() - upstream)
    width = max((len(name) for name in own), default=0)
    lines = [f"{name:{width}}  {summary(passes[name]())}".rstrip() for name in own]
    return "\n".join([*lines, "", "and xDSL's own:", *(f"  {name}" for name in sorted(upstream))])


def rules_of(cls: type[ModulePass]) -> tuple[ModulePass, ...]:
    """The rules of a pass that is a table of rules, in order."""
    from ceras_ir.transforms.rule_pass import RulePass

    return cls().table() if issubclass(cls, RulePass) else ()


def _benefit(step: str) -> list[str]:
    """The lines on the measured benefit of a pass or rule, if any."""
    if (known := benefits().get(step)) is None:
        return []
    return ["", fill(f"Benefit: {known.text()}", 100, initial_indent="  ", subsequent_indent="  ")]


def describe_pass(cls: type[ModulePass]) -> str:
    """The docstring of `cls`, the measured benefit, the rules, and the options with types."""
    lines = [f"--{cls.name}", ""]
    lines += [f"  {line}".rstrip() for line in docstring(cls).split("\n")]
    lines += _benefit(cls.name)
    for rule in rules_of(cls):
        lines += ["", f"Rule {rule.name}:"]
        lines += [f"  {line}".rstrip() for line in docstring(type(rule)).split("\n")]
        lines += _benefit(f"{cls.name}{{{rule.name}}}")
    types, meanings = get_type_hints(cls), field_docs(cls)
    options = [f for f in dataclasses.fields(cls) if f.init and f.name != "name"]
    if options:
        lines += ["", "Options:"]
    for field in options:
        text = f"  {field.name.replace('_', '-')}=<{type_name(types[field.name])}>"
        if field.default is not dataclasses.MISSING:
            text += f"  (default: {spell(field.default)})"
        lines.append(text)
        if meaning := meanings.get(field.name):
            lines.append(fill(meaning, 100, initial_indent=INSIDE, subsequent_indent=INSIDE))
    return "\n".join(lines)
