"""Check that merged observers equal a single observer, and calibration in chunks."""

from pathlib import Path

import numpy as np
import pytest
from c_harness import make_network
from driver_networks import MIXING
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.data.array_archive import save_arrays
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.driver.compile import main
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.analysis import calibration
from ceras_ir.transforms.quantization.analysis.calibration import (
    chosen_samples,
    observe,
    sample_numbers,
)
from ceras_ir.transforms.quantization.analysis.observers import ObservedArray, make_observer

NAMES = ("mse", "minmax")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cut", [0, 1, 7, 19, 20])
def test_merged_is_as_if_one_saw_all(name: str, cut: int):
    random = np.random.default_rng(cut)
    # Magnitudes grow, so that histograms double and exponents are added on the way.
    arrays = [(random.normal(size=400) * (1 + 0.3 * i)).astype(np.float32) for i in range(20)]
    whole, first, second = (make_observer(name) for _ in range(3))  # pyright: ignore
    for number, array in enumerate(arrays):
        whole.observe(ObservedArray(array))
        (first if number < cut else second).observe(ObservedArray(array))
    first.merge(second)
    assert (first.low, first.high) == (whole.low, whole.high)
    assert first.choice().exponent == whole.choice().exponent
    assert first.choice() == whole.choice()


def test_zeros_on_either_side():
    for name in NAMES:
        one, other = make_observer(name), make_observer(name)  # pyright: ignore
        one.observe(ObservedArray(np.zeros(5, np.float32)))
        other.observe(ObservedArray(np.array([1.0, -3.0], np.float32)))
        one.merge(other)
        assert (one.low, one.high) == (-3.0, 1.0)
        known = make_observer(name)  # pyright: ignore
        known.observe(ObservedArray(np.array([1.0, -3.0], np.float32)))
        assert one.choice().exponent == known.choice().exponent


@pytest.mark.slow
def test_the_network_is_the_same_for_any_number_of_processes(tmp_path: Path):
    (tmp_path / "n.mlir").write_text(MIXING)
    images = np.random.default_rng(4).uniform(-1, 1, (300, 4, 4, 2)).astype(np.float32)
    np.savez(tmp_path / "a.npz", image=images)
    argv = [str(tmp_path / "n.mlir"), "--target", "c", "--calibrate", str(tmp_path / "a.npz")]
    texts: dict[tuple[str, ...], bytes] = {}
    for more in (
        ("1",),
        ("2",),
        ("1", "--calibration-seed", "3"),
        ("2", "--calibration-seed", "3"),
    ):
        out = tmp_path / "-".join(more)
        jobs = ["--calibration-samples", "200", "--calibration-jobs", *more]
        assert main([*argv, *jobs, "-o", str(out)]) == 0
        texts[more] = (out / "model.c").read_bytes() + (out / "model_weights.c").read_bytes()
    alone, several, drawn, drawn_by_several = texts.values()
    assert alone == several
    assert drawn == drawn_by_several


def module_of(state: str = "") -> ModuleOp:
    argument = f'%x: tensor<1xf32> {{graph.name = "x"{state}}}'
    result = 'tensor<1xf32> {graph.name = "y"}'
    text = f"func.func @main({argument}) -> ({result}) {{ func.return %x : tensor<1xf32> }}"
    return parse_text(load_context(), text, "n.mlir")


def test_which_samples_are_looked_at() -> None:
    stateless, steps = module_of(), module_of(', graph.state = "y"')
    assert list(sample_numbers(stateless, 10, 4)) == [0, 2, 5, 7]
    assert list(sample_numbers(stateless, 3, 4)) == [0, 1, 2]
    assert list(sample_numbers(steps, 10, 4)) == [0, 2, 5, 7]
    assert list(sample_numbers(steps, 1000, 4)) == [0, 8, 16, 24]


def test_large_steps_are_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "MAX_STEP_MACS", -1)
    assert list(sample_numbers(module_of(', graph.state = "y"'), 1000, 4)) == [0, 1, 2, 3]


SUM = """
func.func @main(%x: tensor<1xf32> {graph.name = "x"},
                %s: tensor<1xf32> {graph.name = "s", graph.state = "t"})
    -> (tensor<1xf32> {graph.name = "t"}) {
  %t = graph.binary add %x, %s : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  func.return %t : tensor<1xf32>
}
"""


@pytest.mark.parametrize("numbers", [[], [0, 1, 2], [3, 4, 9], [9]])
def test_states_are_those_of_all_steps_before(tmp_path: Path, numbers: list[int]) -> None:
    """Unobserved steps between the samples of a seed also change the states."""
    module = parse_text(load_context(), SUM, "n.mlir")
    save_arrays(str(tmp_path / "x.npz"), {"x": np.arange(1, 11, dtype=np.float32).reshape(10, 1)})
    found = list(chosen_samples(module, str(tmp_path / "x.npz"), numbers))
    assert [s["x"].item() for s in found] == [n + 1 for n in numbers]
    assert [s["s"].item() for s in found] == [n * (n + 1) / 2 for n in numbers]


def test_what_a_seed_draws() -> None:
    module = module_of()
    drawn = list(sample_numbers(module, 300, 200, 3))
    assert len(set(drawn)) == 200 and drawn == sorted(drawn) and drawn[-1] < 300
    assert drawn == list(sample_numbers(module, 300, 200, 3))
    assert drawn != list(sample_numbers(module, 300, 200, 4))
    assert sample_numbers(module, 5, 200, 3) == [0, 1, 2, 3, 4]


def test_stored_integers_are_seen() -> None:
    """The result of a quantize has a range too, as in models with Q/DQ and changed scales."""
    int8 = UniformType(0.5)

    def build(x: SSAValue) -> list[SSAValue]:
        stored = graph.QuantizeOp(x, int8).result
        return [graph.DequantizeOp(stored).result]

    module = make_network([(f32, (1, 4))], build)
    (stored,) = (op.result for op in module.walk() if isinstance(op, graph.QuantizeOp))
    sample = {"input0": np.array([[-2, -1, 0, 3]], np.float32)}
    (seen,) = observe(module, [sample], [stored], "minmax").observers
    assert (seen.low, seen.high) == (-4, 6)
