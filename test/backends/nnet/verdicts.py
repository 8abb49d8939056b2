"""
Compare the verdicts of `ceras-nnet check` and of the engine on mutants of nnet files.

    python test/backends/nnet/verdicts.py [--count 1300] [--first 0]

A mutant has other values in one to three fields, with right checksums. `check` refuses what the
reader refuses, and what the engine refuses when it loads the file. Therefore both agree if the
engine refuses all that the reader refuses. The exit status is 1 if they differ for a mutant.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from backends.nnet.every_operator import every_operator
from backends.nnet.networks import build_around_engine, resealed

from ceras_ir.backends.nnet.reader import RECORD_FIELDS, SECTIONS, read
from ceras_ir.support.diagnostics import InputError

LIMITS = (
    *(0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 62, 63, 64, 65, 127, 128, 255, 256, 257, 1000),
    *(4095, 4096, 1 << 15, (1 << 16) - 1, 1 << 16, 1 << 17, (1 << 31) - 1, 1 << 31, (1 << 32) - 1),
    *(1 << 33, 1 << 40, 9 * 10**18, (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
)
"""Values at limits of the format, of the engine, and of the types of the fields."""


def mutant(original: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with one to three changed fields, and with right checksums."""
    data = original
    for _ in range(int(rng.integers(2, 4)) if rng.random() < 0.3 else 1):
        data = _changed(data, rng)
    return data


def _changed(data: bytes, rng: np.random.Generator) -> bytes:
    places = [
        [int.from_bytes(data[32 + 24 * i + at :][:8], "little") for at in (8, 16)]
        for i in range(len(SECTIONS))
    ]
    full = [i for i, (_, size) in enumerate(places) if size]
    number = full[rng.integers(len(full))]
    start, size = places[number]
    fields = RECORD_FIELDS.get(SECTIONS[number])
    if fields is None or rng.random() < 0.1:
        return resealed(data, start + int(rng.integers(size)), rng.bytes(1))
    record = sum(length for _, length in fields)
    field = int(rng.integers(len(fields)))
    within, length = sum(length for _, length in fields[:field]), fields[field][1]

    def at(index: int) -> int:
        return start + index * record + within

    place, other = (at(int(rng.integers(size // record))) for _ in range(2))
    old = int.from_bytes(data[place : place + length], "little")
    values = (
        LIMITS[rng.integers(len(LIMITS))],
        old + int(rng.integers(-2, 3)),
        int.from_bytes(data[other : other + length], "little"),
        old ^ 1 << int(rng.integers(8 * length)),
        int.from_bytes(rng.bytes(length), "little"),
    )
    value = values[rng.choice(5, p=(0.35, 0.3, 0.15, 0.1, 0.1))]
    return resealed(data, place, (value % (1 << 8 * length)).to_bytes(length, "little"))


def of_reader(data: bytes) -> str:
    """Return the reason for which the reader refuses a file, or an empty string."""
    try:
        read(data)
    except InputError as error:
        return error.message
    return ""


def of_engine(program: Path, files: Sequence[bytes]) -> list[str]:
    """Return the reasons for which the engine refuses files; empty for accepted files."""
    with tempfile.NamedTemporaryFile() as stream:
        for data in files:
            stream.write(len(data).to_bytes(8, "little") + data)
        stream.flush()
        command = [program, stream.name, "verdicts"]
        done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    lines = done.stdout.decode("utf-8", "replace").split("\n")[:-1]
    assert len(lines) == len(files)
    return lines


def disagreements(program: Path, files: Sequence[bytes]) -> tuple[list[tuple[int, str]], int]:
    """
    Return the mutants that the reader refuses and the engine accepts, with the reason, and the
    number of mutants that the engine refuses.
    """
    engine = of_engine(program, files)
    found = [
        (number, said)
        for number, data in enumerate(files)
        if not engine[number] and (said := of_reader(data))
    ]
    return found, sum(map(bool, engine))


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the verdicts of check and engine.")
    parser.add_argument("--count", type=int, default=1300)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    original, first, count = every_operator(), arguments.first, arguments.count
    files = [mutant(original, np.random.default_rng(first + i)) for i in range(count)]
    with tempfile.TemporaryDirectory(prefix="ceras-verdicts-") as folder:
        program = Path(folder) / "mutate"
        build_around_engine("mutate.cpp", program, "a program that damages files")
        found, refused = disagreements(program, files)
    for number, said in found:
        print(f"mutant {first + number}: the engine accepts it, but check refuses it: {said}")
    print(f"{count} mutants: {refused} refused by the engine, {len(found)} disagreements")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
