"""Test that each choice of kernels declares a variant of each constant."""

import re
import shutil
import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from c_harness import constant, make_network, place
from firmware import write_files
from xdsl.ir import SSAValue

from ceras_ir.backends.c.emitter import emit
from ceras_ir.dialects.graph import Conv2dOp
from ceras_ir.dialects.quant import RequantAttr, UniformType

ELEMENT = UniformType(1.0, 3)
CHOICES = [
    (lanes, rvv, rows)
    for lanes, rvv, rows in product((0, 8, 16), (0, 1), (0, 1))
    if not (lanes and rvv)
]


def build(x: SSAValue) -> list[SSAValue]:
    """
    Return a product with the input in place, a window that does not, and per-channel scales.
    """
    rng = np.random.default_rng(0)

    def layer(value: SSAValue, outputs: int, kernel: int, groups: int = 1) -> SSAValue:
        shape = (outputs, kernel, kernel, 64 // groups)
        weights = constant(rng.integers(-9, 9, shape).astype(np.int8), UniformType(1.0))
        return Conv2dOp(
            value, weights, result_element=ELEMENT, padding=[kernel // 2] * 4, groups=groups,
            requant=RequantAttr(9),
        ).result  # fmt: skip

    return [layer(layer(layer(x, 64, 1), 64, 3, 64), 32, 3)]


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_each_constant_is_declared_once(tmp_path: Path) -> None:
    write_files(emit(place(make_network([(ELEMENT, (1, 5, 5, 64))], build))), tmp_path)
    header = str(tmp_path / "model_weights.h")
    for choice in CHOICES:
        names = ("LANES", "RVV", "UNSIGNED_ROWS")
        flags = [f"-DMODEL_{name}={value}" for name, value in zip(names, choice, strict=True)]
        command = ["gcc", "-E", "-P", *flags, header]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        declared = re.findall(r"^extern const union (\w+)", text, re.MULTILINE)
        assert len(declared) == len(set(declared)), choice
        assert {"layer_0_bias", "layer_1_bias", "layer_2_bias"} <= set(declared), choice
