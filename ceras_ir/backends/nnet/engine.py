"""The C++ engine, built from the sources of this package when it is first needed."""

from collections.abc import Sequence
from pathlib import Path

from ceras_ir.backends.nnet.functions import HEADER, functions_header
from ceras_ir.support.native import build_program, host_flags
from ceras_ir.support.native import compiler as native_compiler

SOURCES = Path(__file__).parent / "runtime"
FLAGS = ("-std=c++17", "-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")
"""Contraction to fused multiply-add would change the bits of float operators."""

PURPOSE = "the nnet engine"


def compiler() -> list[str]:
    """The C++ compiler for the engine."""
    return native_compiler(PURPOSE)


def build(extra_flags: Sequence[str] = ()) -> Path:
    """The program `ceras_engine`, built if it is not in the cache."""
    files = sorted(SOURCES.iterdir())
    sources = [path for path in files if path.suffix == ".cpp"]
    headers = [path for path in files if path.suffix != ".cpp"]
    flags = (*FLAGS, *host_flags(PURPOSE), *extra_flags)
    made = {HEADER: functions_header()}
    return build_program("ceras_engine", PURPOSE, sources, headers, flags, made)


def write_sources(folder: Path) -> None:
    """All that `runtime/CMakeLists.txt` builds the engine of, in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(SOURCES.iterdir()):
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / HEADER).write_text(functions_header(), encoding="ascii")
