"""ONNX Runtime, which benchmarks compare with, or one line that says how to get it."""

import sys
from importlib import import_module
from typing import Any


def runtime_module(name: str = "onnxruntime") -> Any:
    """The module `name` of the runtime; as Any, because it has no type stubs."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        sys.exit(f"no module {error.name}, which this benchmark needs: pip install '.[test]'")
