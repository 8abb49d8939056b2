"""
Test the shell of a circuit in Verilator: transfers, errors, resets, registers and interrupt.

The memory waits at random, and the bench checks the rules of the bus.
"""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from backends.dataflow_driver.shells import (
    BUS_BYTES,
    INPUT_AT,
    OUTPUT_AT,
    OUTPUT_STEP,
    Launch,
    Session,
    Shell,
    bit,
    finish,
    make_shell,
    prepare,
    shell_modules,
)

from ceras_ir.backends.dataflow.emit import to_port
from ceras_ir.backends.dataflow.shell import configuration, constant, registers
from ceras_ir.support.native import COMMAND, has_verilator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_verilator(), reason="verilator is not installed"),
]
SLVERR = 2


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return make_shell(tmp_path_factory.mktemp("shell"))


@pytest.fixture
def session(shell: Shell, tmp_path: Path) -> Session:
    return Session(shell, tmp_path)


@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize(
    ("stall", "shift"), [(0, 0), (30, 8), (70, 4096 - 24)], ids=["free", "stalls", "slow"]
)
def test_frames_are_exact(session: Session, count: int, stall: int, shift: int):
    """Frames are in one launch, back to back, at addresses inside of bursts."""
    session.set(stall=stall, seed=count + stall, probes=1)
    launches: list[Launch] = []
    for seed in (1, 2):
        launch = prepare(session, session.shell.frames(count, seed), shift=shift)
        launches.append(finish(session, launch))
        session.read("FRAMES_SENT", count)
        session.read("FRAMES_WRITTEN", count)
    session.run()
    for launch in launches:
        launch.compare(session.shell)


def test_the_circuit_is_the_limit(session: Session):
    """The shell adds at most 50 cycles to a launch, at a latency of the memory of 20 cycles."""
    count, timing = 20, session.shell.timing
    session.set(stall=0, latency=20)
    finish(session, prepare(session, session.shell.frames(count, 1)))
    line = session.read("CYCLES")
    cycles = int(session.run()[line].split()[1])
    assert cycles <= timing.latency + (count - 1) * timing.per_frame + 50


@pytest.mark.parametrize("stall", [0, 40])
def test_a_short_packet_is_an_error_and_the_next_launch_is_exact(session: Session, stall: int):
    """The last packet of three has 1 to 17 beats; the first two frames are exact."""
    session.set(stall=stall)
    shell = session.shell
    launches: list[tuple[Launch, int]] = []
    size = shell.frame_bytes[0]
    for beats in (1, 2, 16, 17):
        frames = shell.frames(3, beats)
        launch = prepare(session, frames)
        session.lines = [
            line.replace(f"write {constant('INPUT_BYTES')} {3 * size}",
                         f"write {constant('INPUT_BYTES')} {2 * size + beats * BUS_BYTES}")
            for line in session.lines
        ]  # fmt: skip
        launches.append((finish(session, launch, bit("SHORT_PACKET")), 2))
        launches.append((finish(session, prepare(session, shell.frames(2, 99))), 2))
    session.run()
    for launch, complete in launches:
        launch.compare(shell, complete)


@pytest.mark.parametrize("kind", ["read", "write"])
@pytest.mark.parametrize("error", [2, 3], ids=["SLVERR", "DECERR"])
def test_an_error_of_the_memory_ends_the_launch(session: Session, kind: str, error: int):
    """Each of the first bursts of a launch fails in turn. The next launch is exact."""
    session.set(stall=20, error=error)
    launches: list[Launch] = []
    status = bit(f"{kind.upper()}_FAILED")
    for number in range(1, 12):
        session.set(**{f"bad_{kind}": number})
        finish(session, prepare(session, session.shell.frames(5, number)), status)
        session.read("CONTROL", bit("DONE") | bit("IDLE"))
        session.set(**{f"bad_{kind}": 0})
        launches.append(finish(session, prepare(session, session.shell.frames(2, number))))
    session.run()
    for launch in launches:
        launch.compare(session.shell)


@pytest.mark.parametrize("by_bus", [False, True], ids=["by software", "of the bus"])
def test_a_reset_in_flight(session: Session, by_bus: bool):
    """A reset at any time of a launch; the next launch is exact."""
    session.set(stall=20)
    launches: list[Launch] = []
    for cycles in [*range(0, 60, 3), *range(60, 700, 35)]:
        prepare(session, session.shell.frames(3, cycles))
        session.ticks(cycles)
        if by_bus:
            session.lines.append("bus_reset")
            session.read("STATUS", 0)
            session.read("INPUT_BYTES", 0)
        else:
            session.write("CONTROL", bit("RESET"))
            session.wait()
            session.read("STATUS", bit("ABORTED"))
            # A reset without a launch clears the status.
            session.write("CONTROL", bit("RESET"))
            session.wait()
            session.read("STATUS", 0)
            session.read("CONTROL", bit("IDLE"))
        launches.append(finish(session, prepare(session, session.shell.frames(3, cycles + 1))))
    session.run()
    for launch in launches:
        launch.compare(session.shell)


