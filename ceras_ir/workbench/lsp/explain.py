"""What an editor shows of a name: the docstring of an operation, an attribute, a type or a pass."""

from collections.abc import Iterator

from xdsl.context import Context
from xdsl.universe import Universe

from ceras_ir.support.options import docstring


def explanation(ctx: Context, universe: Universe, text: str) -> str | None:
    """The docstring of what is called `text`, as Markdown; None where nothing is."""
    kind = "operation"
    found: type | None = ctx.get_optional_op(text)
    if found is None and text[:1] in "!#":
        kind = "type" if text[0] == "!" else "attribute"
        lookup = ctx.get_optional_type if kind == "type" else ctx.get_optional_attr
        found = lookup(text[1:])
    if found is None and text.removeprefix("--") in universe.all_passes:
        kind, found = "pass", universe.all_passes[text.removeprefix("--")]()
    if found is None:
        return None
    return f"**{text}** ({kind})\n\n{docstring(found) or 'It has no description.'}"


def operation_names(universe: Universe, prefix: str) -> Iterator[str]:
    """Operations of the dialect that `prefix` names, for completion."""
    name, dot, _ = prefix.partition(".")
    if dot and name in universe.all_dialects:
        for op in universe.all_dialects[name]().operations:
            yield op.name
