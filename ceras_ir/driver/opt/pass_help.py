"""What passes there are and what each takes, printed from the code."""

import dataclasses
import inspect
from typing import get_type_hints

from xdsl.passes import ModulePass
from xdsl.transforms import get_all_passes

from ceras_ir.pipeline.pass_options import spell, type_name
from ceras_ir.pipeline.pipeline_text import PassTable


def summary(cls: type[ModulePass]) -> str:
    """The first sentence of the pass's docstring."""
    first = " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())
    return first.partition(". ")[0].removesuffix(".")


def list_passes(passes: PassTable) -> str:
    """A table of the passes of this project and of plugins, and the names of xDSL's."""
    upstream = get_all_passes().keys() & passes.keys()
    own = sorted(passes.keys() - upstream)
    width = max((len(name) for name in own), default=0)
    lines = [f"{name:{width}}  {summary(passes[name]())}".rstrip() for name in own]
    return "\n".join([*lines, "", "and xDSL's own:", *(f"  {name}" for name in sorted(upstream))])


def describe_pass(cls: type[ModulePass]) -> str:
    """The docstring of `cls` and its options with types and defaults."""
    lines = [f"--{cls.name}", ""]
    lines += [f"  {line}".rstrip() for line in (inspect.getdoc(cls) or "").split("\n")]
    types = get_type_hints(cls)
    options = [f for f in dataclasses.fields(cls) if f.init and f.name != "name"]
    if options:
        lines += ["", "Options:"]
    for field in options:
        text = f"  {field.name.replace('_', '-')}=<{type_name(types[field.name])}>"
        if field.default is not dataclasses.MISSING:
            text += f"  (default: {spell(field.default)})"
        lines.append(text)
    return "\n".join(lines)
