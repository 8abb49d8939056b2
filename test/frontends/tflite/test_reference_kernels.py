"""
Compare imported networks with the reference kernels of TensorFlow Lite.

`golden.npz` has the results of the kernels, see `golden.py`. Integers are equal bit for bit, in the
interpreter and in C.
"""

import zlib
from pathlib import Path

import numpy as np
import pytest
from c_harness import check
from merged_networks import merged
from numpy.typing import NDArray
from tflite_cases import CASES, GOLDEN_FILE, SAMPLES, inputs_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import numpy_dtype, shape_of, stored_element
from ceras_ir.frontends.tflite import import_file
from ceras_ir.interpreters.network import in_turn
from ceras_ir.network.function import input_names, main_function, states_of

Array = NDArray[np.generic]

GOLDEN = np.load(GOLDEN_FILE)

FLOAT_TOLERANCE = 1e-5
"""The relative tolerance of floats, whose sums have another order."""


def imported(name: str, folder: Path) -> tuple[ModuleOp, dict[str, Array]]:
    model = CASES[name]()
    data = model.data()
    assert zlib.crc32(data) == GOLDEN[f"{name}|crc"], "run golden.py: the network changed"
    path = folder / f"{name}.tflite"
    path.write_bytes(data)
    return import_file(str(path)), inputs_of(name, model)


@pytest.mark.parametrize("name", CASES)
def test_interpreter_equals_the_reference_kernels(name: str, tmp_path: Path):
    module, samples = imported(name, tmp_path)
    module.verify()
    main = main_function(module)
    kept = {state.name for state in states_of(main)}
    assert [label for label in input_names(main) if label not in kept] == list(samples)
    turns = [{label: array[i] for label, array in samples.items()} for i in range(SAMPLES)]
    found = list(in_turn(module, turns))
    for output in found[0]:
        actual = np.stack([results[output] for results in found])
        wanted = GOLDEN[f"{name}|{output}"]
        assert actual.dtype == wanted.dtype
        if actual.dtype == np.float32:
            floats = wanted.astype(np.float32)
            limit = FLOAT_TOLERANCE * max(1.0, float(np.abs(floats).max()))
            np.testing.assert_allclose(actual.astype(np.float32), floats, rtol=0, atol=limit)
        else:
            np.testing.assert_array_equal(actual, wanted)


def test_c_equals_the_reference_kernels(tmp_path: Path):
    """All integer networks are compiled together, and C equals the interpreter and the kernels."""
    modules: dict[str, ModuleOp] = {}
    inputs: dict[str, Array] = {}
    for name in CASES:
        if name.endswith("float32"):
            continue
        modules[name], samples = imported(name, tmp_path)
        main = main_function(modules[name])
        for label, value in zip(input_names(main), main.body.block.args, strict=True):
            given = samples[label][0] if label in samples else first_state(value)
            inputs[f"{name}|{label}"] = given
    for label, array in check(merged(modules), inputs).items():
        if label in GOLDEN:
            np.testing.assert_array_equal(array, GOLDEN[label][0], err_msg=label)


def first_state(value: SSAValue) -> Array:
    element = stored_element(value)
    return np.full(shape_of(value), element.zero_point, numpy_dtype(element))
