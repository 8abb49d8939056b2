"""Test operands of a concatenation that are written directly into slices of the result."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from graph_networks import Network
from slow_cases import first_fast
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, shape_of
from ceras_ir.dialects.mem import BLOCK, BlockAttr, block_of
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters.network import Array, run, run_in_arena
from ceras_ir.network.function import main_function
from ceras_ir.targets.capabilities import GapRule, takes_runs_only
from ceras_ir.targets.registry import target_names
from ceras_ir.transforms.memory import copies
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
from ceras_ir.transforms.memory.check_blocks import check_plan
from ceras_ir.transforms.memory.copies import copied_bytes, fewest_copied_bytes
from ceras_ir.transforms.memory.liveness import Liveness, analyse, steps
from ceras_ir.transforms.memory.slices import Slicing, accept_gaps, slices

INT8 = UniformType(0.5)
HALVE = RequantAttr(1)


def placed(module: ModuleOp, alignment: int = 64, target: Literal[None, "nnet"] = None):
    plan = AllocateBlocksPass(io=True, alignment=alignment, in_slices=True, target=target)
    plan.apply(Context(), module)
    assert not check_plan(main_function(module))
    return module


def samples(module: ModuleOp) -> dict[str, Array]:
    source = np.random.default_rng(1)
    arguments = main_function(module).body.block.args
    return {
        f"input{i}": source.integers(-128, 128, shape_of(argument)).astype(np.int8)
        for i, argument in enumerate(arguments)
    }


def agree(module: ModuleOp, folder: Path | None = None) -> None:
    """Check that the graph, the arena and, with a folder, the engine give equal results."""
    inputs = samples(module)
    expected = run(module, inputs)
    results = [run_in_arena(module, inputs)]
    if folder is not None and "nnet" in target_names():
        from backends.nnet.networks import written

        from ceras_ir.backends.nnet.engine import NnetModel

        path = folder / "model.nnet"
        path.write_bytes(written(module))
        results.append(NnetModel(path).run(inputs))
    for result in results:
        for name, array in expected.items():
            np.testing.assert_array_equal(result[name], array, name)


def written_to_be_read(module: ModuleOp) -> None:
    """Check that the loader, which checks the plan, accepts the file of a network."""
    if "nnet" in target_names():
        from backends.nnet.networks import written

        from ceras_ir.backends.nnet.reader import read

        assert read(written(module)).layers


def halved(net: Network, x: SSAValue) -> SSAValue:
    return net.add(graph.RequantizeOp(x, INT8, HALVE))


def test_producers_write_into_slices(tmp_path: Path):
    """The slices are overwritten in place, used later, reshaped, nested, and unaligned."""
    net = Network([((3, 7), INT8), ((2, 7), INT8)])
    x, y = net.inputs
    a = halved(net, halved(net, x))
    b = net.add(graph.BinaryOp(Binary.ADD, y, y, result_element=INT8, requant=HALVE))
    flat = net.add(graph.ReshapeOp(b, (14,)))
    c = net.add(graph.ConcatOp([a, b], 0))
    d = net.add(graph.ConcatOp([halved(net, y), c], 0))
    e = net.add(graph.BinaryOp(Binary.SUB, c, c, result_element=INT8, requant=HALVE))
    outputs = [halved(net, flat), halved(net, a), d, e]
    module = placed(net.module(*outputs))
    main = main_function(module)
    assert copied_bytes(main) == fewest_copied_bytes(main) == 0
    agree(module, tmp_path)


@pytest.mark.needs("nnet")
@pytest.mark.parametrize("target", [None, "nnet"])
@pytest.mark.parametrize("kind", ["argument", "twice", "two concatenations", "columns", "parts"])
def test_what_has_to_be_copied(tmp_path: Path, kind: str, target: Literal[None, "nnet"]):
    net = Network([((4, 6), INT8)])
    (x,) = net.inputs
    a, b = (
        halved(net, x),
        net.add(graph.BinaryOp(Binary.ADD, x, x, result_element=INT8, requant=HALVE)),
    )
    axis = int(kind in ("columns", "parts"))
    operands = {"argument": [a, x], "twice": [a, b, a]}.get(kind, [a, b])
    outputs = [net.add(graph.ConcatOp(operands, axis))]
    if kind == "two concatenations":
        outputs.append(net.add(graph.ConcatOp([b, a], axis)))
    if kind == "parts":
        # In sequence, and the first with the result in a third.
        outputs.append(halved(net, net.add(graph.ConcatOp([*operands, halved(net, a)], axis))))
        outputs[0] = halved(net, outputs[0])
    module = placed(net.module(*outputs), target=target)
    main = main_function(module)
    any = {"argument": 24, "twice": 48, "two concatenations": 48, "columns": 48, "parts": 120}
    copied = any | ({"columns": 0, "parts": 0} if target == "nnet" else {})
    fewest = any | {"twice": 24, "columns": 0, "parts": 0}
    assert (copied_bytes(main), fewest_copied_bytes(main)) == (copied[kind], fewest[kind])
    agree(module, tmp_path)


def early_and_late() -> ModuleOp:
    """Build rows; half are computed before, and half after, the peak of memory."""
    net = Network([((1, 64), INT8), ((64, 64), INT8)])
    x, y = net.inputs
    early = [halved(net, x) for _ in range(16)]
    most = net.add(
        graph.BinaryOp(Binary.ADD, y, halved(net, y), result_element=INT8, requant=HALVE)
    )
    row = net.add(graph.SliceOp(halved(net, most), [0, 0], [1, 64]))
    late = [halved(net, row) for _ in range(16)]
    return net.module(net.add(graph.ConcatOp([*early, *late], 0)))


def test_tries_end_in_large_networks(monkeypatch: pytest.MonkeyPatch):
    """Operands that are not tried are copied."""
    tried: list[FuncOp] = []
    analyse = copies.analyse

    def counted(main: FuncOp, **options: Any) -> Liveness:
        tried.append(main)
        return analyse(main, **options)

    monkeypatch.setattr(copies, "analyse", counted)
    for tries, copied in ((1000, 16 * 64), (33, 16 * 64), (3, 32 * 64), (0, 32 * 64)):
        tried.clear()
        module = early_and_late()
        main = main_function(module)
        monkeypatch.setattr(copies, "MAX_OPERATIONS_TRIED", tries * len(steps(main)))
        placed(module)
        agree(module)
        assert len(tried) <= tries + 3
        assert copied_bytes(main) == copied


def test_the_check_sees_a_slice_that_is_not_in_its_place():
    net = Network([((3, 7), INT8)])
    a = halved(net, net.inputs[0])
    module = placed(net.module(net.add(graph.ConcatOp([a, halved(net, a)], 0))))
    assert isinstance(a.owner, Operation)
    block = block_of(a)
    assert block is not None
    a.owner.attributes[BLOCK] = BlockAttr(9, block.offset.data + 1, block.size.data)
    findings = check_plan(main_function(module))
    assert any("result overlaps an operand" in finding.message for finding in findings)


@pytest.mark.needs("nnet")
def test_the_check_sees_a_value_between_the_rows_of_another():
    """
    Check that a shift of a column slice is detected.

    A shift by a byte overlaps adjacent columns; a shift by a row too far overlaps the next value.
    """
    for moved in (1, -1, 7):
        net = Network([((3, 7), INT8)])
        (x,) = net.inputs
        b = net.add(graph.BinaryOp(Binary.ADD, x, x, result_element=INT8, requant=HALVE))
        c = net.add(graph.BinaryOp(Binary.SUB, x, x, result_element=INT8, requant=HALVE))
        d = net.add(graph.ConcatOp([c, b], 1))
        module = placed(net.module(halved(net, b), halved(net, d)), target="nnet")
        assert isinstance(b.owner, Operation)
        block = block_of(b)
        assert block is not None and block.pitch.data == 14
        size, pitch = block.size.data, block.pitch.data
        b.owner.attributes[BLOCK] = BlockAttr(9, block.offset.data + moved, size, pitch=pitch)
        findings = check_plan(main_function(module))
        assert any(
            text in finding.message
            for finding in findings
            for text in ("overwritten before it was read", "result overlaps an operand")
        ), moved


Growth = Callable[[random.Random, SSAValue, list[SSAValue]], graph.GraphOperation]
"""A function that adds an operation on a value, which is drawn from the values so far."""


def grown(
    source: random.Random, shapes: list[tuple[int, ...]], most: int, growth: Growth
) -> ModuleOp:
    """Build a network with a maximum number of operations, and at most two results."""
    net = Network([(shape, INT8) for shape in shapes])
    values = list(net.inputs)
    for _ in range(source.randint(4, most)):
        values.append(net.add(growth(source, source.choice(values), values)))
    made = values[len(shapes) :]
    return net.module(*source.sample(made, min(2, len(made))))


def elementwise(source: random.Random, x: SSAValue) -> graph.GraphOperation:
    if source.randrange(2):
        return graph.RequantizeOp(x, INT8, HALVE)
    return graph.BinaryOp(Binary.ADD, x, x, result_element=INT8, requant=HALVE)


def runs(source: random.Random, x: SSAValue, values: list[SSAValue]) -> graph.GraphOperation:
    """Join values as runs of bytes, and reshape them."""
    match source.randrange(5):
        case 0 | 1:
            same = [v for v in values if len(shape_of(v)) == 2]
            return graph.ConcatOp([source.choice(same) for _ in range(source.randint(1, 3))], 0)
        case 2:
            rows = shape_of(x)[0]
            return graph.ReshapeOp(x, (rows * 6,) if len(shape_of(x)) == 2 else (rows // 6, 6))
        case _:
            return elementwise(source, x)


def columns(source: random.Random, x: SSAValue, values: list[SSAValue]) -> graph.GraphOperation:
    """Join values of four rows along either dimension, slice them, and reshape them."""
    shape = shape_of(x)
    match source.randrange(7):
        case 0 | 1 | 2:
            alike = [v for v in values if shape_of(v)[:-1] == shape[:-1]]
            parts = source.sample(alike, source.randint(1, min(3, len(alike))))
            return graph.ConcatOp(parts, len(shape) - 1)
        case 3:
            flat = (2, 2, shape[-1]) if len(shape) == 2 else (4, shape[-1])
            return graph.ReshapeOp(x, flat if shape[0] * shape[-2] != 1 else shape)
        case 4:
            ends = [shape[-1], source.randint(1, shape[-1])]
            sizes = (*shape[:-1], ends[source.randrange(2)])
            return graph.SliceOp(x, (0,) * len(shape), sizes, (1,) * len(shape))
        case _:
            return elementwise(source, x)


@pytest.mark.slow
@pytest.mark.parametrize("first", first_fast(1, range(0, 120, 30)))
def test_random_networks_in_their_arena(first: int):
    for seed in range(first, first + 30):
        module = grown(random.Random(seed), [(2, 6), (1, 6)], 14, runs)
        module = placed(module, alignment=16)
        agree(module)
        written_to_be_read(module)


@pytest.mark.needs("nnet")
@pytest.mark.slow
@pytest.mark.parametrize("first", first_fast(1, range(0, 120, 30)))
def test_random_columns_in_their_arena(first: int):
    saved = 0
    for seed in range(first, first + 30):
        module = grown(random.Random(seed), [(4, 3), (2, 2, 2)], 16, columns)
        module = placed(module, alignment=16, target="nnet")
        main = main_function(module)
        blocks = [block_of(op.results[0]) for op in main.body.block.ops if op.results]
        saved += any(block is not None and block.pitch.data for block in blocks)
        assert fewest_copied_bytes(main) <= copied_bytes(main)
        agree(module)
        written_to_be_read(module)
    assert saved > 10


@pytest.mark.parametrize("rule", [accept_gaps, takes_runs_only])
@pytest.mark.parametrize(
    ("growth", "shapes"), [(runs, [(2, 6), (1, 6)]), (columns, [(4, 3), (2, 2, 2)])]
)
def test_peaks_of_parts_are_those_of_the_network(
    growth: Growth, shapes: list[tuple[int, ...]], rule: GapRule
):
    """The analysis of parts with a changed choice agrees with that of the entire network."""
    several = 0
    for seed in range(20):
        source = random.Random(seed)
        main = main_function(grown(source, shapes, 30, growth))
        io = bool(seed % 2)
        plain = analyse(main, include_io=io)
        peaks = copies.Peaks(main, plain, rule, 16, io)
        several += len(peaks.parts) > 1
        pairs = [
            (op, part.operand)
            for op in plain.steps.order
            if isinstance(op, graph.ConcatOp)
            for part in slices(op)
        ]
        choices = [frozenset(p for p in pairs if source.random() < 0.5) for _ in range(8)]
        for wanted in (None, frozenset[copies.OperandPair](), *choices):
            whole = analyse(main, include_io=io, slicing=Slicing(rule, wanted))
            assert peaks.of(wanted) == whole.lower_bound(16)
    assert several
