"""Constants that break ties change no other result, for any requantization."""

import numpy as np
import pytest
from c_harness import make_network
from onnx_models import run_onnxruntime

from ceras_ir.backends.onnx.export import export_model
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.interpreters.network import run
from ceras_ir.transforms.quantization.analysis.rescaling import rescaling_by

SCALES = [(1.0, 3.3), (1.0, 1.5), (1.0, 0.7), (1.25, 1.0), (0.625, 1.0), (1.0, 4.0)]


@pytest.mark.parametrize(("source", "scale"), SCALES)
def test_products_are_rescaled_as_they_are_here(source: float, scale: float):
    """A quarter of the unit of the accumulator is sufficient only for the last ratio."""
    result = UniformType(float(np.float32(scale)))
    unit, one = UniformType(source), UniformType(1.0)
    module = make_network(
        [(unit, (255, 1))],
        lambda x: [
            graph.MatmulOp(
                x,
                graph.ConstantOp.from_array(np.array([[1]], np.int8), one).result,
                result_element=result,
                requant=rescaling_by([source / result.scale], 0, (-128, 127)),
            ).result
        ],
    )
    sample = {"input0": np.arange(-127, 128, dtype=np.int8)[:, None]}
    (expected,) = run(module, sample).values()
    (found,) = run_onnxruntime(export_model(module, "product"), sample).values()
    np.testing.assert_array_equal(found, expected)
