"""Verilator, which makes C++ of circuits in SystemVerilog."""

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.native import Part

COMMAND = "verilator"
OPTIONS = (
    *("--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert"),
    *("-Wno-fatal", "-Wno-lint", "-Wno-style"),
)
ONCE = "-O0"
"""Of what runs once, at the start, and is half of the C++."""


def has_verilator() -> bool:
    """Whether circuits can be simulated."""
    return shutil.which(COMMAND) is not None


@cache
def include_folder() -> Path:
    """Where Verilator has the sources that every simulation needs."""
    if not has_verilator():
        raise InputError(
            f"cannot run '{COMMAND}', which simulates circuits: install it (apt-get install "
            "verilator)"
        )
    done = subprocess.run(
        [COMMAND, "--getenv", "VERILATOR_ROOT"], capture_output=True, text=True, check=True
    )
    return Path(done.stdout.strip()) / "include"


def verilate(
    top: str,
    modules: Iterable[Path],
    folder: Path,
    flags: Sequence[str],
    options: Sequence[str] = (),
    *,
    kept: bool = False,
) -> list[Part]:
    """
    The parts of a simulation of module `top`, whose header is `folder/V{top}.h`. They are compiled
    with `flags`, among which is the folder of Verilator's headers. What Verilator brings with it is
    compiled once; what it makes too if `kept`, for circuits that several programs have.
    """
    include = include_folder()
    command = [COMMAND, *OPTIONS, *options, "--top-module", top, "--Mdir", str(folder)]
    done = subprocess.run(
        [*command, *map(str, modules)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise InputError(f"{COMMAND} cannot read the circuits:\n" + "\n".join(lines[-5:]))
    shared = sorted(include.glob("*.h"))
    headers = [*shared, *sorted(folder.glob(f"V{top}*.h"))]
    made = sorted(folder.glob(f"V{top}*.cpp"))
    slow = [path for path in made if path.stem.endswith("__Slow")]
    runtime = [include / name for name in ("verilated.cpp", "verilated_threads.cpp")]
    return [
        Part([path for path in made if path not in slow], headers, flags, kept=kept),
        Part(slow, headers, [*flags, ONCE], kept=kept),
        Part(runtime, shared, flags),
    ]
