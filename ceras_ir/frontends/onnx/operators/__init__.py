"""Importers of ONNX operators, one module per family."""

from importlib import import_module
from pkgutil import iter_modules


def load_operators() -> None:
    """Import every family, so that it registers its operators and rules."""
    for module in iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