def test_rejected_registers(session: Session):
    """A launch with wrong registers makes no transfer."""
    frames = session.shell.frames(1, 1)
    first_output = constant("OUTPUTS")
    wrong: list[tuple[str | int, int]] = [
        ("INPUT_BYTES", 0),
        ("INPUT_BYTES", session.shell.frame_bytes[0] + 4),
        ("INPUT_ADDRESS", 4),
        ("INPUT_ADDRESS_HIGH", 0x100),
        (first_output + constant("OUTPUT_WORDS"), 12),
        (first_output + 1, 0x100),
    ]
    session.set(bad_read=1, bad_write=1)
    for word, value in wrong:
        launch = prepare(session, frames)
        start = session.lines.pop()
        session.lines.append(f"write {constant(word) if isinstance(word, str) else word} {value}")
        session.wanted.append("0")
        session.lines.append(start)
        finish(session, launch, bit("REJECTED"))
    session.set(bad_read=0, bad_write=0)
    launch = finish(session, prepare(session, frames))
    session.run()
    launch.compare(session.shell)


def test_registers(session: Session):
    """Sizes are those of the circuit; accesses without effect are answered with SLVERR."""
    shell = session.shell
    project = {path.name: path.read_text() for path in (shell.folder / "hdl").iterdir()}
    session.read("IDENTITY", constant("VERSION"))
    session.read("CONFIGURATION", configuration(project))
    session.read("BUILT_BUS_BYTES", BUS_BYTES)
    session.read("BUILT_OUTPUTS", len(shell.features) - 1)
    session.read("BUILT_INPUT_BYTES", shell.frame_bytes[0])
    for port, size in enumerate(shell.frame_bytes[1:]):
        session.read(constant("OUTPUTS") + constant("OUTPUT_WORDS") * port + 2, size)
    read_only = ["STATUS", "FRAMES_SENT", "FRAMES_WRITTEN", "CYCLES", "IDENTITY", "CONFIGURATION"]
    for name in [*read_only, "BUILT_BUS_BYTES", "BUILT_OUTPUTS", "BUILT_INPUT_BYTES"]:
        session.write(name, 1, SLVERR)
    end = constant("OUTPUTS") + constant("OUTPUT_WORDS") * (len(shell.features) - 1)
    for word in (15, constant("OUTPUTS") + 3, end, 1023):
        session.read(word, 0, SLVERR)
        session.write(word, 0, SLVERR)
    prepare(session, shell.frames(30, 1))
    for name in ("INPUT_ADDRESS", "INPUT_ADDRESS_HIGH", "INPUT_BYTES", "OUTPUTS"):
        session.write(name, 8, SLVERR)
    session.write("CONTROL", bit("START"), SLVERR)
    session.read("CONTROL", bit("BUSY"))
    session.wait()
    session.read("STATUS", 0)
    session.run()


def test_the_interrupt(session: Session):
    """The interrupt is set at the end, until it is acknowledged, if it is enabled."""
    frames = session.shell.frames(1, 1)
    finish(session, prepare(session, frames))
    session.irq(0)
    session.read("PENDING", 1)
    session.write("ENABLE", 1)
    session.irq(1)
    session.write("PENDING", 1)
    session.irq(0)
    finish(session, prepare(session, frames))
    session.irq(1)
    session.run()


def test_streams_may_be_adjacent(session: Session):
    """An output may follow the input directly: no byte outside of the streams is written."""
    shell = session.shell
    frames = shell.frames(3, 5)
    data = to_port(frames.astype(np.int8), BUS_BYTES)
    starts = [INPUT_AT + 8 + len(data)]
    starts.append(starts[0] + 3 * shell.frame_bytes[1])
    session.load(INPUT_AT, bytes(0x40000))
    session.load(INPUT_AT + 8, data)
    session.begin(INPUT_AT + 8, len(data), starts)
    session.wait()
    session.read("STATUS", 0)
    end = starts[1] + 3 * shell.frame_bytes[2]
    path = session.save(0, end + 64)
    session.run()
    found = path.read_bytes()
    results = [to_port(result.astype(np.int8), BUS_BYTES) for result in shell.results(frames)]
    assert found == bytes(8) + data + b"".join(results) + bytes(64)
    assert end < OUTPUT_AT + OUTPUT_STEP


def test_the_package_of_registers_is_consistent():
    words, bits = registers()
    assert len({c.value for c in words if c.name not in ("VERSION", "PAGE_BYTES")}) >= 16
    assert bit("IDLE") == 4 and constant("CONTROL") == 0  # shell_bench.cpp repeats these
    assert bits[-1].name == "STATUS_BITS" and bits[-1].value == 1 + bits[-2].value


def test_verilator_has_no_warning(shell: Shell, tmp_path: Path):
    """
    All warnings of Verilator, also of style, except for open pins of a queue, low bits of addresses
    and responses that are not needed, and constants of the package for the driver.
    """
    sources = [p for p in shell_modules(shell.folder) if p.parent.name == "board"]
    sources = [p for p in sources if p.suffix == ".sv"]
    sources.append(shell.folder / "hdl" / "stream_fifo.sv")
    waived = ["-Wno-PINCONNECTEMPTY", "-Wno-UNUSEDSIGNAL", "-Wno-UNUSEDPARAM"]
    command = [COMMAND, "--lint-only", "-Wall", *waived, "--top-module", "circuit_shell"]
    command += map(str, sources)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stderr
