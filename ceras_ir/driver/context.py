"""
The registry that every command starts from: xDSL's dialects, ours, and installed plugins'.

All of it is lazy: a dialect is imported when its first operation is parsed.
"""

from xdsl.context import Context
from xdsl.universe import Universe


def load_universe() -> Universe:
    """All dialects, passes and targets that are installed (`xdsl.universe` entry points)."""
    return Universe.get_multiverse()


def load_context(universe: Universe | None = None, *, allow_unregistered: bool = False) -> Context:
    """A context in which every dialect of `universe` (default: all installed) can be parsed."""
    ctx = Context(allow_unregistered=allow_unregistered)
    for name, factory in (universe or load_universe()).all_dialects.items():
        ctx.register_dialect(name, factory)
    return ctx
