"""
Define the parts of extensions that the driver and the Python API use.

An extension subclasses a class below and names it in the entry point group `ceras_ir.hooks`.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ceras_ir.support.extensions import find_hook

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ceras_ir.pipeline.build import Build
    from ceras_ir.pipeline.options import BuildOptions
    from ceras_ir.pipeline.report import Entry


class CompileView(ABC):
    """Files about a compilation, for an option of `ceras-compile`: `report` or `model-explorer`."""

    def __init__(self, options: "BuildOptions"):
        self.options = options

    @abstractmethod
    def see(self, level: str, title: str, module: "ModuleOp") -> None:
        """Receive the module at the end of a level, which reports call `title`."""

    @abstractmethod
    def add(self, compiled: "Build") -> None:
        """Add the files to those of the compiled network."""


class Pages(ABC):
    """The page and pictures of a network, as HTML; the hook `pages`."""

    @abstractmethod
    def page(self, report: "Entry", title: str, target: str) -> str:
        """Return the page of `ceras-report` about the content of a `report.json`."""

    @abstractmethod
    def graph(self, module: "ModuleOp") -> str:
        """Draw the function `main`."""

    @abstractmethod
    def memory(self, report: "Entry", title: str, target: str) -> str | None:
        """Draw the memory plan of a report; None without a plan."""


PAGES = "pages"


def pages_if_installed() -> Pages | None:
    """Return the pages, or None without the extension."""
    found = find_hook(PAGES, Pages)
    return None if found is None else found()
