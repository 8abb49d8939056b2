"""Per-channel shifts are a vector of amounts next to the bias, exact at each level."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from backends.vta_lowering.layers import (
    BOARD,
    Layer,
    apply,
    by_channel,
    check_all_levels,
    place,
    random_array,
    random_layer,
    with_channel_shifts,
)
from backends.vta_lowering.test_swish import expected as swish_of
from backends.vta_lowering.test_swish import swished
from slow_cases import first_fast

from ceras_ir.backends.vta.execution.image import VtaImage
from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.machine.isa import Alu, AluOpcode
from ceras_ir.backends.vta.machine.time import simulate_time
from ceras_ir.backends.vta.passes.convert_graph_to_tile import ConvertGraphToTilePass
from ceras_ir.backends.vta.passes.tiling import Schedule, TilePass
from ceras_ir.backends.vta.rules.admission import graph_contraction, why_not
from ceras_ir.backends.vta.rules.placement import cycles_of
from ceras_ir.backends.vta.schedule.contraction import contraction_of
from ceras_ir.backends.vta.target import VtaTarget
from ceras_ir.dialects import graph, tile
from ceras_ir.dialects.quant import RequantAttr, Rounding
from ceras_ir.driver.verify.tool import main as verify
from ceras_ir.pipeline.stages import BuildOptions, quantize_pass
from ceras_ir.transforms.pass_kinds import flatten
from ceras_ir.transforms.quantization.scales import ChooseZeroPointsPass

DIGITS = Path(__file__).parents[3] / "examples/digits"
SHIFTS = (0, 1, 2, 7, 8, 9, 15)


def check(layer: Layer, tile: TilePass | None = None) -> VtaImage:
    """
    Check that VTA is exact at all levels, and shifts by a vector that all implementations accept.
    """
    image = check_all_levels(layer.module(), layer.inputs, layer.expected(), tile)
    (launch,) = image.launches
    instructions = launch.program.instructions
    shifts = [i for i in instructions if isinstance(i, Alu) and i.opcode is AluOpcode.SHR]
    assert any(not i.use_imm for i in shifts)
    amounts = graph.known_array(launch.ops[0].inputs[-1])
    assert amounts.dtype == np.int32 and 0 <= amounts.min() < amounts.max() <= 15
    return image


def linear(layer: Layer) -> graph.LinearOperation:
    return next(op for op in layer.module().walk() if isinstance(op, graph.LinearOperation))


def drawn(seed: int) -> Layer:
    """Return a random layer with per-channel shifts that VTA accepts."""
    rng = np.random.default_rng(seed)
    while True:
        layer = with_channel_shifts(random_layer(int(rng.integers(1 << 30))), rng)
        assert layer.requant.is_per_channel
        if layer.requant.channel_shifts and why_not(linear(layer)) is None:
            return layer


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_layers(seed: int):
    check(drawn(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 30))
def test_more_random_layers(seed: int):
    check(drawn(seed))


def sums(requant: RequantAttr, bias: list[int]) -> Layer:
    """Return a layer in which the sums of the channels are `bias` for all inputs."""
    rng, numbers = np.random.default_rng(0), np.array(bias, np.int32)
    weights = np.zeros((len(bias), 5), np.int8)
    return Layer(random_array(rng, (3, 5)), weights, numbers, requant=requant)


@pytest.mark.parametrize("further", first_fast(1, [0, 9, -3]))
@pytest.mark.parametrize("mode", [Rounding.HALF_UP, Rounding.FLOOR])
def test_ties_and_their_neighbours(mode: Rounding, further: int):
    """Check the neighbors of ties for all shifts, and amounts that need a common shift first."""
    cases = [
        (shift + further, sign * number + near)
        for shift in SHIFTS
        for half in (1 << max(shift + further, 1) - 1,)
        for number in (0, half, 3 * half, 5 * half, 1 << 15, 1 << 23)
        for sign in (-1, 1)
        for near in (-1, 0, 1)
    ]
    np.random.default_rng(0).shuffle(cases)
    shifts, numbers = zip(*cases, strict=True)
    check(sums(by_channel(RequantAttr(0, rounding=mode), shifts), list(numbers)))


@pytest.mark.parametrize(("shifts", "common"), [((3, 15), 0), ((3, 17), 2), ((-4, 11), -4)])
def test_what_all_channels_have_in_common(shifts: tuple[int, int], common: int):
    """
    An immediate is used only for the common part that the vector cannot hold. A common shift to the
    left is executed before channels are shifted to the right.
    """
    layer = sums(by_channel(RequantAttr(0), shifts), [1 << 10, -5])
    (launch,) = check(layer).launches
    found = [
        i.imm
        for i in launch.program.instructions
        if isinstance(i, Alu) and i.opcode is AluOpcode.SHR and i.use_imm
    ]
    assert found == [common] * (common != 0)


@pytest.mark.parametrize(
    ("requant", "reason"),
    [
        (by_channel(RequantAttr(0), (2, 18)), "differ by at most 15 bits in a layer, got 2 to 18"),
        (by_channel(RequantAttr(0), (20, 32)), "by at most 31, got 32"),
        (RequantAttr(9, multiplier=[4, 6]), "by shifts only, got a multiplier of 6"),
        (
            by_channel(RequantAttr(0, zero_point=3), (-1, 4)),
            "zero point 3 is not a multiple of 2",
        ),
        (by_channel(RequantAttr(0, rounding=Rounding.HALF_EVEN), (0, 4)), "got half_even"),
        (by_channel(RequantAttr(0), (-14, 1)), "which the sum may exceed"),
    ],
)
def test_refused(requant: RequantAttr, reason: str):
    """
    In the last case, a channel with a shift to the right is first shifted left with the other
    channel.
    """
    message = why_not(linear(sums(requant, [5, 1 << 18])))
    assert message is not None and reason in message


def test_shifts_that_are_alike_are_one():
    rng = np.random.default_rng(1)
    bias = rng.integers(-900, 900, 20).astype(np.int32)
    one = Layer(random_array(rng, (9, 40)), random_array(rng, (20, 40)), bias)
    streams = [
        check_all_levels(layer.module(), layer.inputs, one.expected())
        for layer in (one, replace(one, requant=RequantAttr(11, multiplier=[8] * 20)))
    ]
    first, second = ([x.program.instructions for x in image.launches] for image in streams)
    assert first == second and streams[0].dram().tobytes() == streams[1].dram().tobytes()


def convolution(outputs: int = 40) -> Layer:
    """Return a 3x3 convolution on 20 channels with padding; the input has a zero point."""
    rng = np.random.default_rng(outputs)
    return Layer(
        random_array(rng, (1, 12, 10, 20)),
        random_array(rng, (outputs, 3, 3, 20)),
        rng.integers(-900, 900, outputs).astype(np.int32),
        padding=(1, 1, 1, 1),
        requant=by_channel(RequantAttr(0), rng.integers(4, 13, outputs).tolist()),
        points=(-7, 0),
    )


def cycles(layer: Layer, tile: TilePass) -> int:
    image = check_all_levels(layer.module(), layer.inputs, layer.expected(), tile)
    (launch,) = image.launches
    return simulate_time(launch.program.instructions, load_board(tile.board)).cycles


@pytest.mark.slow
def test_one_more_cycle_for_each_vector():
    """
    A vector of shifts adds a cycle per vector and a load of the amounts, as the cost model
    predicts.
    """
    layer = replace(convolution(), points=(0, 0))
    alike = replace(layer, requant=RequantAttr(8))
    whole = TilePass("serial", 120, 32, 48, "de10nano")
    vectors, load = 12 * 10 * 3, 50 + 5 + 3 * 64 // 8
    assert 0 <= cycles(layer, whole) - cycles(alike, whole) - vectors <= load
    for each in (layer, alike):
        modelled = cycles_of(linear(each), load_board("de10nano"))
        assert modelled == pytest.approx(cycles(each, TilePass(board="de10nano")), rel=0.02)


def test_shapes_of_both_levels_agree():
    layer, board = convolution(), load_board(BOARD)
    module = layer.module()
    expected = graph_contraction(linear(layer), board)
    place(module, board)
    apply(module, ConvertGraphToTilePass(BOARD))
    (op,) = (op for op in module.walk() if isinstance(op, tile.Conv2dOp))
    assert contraction_of(op) == expected and expected.by_channel


@pytest.mark.slow
def test_beside_borders_and_tap_by_tap():
    check(convolution())
    check(convolution(), TilePass(board=BOARD, convolution="kn2row"))


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["serial", "alg1", "alg2", "alg3"])
def test_schedules(schedule: Schedule):
    rng = np.random.default_rng(0)
    requant = by_channel(RequantAttr(0), rng.integers(4, 13, 40).tolist())
    layer = Layer(random_array(rng, (40, 50)), random_array(rng, (40, 50)), requant=requant)
    check(layer, TilePass(schedule, board=BOARD))


def test_before_a_swish():
    rng = np.random.default_rng(2)
    x, weights = random_array(rng, (30, 40)), random_array(rng, (20, 40))
    shifts, table = rng.integers(2, 9, 20), rng.integers(0, 3000, (20, 5))
    last = RequantAttr(6, low=-20)
    wide = by_channel(RequantAttr(0, low=-9000, high=9000), shifts.tolist())
    module, swish = swished(30, weights, table, wide, last)
    assert why_not(swish) is None
    total = x.astype(np.int64) @ weights.T.astype(np.int64) + (1 << shifts >> 1)
    q = np.clip(total >> shifts, -9000, 9000)
    check_all_levels(module, {"input0": x}, swish_of(q, table, last))


def test_rows_have_scales_and_ties_stay_half_up():
    quantize = quantize_pass(BuildOptions(VtaTarget()))
    (points,) = (p for p in flatten(quantize) if isinstance(p, ChooseZeroPointsPass))
    assert "choose-row-exponents" in quantize.optional and points.half_up


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [["--recipe", "choose-row-exponents,round-weights"], []])
def test_a_network_with_rows_is_exact(recipe: list[str]):
    data = ("--inputs", str(DIGITS / "digits_test.npz"), "--samples", "4")
    calibrate = ("--calibrate", str(DIGITS / "digits_calibration.npz"))
    model = str(DIGITS / "digits.onnx")
    assert verify([model, *data, *calibrate, *recipe, "--targets", "vta"]) == 0
