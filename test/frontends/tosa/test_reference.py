"""
Compare imported networks with the reference model of TOSA.

`golden.npz` has the results of the reference, see `golden.py`. Integers are equal bit for bit, in
the interpreter and in C.
"""

import zlib
from pathlib import Path

import numpy as np
import pytest
from c_harness import check
from merged_networks import merged
from numpy.typing import NDArray
from tosa_cases import CASES, GOLDEN_FILE, build
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.frontends.tosa import import_file
from ceras_ir.interpreters.network import run

Array = NDArray[np.generic]

GOLDEN = np.load(GOLDEN_FILE)

FLOAT_TOLERANCE = 1e-5
"""The tolerance of floats relative to the largest result; sums have another order."""


def imported(name: str, folder: Path) -> tuple[ModuleOp, dict[str, Array]]:
    text, inputs = build(name)
    crc = zlib.crc32(text.encode(), zlib.crc32(b"".join(a.tobytes() for a in inputs.values())))
    assert crc == GOLDEN[f"{name}|crc"], "run golden.py: the network changed"
    path = folder / f"{name}.tosa.mlir"
    path.write_text(text)
    return import_file(str(path)), inputs


def expect_equal(name: str, found: dict[str, Array]) -> None:
    for i, array in enumerate(found.values()):
        wanted = GOLDEN[f"{name}|{i}"]
        if array.dtype == np.float32:
            limit = FLOAT_TOLERANCE * max(1.0, float(np.abs(wanted).max()))
            np.testing.assert_allclose(
                array.astype(np.float32), wanted, rtol=0, atol=limit, err_msg=f"{name} {i}"
            )
        else:
            np.testing.assert_array_equal(
                array.astype(np.int64), wanted.astype(np.int64), err_msg=f"{name} {i}"
            )


@pytest.mark.parametrize("name", CASES)
def test_interpreter_equals_the_reference(name: str, tmp_path: Path):
    module, inputs = imported(name, tmp_path)
    module.verify()
    expect_equal(name, dict(run(module, inputs)))


def test_c_equals_the_reference(tmp_path: Path):
    """
    Networks are compiled together, and C equals the interpreter and the reference. Float sums have
    no order, and C has no sums of 48 bits.
    """
    modules: dict[str, ModuleOp] = {}
    inputs: dict[str, Array] = {}
    names = [name for name in CASES if name not in ("layers_of_floats", "product_of_words")]
    for name in names:
        modules[name], arrays = imported(name, tmp_path)
        inputs |= {f"{name}|{label}": array for label, array in arrays.items()}
    found = check(merged(modules), inputs)
    for name in names:
        expect_equal(name, {k: a for k, a in found.items() if k.startswith(f"{name}|")})
