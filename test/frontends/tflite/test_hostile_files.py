"""Change bytes of files: each change is imported, or refused with a message."""

from pathlib import Path

import numpy as np
import pytest
from frontends.import_status import import_status
from tflite_cases import CASES

from ceras_ir.frontends.tflite import import_file
from ceras_ir.support.diagnostics import InputError

BASES = (
    "conv_same_strided_int8",
    "dense_by_channel_int8",
    "reshape_and_slice_int8",
    "lstm_int8",
    "lstm_clipped_float32",
    "unsigned_layers_uint8",
    "interpolated_int16",
    "svdf_rank_int8",
    "computed_branch_int8",
    "bilinear_int8",
)
MUTANTS = 2000


def mutants(data: bytes, count: int, seed: int) -> list[bytes]:
    """Return copies with other bytes, other words, a copied piece, or a missing end."""
    rng = np.random.default_rng(seed)
    found: list[bytes] = []
    for i in range(count):
        changed = bytearray(data)
        at = int(rng.integers(0, len(data) - 8))
        match i % 5:
            case 0:
                changed[at] ^= 1 << int(rng.integers(0, 8))
            case 1:
                word = int(rng.choice([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(data)]))
                at -= at % 4
                changed[at : at + 4] = word.to_bytes(4, "little")
            case 2:
                changed[at : at + 4] = int(rng.integers(0, len(data))).to_bytes(4, "little")
            case 3:
                start, size = int(rng.integers(0, len(data) - 64)), int(rng.integers(1, 64))
                changed[at : at + size] = data[start : start + size]
            case _:
                del changed[at:]
        found.append(bytes(changed))
    return found


def survive(path: Path, count: int, seed: int) -> dict[int, int]:
    """Import mutants and return how many have each exit status; 0 if a mutant is imported."""
    statuses: dict[int, int] = {}
    for name in BASES:
        for mutant in mutants(CASES[name]().data(), count // len(BASES), seed):
            path.write_bytes(mutant)
            status = import_status(import_file, path)
            statuses[status] = statuses.get(status, 0) + 1
    return statuses


def test_some_mutants_are_refused(tmp_path: Path):
    statuses = survive(tmp_path / "mutant.tflite", 150, 1)
    assert set(statuses) <= {0, 1, 3} and statuses[1] > 40


@pytest.mark.slow
def test_all_mutants_are_refused(tmp_path: Path):
    statuses = survive(tmp_path / "mutant.tflite", MUTANTS, 2)
    assert set(statuses) <= {0, 1, 3} and statuses[1] > MUTANTS // 4


@pytest.mark.parametrize("size", [0, 1, 4, 7, 8, 12, 40])
def test_a_truncated_file_is_refused(size: int, tmp_path: Path):
    path = tmp_path / "short.tflite"
    path.write_bytes(CASES[BASES[0]]().data()[:size])
    with pytest.raises(InputError, match="damaged" if size else "empty file"):
        import_file(str(path))
