"""
Report options without effect on a network.

The code whose result depends on an option records its use. An option that declares the reason
`unused` is reported at the end if it was given and not used.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from ceras_ir.support.diagnostics import remark
from ceras_ir.support.options import flag_of, options_of

_used: ContextVar[set[str] | None] = ContextVar("used", default=None)


def record_use(name: str) -> None:
    """
    Record that the result for this network depends on the option with the field name `name`, so
    that `reporting_unused` does not report it.
    """
    if (used := _used.get()) is not None:
        used.add(name)


def warn_without_effect(flags: list[str], reason: str) -> None:
    """Print a warning that the options `flags` have no effect, with the `reason`."""
    remark(f"warning: options without effect: {', '.join(flags)}: {reason}")


@contextmanager
def reporting_unused(*owners: object) -> Generator[None]:
    """
    Print a warning for each option in `owners` (instances of dataclasses of options) that the user
    set, that declares a reason `unused`, and for which `record_use` was not called inside the
    block.
    """
    token = _used.set(used := set[str]())
    try:
        yield
    finally:
        _used.reset(token)
    for owner in owners:
        for each, described in options_of(type(owner)):
            is_given = getattr(owner, each.name) != each.default
            if described.unused is not None and is_given and each.name not in used:
                warn_without_effect([flag_of(each)], described.unused)
