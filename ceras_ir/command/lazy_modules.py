"""
Load slow modules when they are used, not when they are imported.

The import of `onnx` imports `ml_dtypes`, which registers types with all functions of numpy.
That takes 0.4 s, half of a short command. Only models with elements of 4 bits need the types.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

LAZY_MODULES = "ml_dtypes", "onnx._mapping"
"""
`onnx._mapping` uses `ml_dtypes`, and only functions of `onnx` use it. Both are imported a single
time, because Python reads an attribute of a module at the second import.
"""


class LazyFinder:
    """A finder of modules for `sys.meta_path`."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of `LAZY_MODULES`, with a loader that waits for the first attribute."""
        if name not in LAZY_MODULES:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def load_lazily() -> None:
    """Load the modules `LAZY_MODULES` at the first use of an attribute."""
    if LazyFinder not in sys.meta_path:
        sys.meta_path.insert(0, LazyFinder)
