"""Give arbitrary files to the engine under the sanitizers, through the embedding interface."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from backends.nnet.every_operator import every_operator
from backends.nnet.networks import build_around_engine, resealed
from backends.nnet.verdicts import disagreements, mutant

from ceras_ir.backends.nnet.reader import read
from ceras_ir.support.diagnostics import InputError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def mutate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program `mutate` with the engine; `model.nnet` is in the same folder."""
    folder = tmp_path_factory.mktemp("mutate")
    (folder / "model.nnet").write_bytes(every_operator())
    build_around_engine("mutate.cpp", folder / "mutate", "a program that damages files")
    return folder


def run(folder: Path, *arguments: str) -> str:
    command = ["./mutate", "model.nnet", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    return done.stdout


def test_every_flip_and_truncation_is_refused(mutate: Path):
    run(mutate, "flips")


@pytest.mark.parametrize("seed", [1, 2])
def test_damage_under_right_checksums_stays_within_bounds(mutate: Path, seed: int):
    """A damaged file is refused, or runs without a finding of a sanitizer; both cases occur."""
    accepted = int(run(mutate, "reseal", "4000", str(seed)))
    assert 0 < accepted < 4000


def test_check_and_engine_agree(mutate: Path):
    """The engine refuses each mutant that the reader refuses; `check` uses both."""
    original = every_operator()
    files = [mutant(original, np.random.default_rng(i)) for i in range(250)]
    found, refused = disagreements(mutate / "mutate", files)
    assert found == []
    assert 0 < refused < len(files)


def test_the_reader_gives_no_other_error():
    """The Python reader raises an `InputError` for the same kind of damage, or returns a file."""
    data = every_operator()
    accepted = 0
    rng = np.random.default_rng(3)
    tables = range(344, int.from_bytes(data[32 + 24 * 8 + 8 :][:8], "little"))
    for _ in range(3000):
        at = int(rng.integers(tables.start, tables.stop))
        try:
            read(resealed(data, at, rng.integers(0, 256, rng.integers(1, 3), np.uint8).tobytes()))
            accepted += 1
        except InputError as error:
            assert error.message.startswith("not a valid nnet file: ")
    assert 0 < accepted < 3000
