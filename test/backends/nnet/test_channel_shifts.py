"""Per-channel shifts in the FPGA's circuits equal the interpreter, bit for bit."""

import json
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest
from backends.nnet.drawn import INT8, INT32, Drawn
from backends.nnet.networks import OTHER_PROCESSORS, agree
from graph_networks import Network, random_array
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.nnet.rules import FPGA
from ceras_ir.backends.nnet.target import NnetTarget
from ceras_ir.dialects import graph
from ceras_ir.dialects.mem import CPU
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.driver.compile import main
from ceras_ir.pipeline.stages import BuildOptions, quantize_pass

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
SHIFTS = (-8, -1, 0, 1, 2, 7, 8, 9, 15, 16, 22)
"""
Left, no and right shifts of adjacent channels, in a tile of 16 channels and across the end of a
tile.
"""


@pytest.mark.parametrize("seed", range(4))
def test_random_layers(seed: int):
    agree(Drawn(seed, by_channel=0.8).module(30))


@pytest.mark.slow
@pytest.mark.sample(5)
@pytest.mark.parametrize("flags", OTHER_PROCESSORS, ids=itemgetter(2))
@pytest.mark.parametrize("seed", range(4, 8))
def test_random_layers_on_other_processors(seed: int, flags: tuple[str, ...]):
    """Each set of instructions has other shifts of vectors."""
    agree(Drawn(seed, by_channel=0.9).module(40), flags=flags)


def sums(requant: RequantAttr, bias: list[int]) -> ModuleOp:
    """Return channels with the sum `bias` for all inputs."""
    net = Network([((3, 5), INT8)])
    weights = net.constant(np.zeros((len(bias), 5), np.int8), INT8)
    op = graph.MatmulOp(
        net.inputs[0], weights, net.constant(np.array(bias, np.int32), INT32),
        result_element=INT8, requant=requant,
    )  # fmt: skip
    return net.module(net.add(op, FPGA))


@pytest.mark.parametrize("mode", [Rounding.HALF_UP, Rounding.HALF_EVEN])
def test_ties_and_their_neighbours(mode: Rounding):
    """Check values around odd and even ties of all shifts, and around saturation on the left."""
    drawn = [
        (shift, sign * number + near)
        for shift in SHIFTS
        for half in (1 << shift - 1 if shift > 0 else 1,)
        for number in (0, half, 3 * half, 5 * half, 1 << 15, 1 << 16, 1 << 23)
        for sign in (-1, 1)
        for near in (-1, 0, 1)
    ]
    np.random.default_rng(0).shuffle(drawn)
    multipliers = [1 << 22 - int(shift) for shift, _ in drawn]
    requant = RequantAttr(22, multiplier=multipliers, rounding=mode, zero_point=-3)
    agree(sums(requant, [int(number) for _, number in drawn]))


@pytest.mark.parametrize("mode", [Rounding.HALF_UP, Rounding.HALF_EVEN])
def test_the_longest_shifts_of_the_greatest_sums(mode: Rounding):
    """A shift of 31 bits or more leaves at most a half."""
    extremes = (-(1 << 31) + 1, -(1 << 30) - 1, -(1 << 30), -1, 1, 1 << 30, (1 << 31) - 1)
    drawn = [(shift, number) for shift in (20, 30, 31, 32, 33, 46, 47) for number in extremes]
    multipliers = [1 << 47 - shift for shift, _ in drawn]
    agree(sums(RequantAttr(47, multiplier=multipliers, rounding=mode), [n for _, n in drawn]))


@pytest.mark.parametrize("device", [CPU, FPGA])
@pytest.mark.parametrize("mode", [Rounding.HALF_UP, Rounding.HALF_EVEN])
def test_residuals_of_channels(mode: Rounding, device: str):
    """Each channel shifts its residual by as much more as its sum: all results have equal parts."""
    rng = np.random.default_rng(1)
    apart = rng.integers(0, 17, 40)
    apart[[0, 15, 16, 39]] = 0, 16, 16, 0
    points = (UniformType(0.5, -128), UniformType(0.25, 127))
    net = Network([((9, 5), points[0]), ((9, 40), points[1])])
    weights = net.constant(random_array((40, 5), INT8, 1), INT8)
    op = graph.MatmulOp(
        net.inputs[0], weights, residual=net.inputs[1], result_element=INT8,
        residual_shift=(apart + 3).tolist(),
        requant=RequantAttr(
            20, multiplier=[1 << 16 - int(n) for n in apart], rounding=mode, zero_point=5
        ),
    )  # fmt: skip
    agree(net.module(net.add(op, device)))


def test_a_network_with_rows_runs_on_the_fpga(tmp_path: Path):
    """All convolutions and products have per-channel shifts, without a common shift."""
    data = str(DIGITS / "digits_calibration.npz")
    options = (
        "--calibrate",
        data,
        "--recipe",
        "fit-inputs,choose-zero-points,choose-row-exponents",
    )
    model = str(DIGITS / "digits.onnx")
    assert main([model, "--target", "nnet", *options, "-o", str(tmp_path / "n")]) == 0
    layers = json.loads((tmp_path / "n" / "report.json").read_text(encoding="utf-8"))["layers"]
    devices = [layer["device"] for layer in layers if layer["op"] in ("conv2d", "matmul")]
    assert devices and set(devices) == {"fpga"}
    assert "choose-row-exponents" in quantize_pass(BuildOptions(NnetTarget())).optional
