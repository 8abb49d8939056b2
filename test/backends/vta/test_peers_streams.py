"""Run streams of other tools: bytes that this test packs, files at addresses, and registers."""

from pathlib import Path

import numpy as np
import pytest

from ceras_ir.backends.vta.execution.stream_file import parse_pointers, rebased
from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.isa import Load, MemoryType, Store
from ceras_ir.driver.run import main
from ceras_ir.support.diagnostics import InputError

LOAD, STORE, GEMM, FINISH = 0, 1, 2, 3
UOP, WGT, INP, ACC, OUT = range(5)
INPUTS, WEIGHTS, UOPS, RESULTS = 0x10001000, 0x10003000, 0x10004000, 0x10005000
BASE = 0x10000000


def packed(*fields: tuple[int, int]) -> bytes:
    """Return values at bit positions as a word of 128 bits."""
    return sum(value << bit for value, bit in fields).to_bytes(16, "little")


def transfer(
    opcode: int, memory: int, address: int, unit: int, count: int, tokens: int = 0
) -> bytes:
    """
    Return a transfer of a row of `count` elements from or to SRAM 0. `tokens` are the four flags.
    """
    places = ((opcode, 0), (tokens, 3), (memory, 7), (address // unit, 26))
    return packed(*places, (1, 64), (count, 80), (count, 96))


def product(rows: int, *, address: int = BASE) -> bytes:
    """
    Multiply `rows` vectors by a tile onto accumulators that are not reset. Results are the low
    bytes.
    """
    pop_prev, push_prev, push_next = 1, 4, 8
    shift = address - BASE
    loop = ((1, 35), (rows, 49), (1, 63), (1, 75), (1, 97))
    return b"".join(
        (
            transfer(LOAD, UOP, UOPS + shift, 4, 1),
            transfer(LOAD, INP, INPUTS + shift, 16, rows),
            transfer(LOAD, WGT, WEIGHTS + shift, 256, 1, push_next),
            # The rows are the inner loop of a single micro-op. Bit 63 belongs to no field, and is
            # ignored.
            packed((GEMM, 0), (pop_prev | push_next, 3), (1, 21), *loop),
            transfer(STORE, OUT, RESULTS + shift, 16, rows, pop_prev | push_prev),
            packed((LOAD, 0), (2, 3), (UOP, 7)),  # Waits for the store.
            packed((FINISH, 0)),
        )
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a stream and its operands to separate files. The weights are twice the unit matrix."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stream.bin").write_bytes(product(4))
    (tmp_path / "input.bin").write_bytes(bytes(range(64)))
    (tmp_path / "weight.bin").write_bytes((2 * np.eye(16, dtype=np.uint8)).tobytes())
    (tmp_path / "uop.bin").write_bytes(bytes(4))
    return tmp_path


PIECES = f"input.bin@{INPUTS:#x},weight.bin@{WEIGHTS:#x},uop.bin@{UOPS:#x}"
RUN = ["--vta-stream", "stream.bin", "--outputs", "after.bin", "--board", "de10nano"]


def test_what_a_stream_relies_on(folder: Path, capsys: pytest.CaptureFixture[str]):
    """The stream relies on zeros in the accumulators, which only a simulator guarantees."""
    assert main([*RUN, "--inputs", PIECES, "--dram-base", hex(BASE), "--relies"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("relies on")
    assert lines[at:] == [
        "relies on",
        "  on-chip memory that was never written: 1 instruction, first 3: reads acc element 0",
        "  behavior that differs between implementations of VTA: 1 instruction, first 3: "
        "bit 63 must be zero",
        "tried with",
        "  on-chip memory full of noise: 64 other bytes",
        "  modules in 12 other orders: no other results",
    ]
    assert main([*RUN, "--inputs", PIECES, "--dram-base", hex(BASE), "--check"]) == 1
    assert "instruction 3: portable: bit 63 must be zero" in capsys.readouterr().err


def test_zeroed_memory_is_what_the_peer_expects(folder: Path):
    """The image extends to the last stored byte of the stream."""
    options = ["--inputs", PIECES, "--dram-base", hex(BASE), "--zeroed"]
    assert main([*RUN, *options]) == 0
    after = np.fromfile(folder / "after.bin", np.uint8)
    assert len(after) == RESULTS - BASE + 64
    np.testing.assert_array_equal(after[RESULTS - BASE :], 2 * np.arange(64))


def test_registers_have_addresses(folder: Path):
    """
    Check the form of many drivers: a buffer for each memory, and streams with addresses from 0.
    """
    shift = dict.fromkeys(("inp", "wgt", "uop", "out"), BASE)
    (folder / "stream.bin").write_bytes(product(4, address=0))
    pointers = ",".join(f"{name}={address:#x}" for name, address in shift.items())
    options = ["--inputs", PIECES, "--dram-base", hex(BASE), "--pointers", pointers, "--zeroed"]
    assert main([*RUN, *options]) == 0
    after = np.fromfile(folder / "after.bin", np.uint8)
    np.testing.assert_array_equal(after[RESULTS - BASE :], 2 * np.arange(64))


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--inputs", PIECES], 1, "set the start with --dram-base"),
        (
            ["--inputs", "input.bin@0x1000", "--dram-base", "0x2000"],
            1,
            "before the start of the",
        ),
        (["--inputs", "input.bin@0x0,uop.bin@0x20"], 1, "two files at 0x20"),
        (["--inputs", "input.bin@here"], 1, "expected an address below 2^32, got 'here'"),
        (["--inputs", PIECES, "--dram-base", "0x10000008"], 1, "is not a multiple of 16 bytes"),
        (["--inputs", PIECES, "--pointers", "cache=1"], 1, "no base register 'cache', known are"),
        (["--inputs", PIECES, "--relies", "--check"], 2, "use only one option"),
    ],
)
def test_refused(
    options: list[str],
    status: int,
    message: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
):
    assert main([*RUN, *options]) == status
    assert message in capsys.readouterr().err
    assert not (folder / "after.bin").exists()


def test_options_go_with_streams(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["model.onnx", "--dram-base", "0x1000"]) == 2
    assert "--dram-base has no effect without --vta-stream" in capsys.readouterr().err
    assert main(["--vta-stream", "stream.bin", "--relies"]) == 2
    assert "--relies of a raw stream needs --inputs" in capsys.readouterr().err


def test_chisel_ors_its_registers():
    """Chisel combines base and offset by OR, which is a sum only if they share no bits."""
    board, load = VtaBoard(), Load(MemoryType.INP, 0, 0x300, 1, 1, 1)
    aligned = {MemoryType.INP: 0x10000}
    assert rebased([load], board, 0x10000, aligned, ored=True) == [load]
    (other,) = rebased([load], board, 0, {MemoryType.INP: 0x11000}, ored=True)
    assert other == Load(MemoryType.INP, 0, 0x1300, 1, 1, 1)
    (sum_,) = rebased([load], board, 0, {MemoryType.INP: 0x11000})
    assert sum_ == Load(MemoryType.INP, 0, 0x1400, 1, 1, 1)
    store = Store(0, 1, 1, 1, 1)
    with pytest.raises(InputError, match=r"instruction 0 \(store\): address 0x10 is not a mult"):
        rebased([store], board, 0x1000)
    assert parse_pointers("out=16,uop=0x20") == {MemoryType.OUT: 16, MemoryType.UOP: 32}
