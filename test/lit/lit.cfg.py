"""Run each `.mlir` file below this folder by its RUN lines."""

import os
import shutil
import sys

import lit.formats

config = globals()["config"]
lit_config = globals()["lit_config"]

config.name = "ceras_ir"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = lit_config.params.get("exec", config.test_source_root)
config.excludes = ["Output", "Inputs"]

# The commands under test belong to the interpreter that runs lit.
binaries = os.path.dirname(sys.executable)
config.environment["PATH"] = os.pathsep.join([binaries, os.environ["PATH"]])
# test/faults sets this path to a changed copy of the package.
config.environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
for tool in ("ceras-opt", "filecheck"):
    if not os.path.exists(os.path.join(binaries, tool)):
        lit_config.fatal(f"{tool} is not installed beside {sys.executable}: run `make test`")

if lit_config.params.get("forked"):
    sys.path.insert(0, config.test_source_root)
    import fork_server

    commands = fork_server.start()
    config.environment["PATH"] = os.pathsep.join([commands, config.environment["PATH"]])

for tool in ("mlir-opt-19", "arm-none-eabi-gcc", "qemu-system-arm"):
    if shutil.which(tool):
        config.available_features.add(tool)

root = os.path.dirname(os.path.dirname(config.test_source_root))


def extensions():
    """List the extensions that exist, as `core.py` does: `RUN: %if nnet %{ ... %}`."""
    sys.path.insert(0, os.path.join(root, "test"))
    from core import EXTENSIONS, ROOT

    return {name for name, (folder, *_) in EXTENSIONS.items() if (ROOT / folder).exists()}


config.available_features |= extensions()
config.substitutions.append(("%examples", os.path.join(root, "examples")))
