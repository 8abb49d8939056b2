"""Boards are loaded from the JSON format of VTA, or refused with a reason."""

import json
from pathlib import Path

import pytest

from ceras_ir.backends.vta.machine.board import (
    DriverInterface,
    VtaBoard,
    board_names,
    load_board,
    parse_board,
    spelled,
)
from ceras_ir.backends.vta.machine.isa import MemoryType
from ceras_ir.support.diagnostics import InputError, UnsupportedError

PYNQ = load_board("pynq")
SIM = VtaBoard().config()


def test_every_board_of_ours():
    assert board_names() == ["de10nano", "pynq", "tsim", "ultra96", "zcu102", "zcu104"]
    for name in board_names():
        board = load_board(name)
        assert board.target == name
        assert (board.inp, board.wgt, board.acc, board.uops) == (2048, 1024, 2048, 8192)
        assert board.portable_uops == 2048
        assert board.elements(MemoryType.OUT) == 2048
    assert (PYNQ.bus_bytes, PYNQ.clock_mhz) == (8, 100)
    assert PYNQ.driver == DriverInterface("hls", 0x43C00000)
    de10nano = DriverInterface("chisel", 0xFF220000, address_offset=0x80000000)
    assert load_board("de10nano").driver == de10nano
    hls = ("pynq", "ultra96", "zcu102", "zcu104")
    assert [name for name in board_names() if load_board(name).is_hls] == list(hls)
    assert all((flow := load_board(name).driver) and flow.flow == "hls" for name in hls)
    assert (load_board("zcu102").bus_bytes, load_board("zcu102").clock_mhz) == (16, 333)


def test_config_round_trip(tmp_path: Path):
    driver = DriverInterface("chisel", 0x1000, 0x2000)
    board = VtaBoard("mine", log_uops=11, log_inp=12, log_wgt=9, log_acc=10, driver=driver)
    (path := tmp_path / "mine.json").write_text(json.dumps(board.config()))
    assert load_board(path) == board


