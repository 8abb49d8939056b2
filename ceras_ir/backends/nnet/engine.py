"""The C++ engine, built from the sources of this package when it is first needed."""

from collections.abc import Collection, Sequence
from pathlib import Path

from ceras_ir.backends.nnet.functions import HEADER, STRICT, functions_header
from ceras_ir.backends.nnet.register_map import HEADER as REGISTERS
from ceras_ir.backends.nnet.register_map import registers_header
from ceras_ir.interpreters.float_text import strict_floats
from ceras_ir.support.device_sources import DEVICE_SOURCES
from ceras_ir.support.native import Part, build_program, host_flags
from ceras_ir.support.native import compiler as native_compiler

SOURCES = Path(__file__).parent / "runtime"
FLAGS = ("-std=c++17", "-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")
"""Contraction to fused multiply-add would change the bits of float operators."""

PURPOSE = "the nnet engine"
CORE, LINUX, PLANNER = (Path(__file__).parent / name for name in ("core", "linux", "planner"))
BOARD = [CORE, LINUX]
"""What an engine has more that drives a board, besides `DEVICE_SOURCES`."""


def compiler() -> list[str]:
    """The C++ compiler for the engine."""
    return native_compiler(PURPOSE)


def made_headers() -> dict[str, str]:
    """Headers that are made of other sources, by name."""
    made = {HEADER: functions_header(), REGISTERS: registers_header()}
    return {**made, STRICT: strict_floats()}


def runtime(only: Collection[str] = (), extra_flags: Sequence[str] = ()) -> Part:
    """The sources of the engine for this machine, all or those of some names."""
    files = sorted(SOURCES.iterdir())
    sources = [p for p in files if p.suffix == ".cpp" and (not only or p.name in only)]
    headers = [path for path in files if path.suffix != ".cpp"]
    return Part(sources, headers, (*FLAGS, *host_flags(PURPOSE), *extra_flags), made_headers())


def hardware_part(sources: Sequence[Path], folders: Collection[Path]) -> Part:
    """
    Sources that see the engine's headers, those of circuits in hardware, and those of `folders`.
    What packs weights goes by what the processor has, as the engine's own objects do.
    """
    places = sorted({SOURCES, CORE, *folders})
    headers = [path for folder in places for path in sorted(folder.glob("*.h"))]
    flags = [*FLAGS, *host_flags(PURPOSE), "-DCERAS_HARDWARE", *(f"-I{f}" for f in places)]
    return Part(sources, headers, flags, made_headers())


def core() -> Part:
    """What prepares a launch of the circuits in hardware, on a board or simulated."""
    return hardware_part(sorted(CORE.glob("*.cpp")), ())


def planner() -> Path:
    """The shared library that plans layers for the core in Verilog, as the engine does."""
    sources = [*sorted(CORE.glob("*.cpp")), *sorted(PLANNER.glob("*.cpp"))]
    headers = [path for folder in (CORE, SOURCES) for path in sorted(folder.glob("*.h"))]
    flags = [*FLAGS, "-O1", "-fPIC", "-shared", f"-I{CORE}", f"-I{SOURCES}"]
    part = Part([p for p in sources if p.name != "circuits.cpp"], headers, flags, made_headers())
    return build_program("nnet_planner", "the plan of the nnet core", [part])


def shared_and_own(sources: Sequence[Path]) -> tuple[set[str], list[Path]]:
    """Names of sources whose objects any engine may have, and what is compiled for a program."""
    shared = {path.name for path in sources if path.parent == SOURCES} - {"main.cpp"}
    return shared, [path for path in sources if path.parent != SOURCES or path.name not in shared]


def build(extra_flags: Sequence[str] = ()) -> Path:
    """The program `ceras_engine`, built if it is not in the cache."""
    return build_program("ceras_engine", PURPOSE, [runtime(extra_flags=extra_flags)])


def build_board_engine() -> Path:
    """`ceras_engine` with the driver of a board; but for `main`, its objects are the engine's."""
    shared, own = shared_and_own(sorted(SOURCES.glob("*.cpp")))
    linux = [path for path in sorted(LINUX.iterdir()) if path.suffix == ".cpp"]
    own += [*linux, *(path for path in DEVICE_SOURCES if path.suffix == ".c")]
    places = {LINUX, *(path.parent for path in DEVICE_SOURCES)}
    parts = [runtime(shared), core(), hardware_part(own, places)]
    return build_program("ceras_engine_board", PURPOSE, parts)


def write_sources(folder: Path) -> None:
    """All that `runtime/CMakeLists.txt` builds the engine of, in a folder of its own."""
    driver = folder / "board"
    driver.mkdir(parents=True, exist_ok=True)
    for path in sorted(SOURCES.iterdir()):
        (folder / path.name).write_bytes(path.read_bytes())
    for name, text in made_headers().items():
        (folder / name).write_text(text, encoding="ascii")
    for path in [*(p for source in BOARD for p in sorted(source.iterdir())), *DEVICE_SOURCES]:
        (driver / path.name).write_bytes(path.read_bytes())
