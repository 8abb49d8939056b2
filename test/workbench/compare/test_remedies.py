"""Test the proposals of the report for a layer and for a network."""

import numpy as np
from xdsl.dialects.builtin import IntegerType

from ceras_ir.dialects.quant import UniformType
from ceras_ir.transforms.quantization.analysis.layer_noise import LayerNoise
from ceras_ir.workbench.compare.proposals import remedies, remedies_of_all, worst_layers


def layer(noise: float, scale: float | None = 0.5) -> LayerNoise:
    element = None if scale is None else UniformType(scale)
    found = LayerNoise("dense", "matmul", 3, element, accumulated=noise)
    # Two samples have a power of 1000 around the mean.
    found.moments.add(np.array([[-(250**0.5)], [250**0.5]]))
    return found


def test_layers_are_ranked_by_what_reaches_the_outputs() -> None:
    first, second, third = (layer(0.0) for _ in range(3))
    first.isolated, second.isolated, third.isolated = 100.0, 1.0, 10.0
    assert worst_layers([first, second, third]) == [first, third, second]
    first.share, second.share, third.share = 0.1, 0.7, 0.2
    assert worst_layers([first, second, third]) == [second, third, first]
    assert "its own rounding is small" not in " ".join(remedies(second))
    (text,) = remedies_of_all([first, second, third], 10.0)
    assert text == "1 of 3 layers cause half of the noise at the outputs, the worst 70%"


def test_more_bits_are_proposed_for_few_bits() -> None:
    noisy = layer(0.0)
    noisy.isolated, noisy.weight_bits = 100.0, 4
    assert any("'8:dense', a further entry of --weight-bits" in text for text in remedies(noisy))
    noisy.weight_bits = 8
    assert "-bits" not in " ".join(remedies(noisy))
    noisy.element = UniformType(0.5, storage=IntegerType(4))
    assert any("'8:dense', a further entry of --activation-bits" in t for t in remedies(noisy))


def test_what_the_recipe_did_is_not_proposed() -> None:
    noisy = layer(0.0)
    noisy.isolated, noisy.low, noisy.high = 100.0, 0.0, 1.0
    noisy.magnitudes = np.array([1.0, 1.0, 1024.0])
    texts = {
        "the largest channel is 1024 times the median": "equalize-channels",
        "it is never negative: choose-zero-points in the --recipe": "choose-zero-points",
    }
    for text, name in texts.items():
        assert text in " ".join(remedies(noisy))
        assert text not in " ".join(remedies(noisy, (name,)))


def test_no_option_is_proposed_for_a_network_that_comes_quantized() -> None:
    noisy = layer(0.0)
    noisy.isolated, noisy.low, noisy.clipped, noisy.elements = 100.0, 0.0, 1, 2
    noisy.magnitudes = np.array([0.0, 1.0, 1024.0])
    texts = remedies(noisy, adjustable=False)
    assert texts[:2] == ["50.0% of the elements are clipped", "1 of 3 channels are always zero"]
    assert "--" not in " ".join(texts) and "calibrate the float model" in texts[-1]


def test_good_networks_need_nothing() -> None:
    assert remedies_of_all([layer(500.0), layer(1.0)], 30.0) == []
    assert remedies_of_all([layer(500.0, None)], 3.0) == []
    assert remedies_of_all([layer(0.0)], float("inf")) == []
    assert remedies_of_all([], 3.0) == []
