"""Run a part of ONNX's node tests in float, in the engine and in the interpreter."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends.nnet.networks import written
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.nnet.engine import NnetModel
from ceras_ir.data.sample_stream import synthetic_samples
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import InputError, UnsupportedError
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass

pytestmark = pytest.mark.slow

EVERY = 12
TOLERANCE = 1e-5
"""The tolerance of floats: sums of products are added in another order."""


def networks() -> Iterator[tuple[str, ModuleOp]]:
    """
    Yield each twelfth case that is importable. The other cases are refused because of the operator.
    """
    loader: Any = import_module("onnx.backend.test.loader")
    for case in loader.load_model_tests(kind="node")[::EVERY]:
        try:
            yield case.name, import_model(case.model)
        except InputError:
            continue


def test_engine_computes_what_the_interpreter_computes(tmp_path: Path) -> None:
    """Integers are exact. Few cases are refused, all of them by name."""
    ran = refused = 0
    for name, module in networks():
        (sample,) = synthetic_samples(main_function(module), 1, 1)
        expected = run(module, sample)
        AllocateBlocksPass(io=True, in_slices=True, target="nnet").apply(Context(), module)
        try:
            data = written(module)
        except UnsupportedError:
            refused += 1
            continue
        (tmp_path / "model.nnet").write_bytes(data)
        got = NnetModel(tmp_path).run(sample)
        ran += 1
        for key, array in expected.items():
            if array.dtype != np.float32:
                np.testing.assert_array_equal(got[key], array, f"{name}: {key}")
                continue
            actual, real = (np.asarray(a, np.float64) for a in (got[key], array))
            np.testing.assert_allclose(actual, real, TOLERANCE, TOLERANCE, err_msg=f"{name}: {key}")
    assert ran > 10 * refused and ran > 75
