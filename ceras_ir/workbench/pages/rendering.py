"""
Templates to pages. Everything is escaped but pictures, which their makers escape.

Jinja2 is imported when the first page is made: commands start without it.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, values: Mapping[str, object]) -> str:
    """A page made from one of the templates beside this file."""
    shared = {"style": _read("style.css"), "script": _read("script.js")}
    return _environment().get_template(template).render({**values, **shared}) + "\n"


def _read(name: str) -> str:
    return (files("ceras_ir.workbench.pages") / name).read_text(encoding="utf-8")


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(_read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
