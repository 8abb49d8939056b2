"""
The registry that every command starts from: xDSL's dialects, ours, and installed plugins'.

All of it is lazy: a dialect is imported when its first operation is parsed, and plugins are
looked for where text is read, which alone can hold what is theirs.
"""

from xdsl.context import Context
from xdsl.universe import XDSL_UNIVERSE, Universe

from ceras_ir.universe import CERAS_UNIVERSE


def load_universe() -> Universe:
    """All dialects, passes and targets that are installed (`xdsl.universe` entry points)."""
    return Universe.get_multiverse()


def load_context(universe: Universe | None = None, *, allow_unregistered: bool = False) -> Context:
    """
    A context in which every dialect of `universe` (default: xDSL's and ours) can be parsed.
    """
    ctx = Context(allow_unregistered=allow_unregistered)
    for some in (XDSL_UNIVERSE, CERAS_UNIVERSE) if universe is None else (universe,):
        for name, factory in some.all_dialects.items():
            ctx.register_dialect(name, factory)
    return ctx
