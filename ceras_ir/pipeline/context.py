"""
The registry that every command starts from: xDSL's dialects, ours, and plugins'.

All of it is lazy: a dialect is imported when its first operation is parsed, and installed plugins
are looked for where text is read, which alone can hold what is theirs.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from xdsl.context import Context
from xdsl.universe import XDSL_UNIVERSE, Universe

from ceras_ir.universe import CERAS_UNIVERSE

_CURRENT: ContextVar[Universe | None] = ContextVar("universe", default=None)


def load_universe() -> Universe:
    """All dialects, passes and targets: installed (`xdsl.universe` entry points) and loaded."""
    return _CURRENT.get() or Universe.get_multiverse()


@contextmanager
def with_universe(universe: Universe) -> Generator[None]:
    """Have everything below use `universe`."""
    token = _CURRENT.set(universe)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def load_context(universe: Universe | None = None, *, allow_unregistered: bool = False) -> Context:
    """
    A context in which every dialect of `universe` (default: xDSL's, ours and those of loaded
    plugin files) can be parsed.
    """
    ctx = Context(allow_unregistered=allow_unregistered)
    found = universe or _CURRENT.get()
    for some in (XDSL_UNIVERSE, CERAS_UNIVERSE) if found is None else (found,):
        for name, factory in some.all_dialects.items():
            ctx.register_dialect(name, factory)
    return ctx
