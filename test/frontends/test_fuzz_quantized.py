"""
Compare quantized random networks of `fuzz_models.py` with ONNX Runtime, layer by layer.

ONNX Runtime's quantizer writes the networks. Each layer differs by at most one unit, or is
rejected. `fuzz_as_written.py` compares the entire network with the model as written, and C with the
interpreter. `CERAS_FUZZ_SEEDS=0:1000` runs more. Seeds that the generator drops are not counted.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from frontends.fuzz_as_written import (
    GENERATOR,
    compare_as_written,
    difference_in_c,
    generate,
    is_wide,
    unexplained,
)
from onnx_models import Array, run_onnxruntime
from qdq_layers import layers

from ceras_ir.backends.c.target import CTarget
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages
from ceras_ir.support.diagnostics import UnsupportedError

FIRST, LAST = map(int, os.environ.get("CERAS_FUZZ_SEEDS", "500:516").split(":"))
C_EVERY = int(os.environ.get("CERAS_FUZZ_C_EVERY", "8"))
"""C requires a compiler run per network, so only some networks are compiled."""
MAX_DIFFERING_SHARE = 0.1
"""The maximum share of layers of a network that may have frequent ties in float32."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not GENERATOR.exists(), reason="no ../shared/tools/fuzz_models.py"),
]


def quantized_results(part: onnx.ModelProto, inputs: dict[str, Array]) -> Array:
    module = import_model(part)
    run_stages(load_context(), module, front_stages(BuildOptions(CTarget()).resolved(module)))
    (result,) = run(module, inputs).values()
    return result


FOUND = (31061,)
"""Seeds that found a mistake."""


@pytest.mark.parametrize("seed", [*range(FIRST, LAST), *FOUND])
def test_layers(seed: int, tmp_path: Path) -> None:
    network = generate(seed, tmp_path)
    if network is None:
        pytest.skip("the generator drops this seed")
    differing = elements = 0
    for part, inputs in layers(network.model, network.inputs):
        kinds = [node.op_type for node in part.graph.node]
        (expected,) = run_onnxruntime(part, inputs).values()
        try:
            actual = quantized_results(part, inputs)
        except UnsupportedError as error:
            assert any("ONNX Runtime" in finding.message for finding in error.findings), kinds
            continue
        assert actual.dtype == expected.dtype and actual.shape == expected.shape, kinds
        real = expected.astype(np.float64)
        distance = np.abs(actual.astype(np.float64) - real)
        if expected.dtype == np.float32:
            assert distance.max() <= 1e-4 * np.abs(real).max(initial=1e-6), kinds
            continue
        assert distance.max(initial=0) <= 1, kinds
        differing, elements = differing + np.count_nonzero(distance), elements + distance.size
    print(f"{differing} of {elements} differ by one")
    assert differing <= MAX_DIFFERING_SHARE * elements
    found = compare_as_written(network)
    if found is not None:
        print(found)
        assert unexplained(found) == ""
        if seed // 2 % C_EVERY == 0:
            assert not difference_in_c(network)


def test_some_networks_have_values_in_16_bits(tmp_path: Path) -> None:
    networks = [generate(seed, tmp_path) for seed in (1, 5)]
    assert all(network is not None and is_wide(network.model) for network in networks)
