"""Importers of ONNX operators, a module for each family."""

from importlib import import_module
from pkgutil import iter_modules


def load_operators() -> None:
    """Import the modules of all operators, which register their importers and rules."""
    for module in iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
