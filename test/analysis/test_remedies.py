"""What the report proposes for a whole network."""

from ceras_ir.analysis.layer_noise import LayerNoise
from ceras_ir.analysis.remedies import remedies_of_all


def layer(noise: float, scale: float | None = 0.5) -> LayerNoise:
    return LayerNoise("dense", "matmul", 3, scale, signal=1000.0, accumulated=noise)


def test_ten_decibels_above_the_last_quantized_layer() -> None:
    (text,) = remedies_of_all([layer(0.01), layer(10.0), layer(100.0, None)])
    assert "--mixed float --target-sqnr 30," in text and "--recipe auto" in text


def test_good_networks_need_nothing() -> None:
    assert remedies_of_all([layer(500.0), layer(1.0)]) == []
    assert remedies_of_all([layer(500.0, None)]) == []
    assert remedies_of_all([]) == []
