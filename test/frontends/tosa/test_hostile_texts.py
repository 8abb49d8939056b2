"""Change the text of networks: each change is imported, or refused with a message."""

from pathlib import Path

import numpy as np
import pytest
from frontends.import_status import import_status
from tosa_cases import build

from ceras_ir.frontends.tosa import import_file
from ceras_ir.support.diagnostics import InputError

BASES = ("conv2d_by_channel", "add_int8", "movement_int8")
MUTANTS = 500

PIECES = (
    "0", "-1", "99999999999", "4294967296", "f32", "i8", "i48", "tensor<4xi8>", "<", ">", "{", "}",
    "(", ")", '"', "%0", "#loc", "dense<", '"0xFF"', "?", "array<i64: 0, 0>", "\0", "true",
)  # fmt: skip


def mutants(text: str, count: int, seed: int) -> list[str]:
    """Return copies with other characters, words or numbers, a copied piece, or a missing end."""
    rng = np.random.default_rng(seed)
    found: list[str] = []
    for i in range(count):
        at = int(rng.integers(0, len(text)))
        size = int(rng.integers(1, 12))
        match i % 5:
            case 0:
                piece = chr(int(rng.integers(32, 127)))
                found.append(text[:at] + piece + text[at + 1 :])
            case 1:
                digits = [j for j, c in enumerate(text) if c.isdigit()]
                at = int(rng.choice(digits))
                found.append(text[:at] + str(rng.choice(PIECES[:4])) + text[at + 1 :])
            case 2:
                found.append(text[:at] + str(rng.choice(PIECES)) + text[at + size :])
            case 3:
                start = int(rng.integers(0, len(text)))
                found.append(text[:at] + text[start : start + 4 * size] + text[at:])
            case _:
                end = at + 10 * size if i % 2 else len(text)
                found.append(text[:at] + text[end:])
    return found


def survive(path: Path, count: int, seed: int) -> dict[int, int]:
    """Import mutants and return how many have each exit status; 0 if a mutant is imported."""
    statuses: dict[int, int] = {}
    for name in BASES:
        for mutant in mutants(build(name)[0], count // len(BASES), seed):
            path.write_text(mutant, encoding="utf-8")
            status = import_status(import_file, path)
            statuses[status] = statuses.get(status, 0) + 1
    return statuses


def test_some_mutants_are_refused(tmp_path: Path):
    statuses = survive(tmp_path / "mutant.tosa.mlir", 90, 1)
    assert set(statuses) <= {0, 1, 3} and statuses[1] > 30


@pytest.mark.slow
def test_all_mutants_are_refused(tmp_path: Path):
    statuses = survive(tmp_path / "mutant.tosa.mlir", MUTANTS, 2)
    assert set(statuses) <= {0, 1, 3} and statuses[1] > MUTANTS // 4


@pytest.mark.parametrize("opening", ["[", "{a = ", "tensor<", "(", "#tosa.x<a = "])
def test_deep_nesting_is_refused(opening: str, tmp_path: Path):
    path = tmp_path / "deep.tosa.mlir"
    path.write_text("#a = " + opening * 100_000)
    with pytest.raises(InputError):
        import_file(str(path))
