"""
A multi-level compiler from ONNX to edge machines, on xDSL.

The names of `__all__` are the Python API, which docs/python-api.md explains. Each is imported when
it is first used: commands and plugins, which need none of them, start without.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ceras_ir.api import (
        CerasWarning,
        Comparison,
        Compiled,
        ImageOptions,
        InputError,
        InternalError,
        Model,
        UnsupportedError,
        UsageError,
        Verification,
        compare,
        load,
        open_compiled,
        target_names,
        verify,
    )

__all__ = [
    "CerasWarning",
    "Comparison",
    "Compiled",
    "ImageOptions",
    "InputError",
    "InternalError",
    "Model",
    "UnsupportedError",
    "UsageError",
    "Verification",
    "compare",
    "load",
    "open_compiled",
    "target_names",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module("ceras_ir.api"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
