"""
A multi-level compiler from ONNX to edge devices, on xDSL.

The names of `__all__` are the Python API, which docs/python-api.md explains. A name is imported at
its first use, because commands and plugins start without the API. `__init__.pyi` has the types.
"""
# pyright: reportUnsupportedDunderAll=false

__all__ = [
    "CerasWarning",
    "Comparison",
    "Compiled",
    "ImageOptions",
    "InputError",
    "InternalError",
    "Model",
    "ModelLengths",
    "UnsupportedError",
    "UsageError",
    "Verification",
    "compare",
    "load",
    "load_lengths",
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
