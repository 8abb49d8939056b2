"""
Build pipelines of target dataflow by hand, and compute their results in NumPy.

The tests of the circuits and their fuzzers share this file. The reference uses no code of the
compiler: sums are over padded arrays, as the documentation of a block specifies.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ceras_ir.backends.dataflow.blocks import (
    Addend,
    Addition,
    Block,
    BlockWindows,
    Column,
    Concatenation,
    Convolution,
    Feature,
    FunctionTable,
    MaxPool,
    Pipeline,
    Repetition,
    Selection,
    Source,
    SumScale,
)
from ceras_ir.backends.dataflow.circuit import Circuit
from ceras_ir.backends.dataflow.cycles import PipelineTiming, model
from ceras_ir.backends.dataflow.emit import CircuitSimulator, library_files
from ceras_ir.backends.dataflow.plan import (
    BlockLanes,
    PipelinePlan,
    PlannedConvolution,
    batches,
    good_slots,
)
from ceras_ir.backends.dataflow.rings import with_rings
from ceras_ir.backends.dataflow.verilog import write_project
from ceras_ir.support.native import has_verilator

Integers = NDArray[np.int64]
INT8 = Column()

needs_verilator = pytest.mark.skipif(not has_verilator(), reason="verilator is missing")


def convolution(
    operand: Block,
    filters: int,
    kernel: tuple[int, int],
    rng: np.random.Generator,
    *,
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilations: tuple[int, int] = (1, 1),
    groups: int = 1,
    zeros: float = 0.0,
    pad: int = 0,
    residual: Block | None = None,
    spread: int = 0,
    bits: int = 8,
    bipolar: bool = False,
    result: Column = INT8,
    compares: bool = False,
) -> Convolution:
    """
    Build a convolution with random weights of `bits` bits and results over the range of `result`.

    A share `zeros` of the weights is 0. The extra shifts of channels are at most `spread` bits. The
    weights are -1 and 1 if `bipolar`. The sums are compared with limits per channel if `compares`.
    """
    f = operand.feature
    shape = (filters, *kernel, f.channels // groups)
    weights = rng.integers(-1 << bits - 1, 1 << bits - 1, shape)
    weights[rng.random(shape) < zeros] = 0
    if bipolar:
        weights = rng.choice([-1, 1], shape)
    top, left, bottom, right = padding
    rows = (f.rows + top + bottom - dilations[0] * (kernel[0] - 1) - 1) // strides[0] + 1
    columns = (f.columns + left + right - dilations[1] * (kernel[1] - 1) - 1) // strides[1] + 1
    deviation = 74 * 74 * np.sqrt(max(1, np.count_nonzero(weights) / filters)) / (1 << 8 - bits)
    deviation /= 1 << 8 - f.bits
    shift = max(1, round(np.log2(max(1, deviation / 60 * (1 << 8 - result.bits)))))
    low = int(rng.choice([-128, 0, -5]))
    scale, limits, bias = SumScale(shift, low, 127), None, rng.integers(-3000, 3000, filters)
    if result.bits < 8:
        scale = SumScale(shift, -result.reach, result.reach - 1)
        bias = rng.integers(-2, 3, filters) << shift
    if compares:
        count = (1 << result.bits) - 2
        limits = np.sort(rng.integers(0, max(2, round(2 * deviation)), (filters, count)))
        bias = rng.integers(-round(2 * deviation) - 1, 1, filters)
    further = rng.integers(0, spread + 1, filters) if spread and not compares else None
    if further is not None:
        shift = max(1, shift - spread // 2)
        further -= further.min()
    return Convolution(
        "convolution",
        Feature(rows, filters, columns, result),
        (operand,) if residual is None else (operand, residual),
        BlockWindows(kernel, strides, (top, left), dilations),
        weights,
        bias,
        groups,
        pad,
        scale,
        further,
        shift - 1 if residual is not None else 0,
        limits=limits,
        declared_bits=bits,
    )


def max_pool(
    operand: Block, kernel: int, stride: int, padding: tuple[int, int, int, int] = (0, 0, 0, 0)
) -> MaxPool:
    """Compute the maxima of square windows."""
    f, (top, left, bottom, right) = operand.feature, padding
    rows = (f.rows + top + bottom - kernel) // stride + 1
    columns = (f.columns + left + right - kernel) // stride + 1
    windows = BlockWindows((kernel, kernel), (stride, stride), (top, left))
    return MaxPool("maxima", Feature(rows, f.channels, columns, f.column), (operand,), windows)


def average(operand: Block, multiplier: int, shift: int) -> Convolution:
    """Compute the average of an entire feature map, an element per channel."""
    f = operand.feature
    weights = np.full((f.channels, f.rows, f.columns, 1), multiplier, np.int64)
    return Convolution(
        "average",
        Feature(1, f.channels, 1),
        (operand,),
        BlockWindows((f.rows, f.columns)),
        weights,
        np.full(f.channels, 7, np.int64),
        f.channels,
        0,
        SumScale(shift, -128, 127),
        uniform=True,
    )


def table(operand: Block, rng: np.random.Generator, count: int = 1) -> FunctionTable:
    """Draw a random function, or `count` functions that channels select at random."""
    numbers = tuple(rng.integers(0, count, operand.feature.channels).tolist()) if count > 1 else ()
    tables = rng.integers(-128, 128, (count, 256))
    return FunctionTable("function", operand.feature, (operand,), tables, numbers)


def concatenation(first: Block, second: Block, *, second_is_lower: bool) -> Concatenation:
    """Join the channels of two values; the first is streamed."""
    f = first.feature
    feature = replace(f, channels=f.channels + second.feature.channels)
    return Concatenation("joined", feature, (first, second), second_is_lower)


def repetition(operand: Block, rows: int, columns: int) -> Repetition:
    """Repeat rows and columns."""
    f = operand.feature
    feature = replace(f, rows=f.rows * rows, columns=f.columns * columns)
    return Repetition("repeated", feature, (operand,), (rows, columns))


def selection(operand: Block, start: Feature, size: Feature) -> Selection:
    """Select ranges of rows, channels and columns."""
    size = replace(size, column=operand.feature.column)
    return Selection("selected", size, (operand,), start)


def addition(first: Block, second: Block, terms: tuple[Addend, Addend]) -> Addition:
    """Add two values, and rescale the sum."""
    reach = first.feature.column.reach
    scale = SumScale(terms[0].shift, -reach, min(reach - 1, 100))
    return Addition("sum", first.feature, (first, second), terms, 5, scale)


def expected(block: Block, operands: Sequence[Integers]) -> Integers:
    """Compute the result of a block, [frames, rows, columns, channels]."""
    x, f = operands[0], block.feature
    if isinstance(block, FunctionTable):
        if not block.numbers:
            return block.tables[0][x & 255]
        return np.stack(
            [block.tables[n][x[..., c] & 255] for c, n in enumerate(block.numbers)], axis=-1
        )
    if isinstance(block, Concatenation):
        order = operands[::-1] if block.second_is_lower else operands
        return np.concatenate(order, axis=-1)
    if isinstance(block, Repetition):
        return x.repeat(block.factors[0], axis=1).repeat(block.factors[1], axis=2)
    if isinstance(block, Selection):
        a = block.start
        x = x[:, a.rows : a.rows + f.rows, a.columns : a.columns + f.columns]
        return x[..., a.channels : a.channels + f.channels]
    if isinstance(block, Addition):
        total = sum(
            term.sign * (value << term.shift)
            for term, value in zip(block.terms, operands, strict=True)
        )
        return _scaled(np.asarray(total + block.constant, np.int64), block.scale)
    assert isinstance(block, Convolution | MaxPool)
    w = block.windows
    top, left = w.before
    spans = [(w.kernel[n] - 1) * w.dilations[n] + 1 for n in (0, 1)]
    height = max((f.rows - 1) * w.strides[0] + spans[0], top + x.shape[1])
    width = max((f.columns - 1) * w.strides[1] + spans[1], left + x.shape[2])
    around = block.pad if isinstance(block, Convolution) else -128
    padded = np.full((len(x), height, width, x.shape[3]), around, np.int64)
    padded[:, top : top + x.shape[1], left : left + x.shape[2]] = x
    shape = (len(x), f.rows, f.columns, f.channels)
    total = np.full(shape, -128, np.int64)
    if isinstance(block, Convolution):
        total = np.broadcast_to(block.bias, shape).copy()
    for j in range(w.kernel[0]):
        for i in range(w.kernel[1]):
            at = padded[:, j * w.dilations[0] :: w.strides[0], i * w.dilations[1] :: w.strides[1]]
            at = at[:, : f.rows, : f.columns]
            if isinstance(block, MaxPool):
                total = np.maximum(total, at)
                continue
            taps, count = block.weights[:, j, i], len(block.weights) // block.groups
            depth = taps.shape[1]
            for g in range(block.groups):
                part = slice(g * count, (g + 1) * count)
                total[..., part] += at[..., g * depth : (g + 1) * depth] @ taps[part].T
    if isinstance(block, MaxPool):
        return total
    further = np.zeros(f.channels, np.int64) if block.further is None else block.further
    if len(operands) > 1:
        total += operands[1] << block.residual_shift + further
    if block.limits is not None:
        reached = (total[..., None] >= block.limits).sum(axis=-1)
        return block.scale.low + (total >= 0) + reached
    return _scaled(total, block.scale, further)


def _scaled(total: Integers, scale: SumScale, further: Integers | int = 0) -> Integers:
    amount = scale.shift + np.asarray(further)
    shifted = np.where(amount >= 0, total >> amount.clip(0), total << (-amount).clip(0))
    if scale.ties:
        is_tie = (amount > 0) & (shifted << amount.clip(0) == total)
        shifted = shifted - (is_tie & (shifted % 2 == scale.ties % 2))
    return np.clip(shifted, scale.low, scale.high)


def plan_of(
    pipeline: Pipeline, lanes: dict[Block, BlockLanes], *, paired: bool = True
) -> PipelinePlan:
    """Build a plan with these lanes and the number of slots that they need."""
    planned: dict[Block, PlannedConvolution] = {}
    for block in pipeline.blocks:
        if isinstance(block, Convolution):
            given = lanes.get(block, BlockLanes())
            one = PlannedConvolution(block, given, paired)
            slots = good_slots(one.buffer, batches(block.inputs[0], planned))
            planned[block] = PlannedConvolution(block, replace(given, slots=slots), paired)
    return with_rings(pipeline, planned)


def write_circuit(circuit: Circuit, folder: Path, port_bytes: int) -> None:
    """Write the hardware project into `folder`."""
    project = write_project(circuit.pipeline, circuit.plan, port_bytes)
    for name, text in library_files().items():
        (folder / name).write_text(text)
    for name, file in project.memories.items():
        (folder / name).write_text(file.text())
    (folder / "pipeline.sv").write_text(project.top)


def run_circuit(
    blocks: Sequence[Block],
    lanes: dict[Block, BlockLanes],
    folder: Path,
    *,
    port_bytes: int = 8,
    frames: int = 5,
    stalls: Sequence[tuple[int, int]] = ((1, 50), (2, 15), (3, 80)),
    paired: bool = True,
    seed: int = 1,
    results: Sequence[Block] = (),
) -> PipelineTiming:
    """
    Compare a circuit with NumPy, without stalls and with random stalls (seed, percent), and its
    cycles with the model. Return the cycles. `results` are the blocks at the output ports; by
    default, the last.
    """
    source = _source(blocks[0])
    pipeline = Pipeline(source, list(blocks), results)
    plan = plan_of(pipeline, lanes, paired=paired)
    write_circuit(Circuit(pipeline, plan), folder, port_bytes)
    f = source.feature
    reach, shape = f.column.reach, (frames, f.rows, f.columns, f.channels)
    x = np.random.default_rng(seed).integers(-reach, reach, shape)
    values: dict[Block, Integers] = {source: x}
    for block in blocks:
        values[block] = expected(block, [values[operand] for operand in block.inputs])
    values = {block: _bytes(value, block.feature.column) for block, value in values.items()}
    features = [block.feature for block in pipeline.results]
    simulator = CircuitSimulator(folder, f, features, port_bytes)
    x, draws = values[source].astype(np.int8), np.random.default_rng([seed, 2])
    free = simulator.run(x)
    reset = int(draws.integers(1, free.end_cycles[-1] + 1))
    again = simulator.run(x, reset=reset)
    assert again.end_cycles == free.end_cycles
    stalled = [simulator.run(x, seed=n, stall=percent) for n, percent in stalls]
    stalled.append(simulator.run(x, seed=seed, stall=stalls[0][1], reset=reset))
    for run in (free, again, *stalled):
        for block, found in zip(pipeline.results, run.results, strict=True):
            assert np.array_equal(found, values[block]), block.name
    # Packets that are no frames, between frames.
    beats = f.words * -(-f.columns // port_bytes)
    packets = np.where(draws.random(frames) < 0.4, draws.integers(1, 3 * beats, frames), beats)
    cut = simulator.run(x, seed=seed, stall=stalls[0][1], packets=packets.tolist())
    assert ("short" in cut.errors, "long" in cut.errors) == (
        bool((packets < beats).any()),
        bool((packets > beats).any()),
    )
    for block, found in zip(pipeline.results, cut.results, strict=True):
        right = (found == values[block]).all(axis=(1, 2, 3))
        assert right[packets >= beats].all(), (block.name, packets)
    modelled = model(pipeline, plan, port_bytes, frames)
    measured = PipelineTiming(free.end_cycles[0], free.cycles_per_frame)
    assert modelled == measured, f"modelled {modelled}, measured {measured}"
    return measured


def _bytes(value: Integers, column: Column) -> Integers:
    """Return the bytes of columns of a stream, as int8."""
    value = 2 * value + 1 if column.is_bipolar else value + column.offset
    return value.astype(np.int8).astype(np.int64)


def _source(block: Block) -> Source:
    while not isinstance(block, Source):
        block = block.inputs[0]
    return block
