"""Build programs that hold the circuits in SystemVerilog, simulated by Verilator."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ceras_ir.backends.nnet.circuit_size import TOP, CircuitSize, circuit_sources
from ceras_ir.backends.nnet.engine import FLAGS, SOURCES, made_headers
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.native import build_program, host_flags

FOLDERS = [Path(__file__).parent / name for name in ("core", "rtl")]
COMMAND = "verilator"
PURPOSE = "the nnet engine with its circuits in Verilog"
WARNINGS = ("-Wno-fatal", "-Wno-lint", "-Wno-style")


def has_verilator() -> bool:
    """Whether circuits can be simulated."""
    return shutil.which(COMMAND) is not None


def build_engine(size: CircuitSize) -> Path:
    """`ceras_engine` that has the option --rtl."""
    files = sorted(SOURCES.iterdir())
    sources = [path for path in files if path.suffix == ".cpp"]
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
    harness = sorted(path for folder in FOLDERS for path in folder.glob("*.cpp"))
    folders = {SOURCES, *FOLDERS, *(path.parent for path in sources)}
    headers = sorted(path for folder in folders for path in folder.glob("*.h"))
    root = verilator_root()
    # What Verilator makes is not ours to warn about.
    flags = [flag for flag in FLAGS if not flag.startswith("-W")]
    flags += [
        "-DCERAS_HARDWARE",
        *(f"-I{folder}" for folder in (SOURCES, *FOLDERS, root / "include")),
    ]
    # What Verilator generates depends on the size, and the name of what is built on the flags.
    flags += ["-pthread", *(f"-DCERAS_RTL_{k}={v}" for k, v in size.parameters().items())]
    flags += [*host_flags(PURPOSE)]

    def verilate(folder: Path) -> list[Path]:
        command = [COMMAND, "--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast"]
        command += ["--noassert", *WARNINGS, "--top-module", TOP, "--Mdir", str(folder)]
        command += [f"-G{k}={v}" for k, v in size.parameters().items()]
        done = subprocess.run([*command, *map(str, modules)], capture_output=True, text=True)
        if done.returncode:
            last = "\n".join(done.stderr.strip().splitlines()[-5:])
            raise InputError(f"{COMMAND} cannot read the circuits:\n{last}")
        runtime = [root / "include" / name for name in ("verilated.cpp", "verilated_threads.cpp")]
        return [*sorted(folder.glob(f"V{TOP}*.cpp")), *runtime]

    return build_program(
        name,
        PURPOSE,
        [*sources, *harness],
        [*headers, *modules],
        flags,
        made_headers(),
        verilate,
    )


def verilator_root() -> Path:
    """Where Verilator has the sources that every simulation needs."""
    done = subprocess.run(
        [COMMAND, "--getenv", "VERILATOR_ROOT"], capture_output=True, text=True, check=True
    )
    return Path(done.stdout.strip())
