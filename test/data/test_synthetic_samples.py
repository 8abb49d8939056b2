"""Check that synthetic samples have the types of the inputs."""

import numpy as np
from c_harness import make_network
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, f32, i64

from ceras_ir.data.sample_stream import synthetic_samples
from ceras_ir.dialects.graph.lookup import BYTE
from ceras_ir.network.function import main_function


def test_integers_are_indices_and_masks():
    """Ids of tokens, masks and truth values are 0 and 1, which no table refuses."""
    kinds = (i64, IntegerType(1), f32)
    samples: list[dict[str, NDArray[np.generic]]] = []
    for kind in kinds:
        module = make_network([(kind, (4, 40))], lambda v: [v])
        samples.append(synthetic_samples(main_function(module), 6, seed=1)[0])
    for sample, dtype in zip(samples, (np.int64, np.bool_, np.float32), strict=True):
        values = sample["input0"].astype(np.float64)
        assert sample["input0"].dtype == dtype
        assert values.min() >= 0 and values.max() <= 1
        assert np.unique(values).size >= 2


def test_bytes_are_pixels():
    """With values 0 and 1 only, an image was black: ResNet-8 lost all accuracy."""
    module = make_network([(BYTE, (1, 8, 8, 3))], lambda v: [v])
    values = np.stack([s["input0"] for s in synthetic_samples(main_function(module), 6, seed=1)])
    assert values.dtype == np.uint8
    assert values.min() < 8 and values.max() > 247
