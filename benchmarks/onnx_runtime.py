"""Import ONNX Runtime, or print the command that installs it."""

import sys
from importlib import import_module
from typing import Any


def runtime_module(name: str = "onnxruntime") -> Any:
    """Return the module `name` of the runtime. The type is Any, because it has no type stubs."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        sys.exit(f"no module {error.name}, which this benchmark needs: pip install '.[test]'")
