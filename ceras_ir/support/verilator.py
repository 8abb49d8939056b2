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
STANDARD = "-std=c++17"
SIMULATED = ("-O2", "-fno-tree-pre", "-fno-schedule-insns2")
"""As fast a simulation as -O3 gives, in half of the time to compile it."""
ONCE = "-O0"
"""Of what runs once, at the start, and is half of the C++."""
RUNTIME = (STANDARD, "-O1", "-pthread")
"""Of what Verilator brings with it, whatever the circuits."""
UNIT_BYTES = 4 << 20
"""Of C++ that is compiled as one: parsing Verilator's headers takes as long as 50 kB of it."""


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
    The parts of a simulation of module `top`, whose header is `folder/V{top}.h`. What Verilator
    makes is compiled with `flags`, and once if `kept`, for circuits that several programs have;
    what it brings with it is compiled once for all.
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
    found = [f"-I{include}"]
    made = sorted(folder.glob(f"V{top}*.cpp"))
    slow = [path for path in made if path.stem.endswith("__Slow")]
    fast = [path for path in made if path not in slow]
    headers = [*shared, *sorted(folder.glob(f"V{top}*.h")), *made]
    runtime = [include / name for name in ("verilated.cpp", "verilated_threads.cpp")]
    return [
        Part(_units(fast, folder / f"V{top}_fast.cpp"), headers, [*flags, *found], kept=kept),
        Part(_units(slow, folder / f"V{top}_slow.cpp"), headers, [*flags, *found, ONCE], kept=kept),
        Part(runtime, shared, [*RUNTIME, *found]),
    ]


def _units(sources: Sequence[Path], together: Path) -> list[Path]:
    """One source that includes all, or themselves if they are large."""
    if sum(path.stat().st_size for path in sources) > UNIT_BYTES:
        return list(sources)
    together.write_text("".join(f'#include "{path.name}"\n' for path in sources), encoding="ascii")
    return [together]