@pytest.mark.parametrize(
    ("batch", "block", "elements", "sizes"),
    [
        (0, 5, (1024, 256, 1024), (32, 1024, 128)),
        (1, 4, (1024, 1024, 1024), (32, 256, 128)),
        (2, 3, (1024, 4096, 1024), (32, 64, 128)),
    ],
)
def test_intrinsics(
    batch: int, block: int, elements: tuple[int, ...], sizes: tuple[int, ...], tmp_path: Path
):
    """Buffers of the published size in bytes hold fewer elements if the elements are larger."""
    config = PYNQ.config() | {"LOG_BATCH": batch, "LOG_BLOCK": block}
    board = parse_board(json.dumps(config))
    assert (board.batch, board.block) == (1 << batch, 1 << block)
    assert (board.inp, board.wgt, board.acc) == elements
    memories = (MemoryType.INP, MemoryType.WGT, MemoryType.ACC)
    assert tuple(board.element_bytes(m) for m in memories) == sizes
    assert board.element_bytes(MemoryType.OUT) == board.element_bytes(MemoryType.ACC_8BIT) == 32
    assert board.alignment == max(sizes)
    assert board.config() == config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"LOG_BATCH": -1}, "unsupported LOG_BATCH -1: a vector has 1 to 256 rows"),
        ({"LOG_BLOCK": 0}, "unsupported LOG_BLOCK 0: VTA's multipliers have 2 to 256 lanes"),
        ({"LOG_BLOCK": 3}, "4096 inp, 4096 wgt, 4096 acc[)]: GEMM index factors exceed 64 bits"),
        ({"LOG_WGT_BUFF_SIZE": 8}, "unsupported LOG_WGT_BUFF_SIZE: fewer than two elements"),
        ({"LOG_BLOCK": 9}, "unsupported LOG_BLOCK 9: .*[(]LOG_BLOCK is an integer in .1, 8"),
        (
            {"LOG_BATCH": 2_000_000_000},
            "unsupported LOG_BATCH 2000000000: .*is an integer in .0, 8",
        ),
        ({"LOG_BLOCK_OUT": 5}, "unsupported LOG_BLOCK_OUT 5: must be LOG_BLOCK, 4"),
        ({"LOG_OUT_WIDTH": 5}, "unsupported LOG_OUT_WIDTH 5: must be LOG_INP_WIDTH, 3"),
        ({"LOG_WGT_WIDTH": 2}, "unsupported LOG_WGT_WIDTH 2: weights must be int8: tiles of"),
        ({"LOG_ACC_BUFF_SIZE": 18}, "micro-op indices exceed 32 bits|GEMM index factors"),
        ({"LOG_INP_BUFF_SIZE": 14}, "disagree on micro-ops with fewer inputs than sums"),
        ({"LOG_UOP_BUFF_SIZE": 16}, "micro-op range exceeds 27 bits"),
        ({"LOG_INP_BUFF_SIZE": 4}, "fewer than two elements"),
    ],
)
def test_unsupported(change: dict[str, int], message: str):
    with pytest.raises(UnsupportedError, match=message):
        parse_board(json.dumps(PYNQ.config() | change))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "is a JSON object"),
        ("{}", "the board has no field 'LOG_INP_WIDTH': add LOG_INP_WIDTH = 3"),
        (json.dumps(PYNQ.config() | {"LOG_INP_WIDTH": "3"}), "LOG_INP_WIDTH must be 3, got '3'"),
        ("[" * 100_000, "not JSON"),
        ("9" * 5000, "not JSON"),
        (json.dumps(PYNQ.config() | {"FPGA_FREQ": 1 << 31}), "1, 2.31 - 1., got 2147483648"),
        (json.dumps(PYNQ.config() | {"FPGA_LOG_AXI_BUS_WIDTH": 500}), "in .5, 10., got 500"),
        (json.dumps(PYNQ.config() | {"FPGA_LOG_AXI_BUS_WIDTH": 4}), "in .5, 10., got 4"),
        (json.dumps(PYNQ.config() | {"TARGET": ["pynq"]}), "TARGET must be text, got"),
        ('{"LOG_BLOCK": 4, "LOG_BLOCK": 5}', "LOG_BLOCK is given twice"),
        (
            json.dumps(PYNQ.config() | {"DRIVER_FLOW": "vhdl"}),
            "must be one of hls, chisel, got 'vhdl'",
        ),
        (
            json.dumps(PYNQ.config() | {"DRIVER_REGISTERS": "here"}),
            "a multiple of 4096, got 'here'",
        ),
        (json.dumps(PYNQ.config() | {"DRIVER_REGISTERS": 0}), "a multiple of 4096, got 0"),
        (
            json.dumps(PYNQ.config() | {"DRIVER_REGISTERS": "0x43C00010"}),
            "a multiple of 4096, got '0x43C000",
        ),
        (json.dumps(PYNQ.config() | {"DRIVER_REGISTERS": True}), "a multiple of 4096, got True"),
        (json.dumps(PYNQ.config() | {"TIMNG": "chisel"}), "no TIMNG; did you mean 'TIMING'"),
        (json.dumps(PYNQ.config() | {"DRAM_READ_LATENCI": 9}), "mean 'DRAM_READ_LATENCY'"),
        (json.dumps({"DRIVER_FLOW": "hls", **SIM}), "DRIVER_FLOW without DRIVER_REGISTERS"),
        (json.dumps({"DRIVER_REGISTERS": 4096, **SIM}), "DRIVER_REGISTERS without DRIVER_FLOW"),
    ],
)
def test_malformed(text: str, message: str):
    with pytest.raises(InputError, match=message):
        parse_board(text)


def test_toml(tmp_path: Path):
    """Unknown fields are refused, and addresses can be integers."""
    assert load_board("pynq").driver == DriverInterface("hls", 0x43C00000)
    fields = [f"{key} = {json.dumps(value)}" for key, value in PYNQ.config().items()]
    (path := tmp_path / "mine.toml").write_text("\n".join(fields) + '\ntitle = "Mine"\n')
    assert load_board(path) == PYNQ
    path.write_text("\n".join(fields) + "\nLOG_OUT_BUFF_SIZE = 15\n")
    with pytest.raises(InputError, match="a board has no field 'LOG_OUT_BUFF_SIZE'; did you mean"):
        load_board(path)


@pytest.mark.parametrize("name", board_names())
@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_spelled_boards(name: str, suffix: str, tmp_path: Path):
    (path := tmp_path / f"mine{suffix}").write_text(spelled(load_board(name), path.name))
    assert load_board(path) == load_board(name)
    assert load_board(path).title == (load_board(name).title if suffix == ".toml" else "")


def test_keys_of_vta_that_say_nothing_here():
    """The files of TVM have more keys, and some keys are similar."""
    others = {"LOG_OUT_BUFF_SIZE": 15, "FPGA_DEVICE": "x", "FPGA_PERIOD": 10, "FPGA_FAMILY": "y"}
    assert parse_board(json.dumps(PYNQ.config() | others)) == PYNQ


def test_unknown_names():
    with pytest.raises(InputError, match=r"has no board 'pink'.* .boards: de10nano, pynq"):
        load_board("pink")
    with pytest.raises(InputError, match="cannot read the board"):
        load_board("absent.json")
