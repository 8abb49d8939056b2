"""Compare the cheapest placement with all placements of a small network, on random boards."""

import random
import re
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import pytest
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.nnet.board import FpgaBoard, load_board, parse_board
from ceras_ir.backends.nnet.placement import cost_of, transfer_us
from ceras_ir.network.function import main_function, result_values
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.support.diagnostics import InputError
from ceras_ir.targets import Cost
from ceras_ir.transforms.memory.liveness import byte_size, steps
from ceras_ir.transforms.placement import cheapest

ELEMENT = "!quant.uniform<i8:f32, 0.5>"
REQUANT = "#graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>"
NETWORK = f"""
func.func @main(%x: tensor<64x{ELEMENT}>, %y: tensor<64x{ELEMENT}>)
    -> (tensor<64x{ELEMENT}>, tensor<8x8x{ELEMENT}>) {{
  %a = ADD %x, %y
  %b = ADD %a, %a
  %c = ADD %a, %x
  %r = graph.reshape %c : (tensor<64x{ELEMENT}>) -> tensor<8x8x{ELEMENT}>
  %d = ADD %b, %c
  %e = ADD %d, %b
  func.return %e, %r : tensor<64x{ELEMENT}>, tensor<8x8x{ELEMENT}>
}}
"""
TYPES = f"(tensor<64x{ELEMENT}>, tensor<64x{ELEMENT}>) -> tensor<64x{ELEMENT}>"


def no_operands(op: Operation) -> Sequence[int]:
    return ()


def second_operand(op: Operation) -> Sequence[int]:
    """Return the operands of additions that the CPU reads on any device."""
    return (1,) if len(op.operands) == 2 else ()


def modelled(
    main_steps: list[Operation],
    fpga: set[Operation],
    board: FpgaBoard,
    by_host: Callable[[Operation], Sequence[int]],
) -> float:
    """Return the microseconds of a placement, counted value by value."""
    total = 0.0
    block = main_steps[0].parent
    assert block is not None
    for op in main_steps:
        cost = cost_of(op, board, admitted=True)
        assert cost.accelerator is not None
        total += cost.accelerator if op in fpga else cost.cpu
    returned = block.last_op
    assert returned is not None
    for value in [*block.args, *(r for op in main_steps for r in op.results)]:
        made_there = value.owner in fpga
        read_there = [
            use.operation in fpga and use.index not in by_host(use.operation) for use in value.uses
        ]
        if any(there != made_there for there in read_there):
            total += board.bus_latency_us + byte_size(value) / board.bus_bytes_per_us
    return total


@pytest.mark.parametrize("by_host", [no_operands, second_operand])
@pytest.mark.parametrize("seed", range(20))
def test_no_placement_is_cheaper(
    tmp_path: Path, seed: int, by_host: Callable[[Operation], Sequence[int]]
):
    lines = [
        f"{line} {{requant = {REQUANT}}} : {TYPES}" if "ADD" in line else line
        for line in NETWORK.splitlines()
    ]
    path = tmp_path / "network.mlir"
    path.write_text("\n".join(lines).replace("ADD", "graph.binary add"))
    main = main_function(read_network(str(path)))
    order = steps(main)
    assert len(result_values(main)) == 2
    source = random.Random(seed)
    board = parse_board(
        f"""
        title = "random"
        clock_mhz = 1
        cpu = {{macs_per_us = 1, bytes_per_us = {source.randint(5, 100)}}}
        bus = {{bytes_per_us = {source.randint(5, 200)}, latency_us = {source.randint(0, 3)}}}
        [circuits.binary]
        bytes_per_cycle = {source.randint(5, 400)}
        launch_us = {source.randint(0, 4)}
        """,
        "random",
    )
    costs: dict[Operation, Cost] = {op: cost_of(op, board, admitted=True) for op in order}

    def transfer(value: SSAValue) -> float:
        return transfer_us(byte_size(value), board)

    total, fpga = cheapest(main, costs, {}, transfer, by_host)
    assert total == pytest.approx(modelled(order, fpga, board, by_host), abs=0.01)
    every = (
        modelled(
            order, {op for op, there in zip(order, choice, strict=True) if there}, board, by_host
        )
        for choice in product((False, True), repeat=len(order))
    )
    assert total == pytest.approx(min(every), abs=0.01)
    pinned = {order[0]: True, order[-1]: False}
    dearer, chosen = cheapest(main, costs, pinned, transfer, by_host)
    assert dearer >= total - 0.01 and order[0] in chosen and order[-1] not in chosen


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("clock_mhz = 200", "clock_mhz = 0"), "clock_mhz must be a number > 0, got 0"),
        (("clock_mhz = 200", "clock_mhz = true"), "clock_mhz must be a number > 0, got True"),
        (("[bus]", "[buss]"), "a board has no field 'buss'; did you mean 'bus'"),
        (("lanes = 16", "lanes = 0"), "lanes must be a power of two in [1, 65536], got 0"),
        (("lanes = 16", "lanes = 12"), "lanes must be a power of two in [1, 65536], got 12"),
        (("lanes = 16", "tables = -1"), "tables must be 0 or a power of two in [1, 65536], got -1"),
        (("lanes = 16", "tables = 1"), "tables must be 0 or >= 2, got 1"),
        (
            ("launch_us = 0.27", "launch_us = 0.27\nlanes = 8"),
            "no field 'lanes', because it follows",
        ),
        (("launch_us", "launch"), "has no field 'launch'"),
        (("circuits.conv2d", "circuits.convd"), "has no field 'convd'; did you mean 'conv2d'"),
        (("[cpu]", "[cpu"), "not TOML"),
    ],
)
def test_a_wrong_board_is_refused(change: tuple[str, str], message: str):
    from importlib.resources import files

    text = (files("ceras_ir.backends.nnet") / "boards" / "ceras_zcu104.toml").read_text("utf-8")
    assert change[0] in text
    with pytest.raises(InputError, match=re.escape(message)):
        parse_board(text.replace(*change, 1), "board.toml")


def test_the_board_of_this_package_loads():
    assert load_board("ceras_zcu104").circuits["conv2d"].lanes == 16
