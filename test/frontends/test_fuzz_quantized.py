"""
Quantized random networks of `fuzz_models.py`, as ONNX Runtime's quantizer writes them: layer by
layer at most one unit from ONNX Runtime, the whole network in C as in the interpreter, and what is
refused is refused. Of Q/DQ networks every other one has some of its values in 16 bits. The whole
network is also held, value by value, to the one as it is written.

`CERAS_FUZZ_SEEDS=0:1000` runs more. Seeds that the generator itself drops are not counted.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_compare import SHARED
from onnx_models import Array, run_onnxruntime
from qdq_layers import layers
from qdq_widths import widened

from ceras_ir.backends.c.target import CTarget
from ceras_ir.driver.run.tool import main
from ceras_ir.driver.verify.as_written import AsWritten
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.stages import front_stages, run_stages
from ceras_ir.support.diagnostics import UnsupportedError

GENERATOR = SHARED / "tools" / "fuzz_models.py"
FIRST, LAST = map(int, os.environ.get("CERAS_FUZZ_SEEDS", "500:516").split(":"))
C_EVERY = int(os.environ.get("CERAS_FUZZ_C_EVERY", "8"))
"""C takes a compiler run per network, so that only some go through it."""
MOST_DIFFERING = 0.1
"""Of a network, in whose layers scales make ties common: float32 decides those by chance."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not GENERATOR.exists(), reason="no ../shared/tools/fuzz_models.py"),
]


def generate(seed: int, folder: Path, kind: str) -> bool:
    """Write the network of one seed; False for seeds that the generator drops."""
    if str(GENERATOR.parent) not in sys.path:
        sys.path.append(str(GENERATOR.parent))
    return str(import_module(GENERATOR.stem).one(seed, folder, 14, kind)).startswith("ok")


def quantized_results(part: onnx.ModelProto, inputs: dict[str, Array]) -> Array:
    module = import_model(part)
    run_stages(load_context(), module, front_stages(BuildOptions(CTarget()).resolved(module)))
    (result,) = run(module, inputs).values()
    return result


@pytest.mark.parametrize("seed", range(FIRST, LAST))
def test_layers(seed: int, tmp_path: Path) -> None:
    if not generate(seed, tmp_path, "qdq" if seed % 2 else "qop"):
        pytest.skip("the generator drops this seed")
    folder = tmp_path / f"s{seed:06d}"
    proto = onnx.load_model_from_string((folder / "model.onnx").read_bytes())
    if seed % 4 == 1:
        proto = widened(proto, seed)
        (folder / "model.onnx").write_bytes(proto.SerializeToString())
    differing = elements = 0
    with np.load(folder / "in.npz") as arrays:
        whole = {name: arrays[name] for name in arrays.files}
    for part, inputs in layers(proto, whole):
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
    assert differing <= MOST_DIFFERING * elements
    compare_as_written(proto, whole)
    if seed // 2 % C_EVERY == 0:
        compare_c(folder)


def compare_as_written(proto: onnx.ModelProto, inputs: dict[str, Array]) -> None:
    """Whatever of the network is quantized, by the rules of Q, DQ and the floats between them."""
    try:
        module = import_model(proto)
        fused, *rest = front_stages(BuildOptions(CTarget()).resolved(module))
        run_stages(load_context(), module, [fused])
        written = module.clone()
        run_stages(load_context(), module, rest)
    except UnsupportedError:
        return
    comparison = AsWritten(written, module)
    comparison.compare(inputs)
    found = comparison.found
    print(found)
    assert found.wrong is None, found
    assert 4 * found.unknown <= found.values, found


def compare_c(folder: Path) -> None:
    """Integers are the same in C; sums of floats are taken in another order there."""
    outputs: dict[str, dict[str, Array]] = {}
    for target in ("interp", "c"):
        file = folder / f"{target}.npz"
        arguments = [str(folder / "model.onnx"), "--inputs", str(folder / "in.npz")]
        status = main([*arguments, "--outputs", str(file), "--target", target])
        assert status in (0, 3) and file.exists() == (status == 0)
        if status:
            return
        with np.load(file) as arrays:
            outputs[target] = {name: arrays[name] for name in arrays.files}
    for name, expected in outputs["interp"].items():
        real = expected.astype(np.float64)
        off = np.abs(outputs["c"][name].astype(np.float64) - real).max()
        assert off <= 1e-6 * np.abs(real).max(), name
