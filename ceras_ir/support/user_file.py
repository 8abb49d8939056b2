"""Run a Python file of the user."""

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from types import CodeType, ModuleType


class _SourceLoader(SourceFileLoader):
    """Compiles the source each time: nothing is written beside it, and nothing stale is run."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def run_file(name: str, path: str) -> ModuleType:
    """The file at `path`, run as the module `name`; what it raises is raised."""
    spec = spec_from_file_location(name, path, loader=_SourceLoader(name, path))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
