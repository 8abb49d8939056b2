"""Build programs that hold the circuits in SystemVerilog, simulated by Verilator."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ceras_ir.backends.nnet.circuit_size import TOP, CircuitSize, circuit_sources
from ceras_ir.backends.nnet.engine import FLAGS, SOURCES, made_headers, runtime
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.native import Part, build_program, host_flags

FOLDERS = [Path(__file__).parent / name for name in ("core", "rtl")]
COMMAND = "verilator"
PURPOSE = "the nnet engine with its circuits in Verilog"
WARNINGS = ("-Wno-fatal", "-Wno-lint", "-Wno-style")


def has_verilator() -> bool:
    """Whether circuits can be simulated."""
    return shutil.which(COMMAND) is not None


def build_engine(size: CircuitSize) -> Path:
    """`ceras_engine` that has the option --rtl."""
    sources = [path for path in sorted(SOURCES.iterdir()) if path.suffix == ".cpp"]
    return build_simulation("ceras_engine_rtl", sources, size)


def build_simulation(name: str, sources: Sequence[Path], size: CircuitSize) -> Path:
    """
    The program `name` of `sources`, the circuits and the memory around them; headers beside a
    source are its own.
    """
    if not has_verilator():
        raise InputError(
            f"cannot run '{COMMAND}', which simulates the circuits: install it (apt-get install "
            "verilator)"
        )
    modules = circuit_sources()
    root = verilator_root()
    # Sources of the engine are those of programs without circuits, but for its `main`.
    shared = {path.name for path in sources if path.parent == SOURCES} - {"main.cpp"}
    own = [path for path in sources if path.parent != SOURCES or path.name == "main.cpp"]
    harness = sorted(path for folder in FOLDERS for path in folder.glob("*.cpp"))
    folders = {SOURCES, *FOLDERS, *(path.parent for path in own)}
    headers = sorted(path for folder in folders for path in folder.glob("*.h"))
    # What Verilator makes is not ours to warn about.
    flags = [flag for flag in FLAGS if not flag.startswith("-W")]
    flags += ["-DCERAS_HARDWARE", "-pthread", *host_flags(PURPOSE)]
    flags += [f"-I{folder}" for folder in (SOURCES, *FOLDERS, root / "include")]

    def verilate(folder: Path) -> list[Part]:
        command = [COMMAND, "--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast"]
        command += ["--noassert", *WARNINGS, "--top-module", TOP, "--Mdir", str(folder)]
        command += [f"-G{k}={v}" for k, v in size.parameters().items()]
        done = subprocess.run([*command, *map(str, modules)], capture_output=True, text=True)
        if done.returncode:
            last = "\n".join(done.stderr.strip().splitlines()[-5:])
            raise InputError(f"{COMMAND} cannot read the circuits:\n{last}")
        include = root / "include"
        parts = [include / name for name in ("verilated.cpp", "verilated_threads.cpp")]
        runtime_headers = sorted(include.glob("*.h"))
        made_of = [*runtime_headers, *sorted(folder.glob(f"V{TOP}*.h"))]
        return [
            Part(sorted(folder.glob(f"V{TOP}*.cpp")), made_of, flags),
            Part(parts, runtime_headers, flags),
        ]

    return build_program(
        name,
        PURPOSE,
        [
            *([runtime(shared)] if shared else []),
            Part([*own, *harness], headers, flags, made_headers(), kept=False),
        ],
        verilate,
        [*(path.read_bytes() for path in modules), repr(size.parameters()).encode()],
    )


def verilator_root() -> Path:
    """Where Verilator has the sources that every simulation needs."""
    done = subprocess.run(
        [COMMAND, "--getenv", "VERILATOR_ROOT"], capture_output=True, text=True, check=True
    )
    return Path(done.stdout.strip())
