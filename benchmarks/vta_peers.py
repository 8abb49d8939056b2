"""
Run streams of other tools, and compare them with ours for the same products.

The figures are cycles by the timed simulator, results, and the assumptions of the streams. The
tools are not part of this project, so the command needs their sources.

    python benchmarks/vta_peers.py --onera CHECKOUT [--macs N]      # ONERA's standalone-vta
    python benchmarks/vta_peers.py --tvm-vta CHECKOUT               # the hardware test of VTA
    python benchmarks/vta_peers.py --onera CHECKOUT --examples      # the examples of ONERA

CHECKOUT has the files of onera/standalone-vta, or of apache/tvm-vta.
"""

import argparse
import csv
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from vta_gemm import cycles
from vta_layers import S3_GEMMS

from ceras_ir.backends.vta.execution.image import Dram
from ceras_ir.backends.vta.execution.stream_file import (
    MAX_COUNTED_FINDINGS,
    StreamFile,
    parse_pointers,
    read_image,
    read_pieces,
    reliance,
    trial,
)
from ceras_ir.backends.vta.machine.board import VtaBoard, load_board
from ceras_ir.backends.vta.machine.isa import Instruction, Load, MemoryType, Store

HERE = Path(__file__).parent
CONFIGURATION = "de10nano"
FILES = {
    "INP": "input",
    "WGT": "weight",
    "ACC": "accumulator",
    "ACC_BIS": "add_accumulator",
    "UOP": "uop",
}
MOST_SECONDS = 300
"""The time limit of the other compiler for a product."""
MOST_TRIED = 10_000
"""The maximum instructions of a stream that is run in all orders. Longer streams need minutes."""
TEST_BASE = 0x10000000
"""The address of the memory in vta_peers_device.cc."""


@dataclass(frozen=True)
class Peer:
    """A stream of another tool, and the image on which it runs."""

    stream: StreamFile
    dram: Dram
    board: VtaBoard

    def cycles(self) -> int:
        return self.stream.cost(self.board).run.cycles

    def results(self, *, zeroed: bool) -> Dram:
        image = self.dram.copy()
        self.stream.run(image, self.board, zeroed=zeroed)
        return image

    def relies(self) -> list[str]:
        """Return the assumptions of the stream, and whether results depend on them."""
        found = reliance(self.stream.check(self.dram, self.board, MAX_COUNTED_FINDINGS))
        if len(self.stream.instructions) > MOST_TRIED:
            return found
        return [*found, *trial(self.stream.instructions, self.dram, self.board)]


class Onera:
    """The compiler of ONERA in a writable copy of the sources."""

    def __init__(self, checkout: Path, folder: Path):
        self.root = folder / "onera"
        for part in ("src/compiler", "config", "examples"):
            shutil.copytree(checkout / part, self.root / part)
        (self.root / ".git").mkdir()  # It finds its root by this folder.
        self.output = self.root / "compiler_output"

    def compile(self, operations: Path, configuration: Path) -> Peer | None:
        """Return the stream for a file of operations, or None if the compiler fails."""
        shutil.rmtree(self.output, ignore_errors=True)
        tool = self.root / "src/compiler/vta_compiler/main_vta_compiler.py"
        command = [sys.executable, str(tool), str(operations), str(configuration), "False"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=MOST_SECONDS
            )
        except subprocess.TimeoutExpired:
            print(f"{operations.name}: not compiled in {MOST_SECONDS} s", file=sys.stderr)
            return None
        if done.returncode:
            print(f"{operations.name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            return None
        name = json.loads(operations.read_text()).get("NAME", "")
        board = load_board(configuration)
        with open(self.output / f"memory_addresses{name}.csv", newline="") as file:
            self.places = {row[0]: int(row[1], 0) for row in csv.reader(file)}
        files = {kind: self.output / f"{file}{name}.bin" for kind, file in FILES.items()}
        pieces = [
            f"{files[kind]}@{address:#x}"
            for kind, address in self.places.items()
            if kind in files and files[kind].stat().st_size
        ]
        stream = StreamFile.read(self.output / f"instructions{name}.bin", board)
        dram = stream.grown(read_pieces(",".join(pieces), 0), board)
        self.expected = np.fromfile(self.output / f"expected_out{name}.bin", np.uint8)
        return Peer(stream, dram, board)

    def is_exact(self, peer: Peer, *, zeroed: bool) -> bool:
        """Return whether results equal those of the compiler, which clips values that VTA wraps."""
        start = self.places["OUT"]
        found = peer.results(zeroed=zeroed)[start : start + len(self.expected)]
        return np.array_equal(found, self.expected)


def onera_products(checkout: Path, most_macs: int) -> None:
    """
    Print a table of S3's products. ONERA's have a single ReLU; ours have a shift and both clamps.
    """
    print("thousands of cycles; ours by `schedule=auto`")
    header = "M K N|instructions|cycles|ours|ratio|exact|what it relies on"
    print(f"| {' | '.join(header.split('|'))} |\n|{'---|' * 7}")
    with tempfile.TemporaryDirectory(prefix="vta-peers-") as folder:
        onera = Onera(checkout, Path(folder))
        for size in S3_GEMMS:
            m, k, n = size
            if m * k * n > most_macs:
                continue
            operations = Path(folder) / "operations.json"
            matrices = {"INPUT": [m, k], "WEIGHT": [k, n]}
            content = {"NAME": "", "MATRICES": [matrices], "GEMM": ["INPUT", "WEIGHT"]}
            operations.write_text(json.dumps(content | {"ALU": [["RELU"]], "BASE_ADDRESS": "0"}))
            configuration = Path(folder) / "board.json"
            configuration.write_text(json.dumps(load_board(CONFIGURATION).config()))
            if (peer := onera.compile(operations, configuration)) is None:
                continue
            theirs, ours = peer.cycles(), cycles(size, "auto", exact=False)
            cells = [
                f"{m} {k} {n}",
                f"{len(peer.stream.instructions):,}",
                f"{theirs / 1000:.1f}",
                f"{ours / 1000:.1f}",
                f"{theirs / ours:.2f}",
                "yes" if onera.is_exact(peer, zeroed=True) else "no",
                "; ".join(line.strip() for line in peer.relies()),
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


def onera_examples(checkout: Path) -> None:
    """Run all examples of ONERA."""
    with tempfile.TemporaryDirectory(prefix="vta-peers-") as folder:
        onera = Onera(checkout, Path(folder))
        examples = onera.root / "examples" / "matrix_operations"
        files = sorted(f for f in examples.rglob("*.json") if not f.name.startswith("config_"))
        totals = Counter[str]()
        for file in files:
            peer = onera.compile(file, onera.root / "config" / "vta_config.json")
            if peer is None:
                totals["not compiled"] += 1
                continue
            exact = onera.is_exact(peer, zeroed=True)
            totals["exact" if exact else "other results"] += 1
            print(f"{file.relative_to(examples)}: {peer.cycles():,} cycles, exact: {exact}")
            print("\n".join(peer.relies()), flush=True)
    print(", ".join(f"{count} {name}" for name, count in sorted(totals.items())))


def first_addresses(stream: Sequence[Instruction], board: VtaBoard) -> dict[MemoryType, int]:
    """Return the lowest address of the transfers of each memory."""
    found: dict[MemoryType, int] = {}
    for i in stream:
        if isinstance(i, Load | Store) and i.x_size:
            memory = i.memory if isinstance(i, Load) else MemoryType.OUT
            address = i.dram_base * board.element_bytes(memory)
            found[memory] = min(address, found.get(memory, address))
    return found


def onera_binaries(checkout: Path) -> None:
    """Run the hand-made streams that test the cycle-accurate simulator of ONERA."""
    board = load_board(CONFIGURATION)
    resources = "src/simulators/cycle_accurate_simulator/src/test/resources/examples_compute"
    for file in sorted((checkout / resources).glob("*/instructions.bin")):
        stream = StreamFile.read(file, board)
        places = first_addresses(stream.instructions, board)
        if (start := places.get(MemoryType.OUT)) is None:
            continue
        names = {memory.name: at for memory, at in places.items() if memory.name in FILES}
        pieces = (f"{file.parent / FILES[name]}.bin@{at:#x}" for name, at in names.items())
        peer = Peer(stream, stream.grown(read_pieces(",".join(pieces), 0), board), board)
        expected = np.fromfile(file.with_name("expected_out.bin"), np.uint8)
        found = peer.results(zeroed=True)[start : start + len(expected)]
        exact = np.array_equal(found, expected)
        print(f"{file.parent.name}: {peer.cycles():,} cycles, exact: {exact}")
        print("\n".join(peer.relies()), flush=True)


def tvm_test(checkout: Path) -> None:
    """Run the hardware test of VTA on the simulator. The test checks the results."""
    with tempfile.TemporaryDirectory(prefix="vta-peers-") as name:
        folder = Path(name)
        config = [sys.executable, str(checkout / "config" / "vta_config.py"), "--defs"]
        config += ["--use-cfg", str(checkout / "config" / f"{CONFIGURATION}_sample.json")]
        defines = subprocess.run(config, capture_output=True, text=True, check=True).stdout.split()
        tests = checkout / "tests" / "hardware"
        sources = [tests / "metal_test" / "metal_test.cc", tests / "common" / "test_lib.cc"]
        command = ["g++", "-O1", "-w", "-std=c++11", f"-I{checkout / 'include'}"]
        command += ["-DNO_SIM", "-DVTA_DEBUG=0", "-DVTA_TARGET_PYNQ", *defines]
        command += [*map(str, sources), str(HERE / "vta_peers_device.cc"), "-o", str(folder / "t")]
        subprocess.run(command, check=True)
        run = f"{sys.executable} {Path(__file__).resolve()} --run"
        done = subprocess.run(
            [str(folder / "t")],
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "VTA_PEERS_RUN": run},
            text=True,
            capture_output=True,
            check=False,
        )
    print("\n".join(line for line in done.stdout.splitlines() if "cycles" in line or "  " in line))
    said = [line for line in done.stdout.splitlines() if "test" in line and "INFO" in line]
    print("\n".join(said))


def run_one(name: str) -> None:
    """Run and check a stream of the hardware test, for vta_peers_device.cc."""
    board = load_board(CONFIGURATION)
    pointers = parse_pointers(Path(f"{name}.pointers").read_text())
    stream = StreamFile.read(Path(f"{name}.insns"), board).placed(TEST_BASE, pointers, board)
    peer = Peer(stream, read_image(Path(f"{name}.dram")), board)
    peer.results(zeroed=False).tofile(f"{name}.after")
    print(f"{name}: {len(stream.instructions)} instructions, {peer.cycles():,} cycles")
    print("\n".join(peer.relies()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="others' streams for VTA")
    parser.add_argument("--onera", type=Path, metavar="CHECKOUT")
    parser.add_argument("--examples", action="store_true", help="ONERA's own, not S3's products")
    parser.add_argument("--tvm-vta", type=Path, metavar="CHECKOUT")
    parser.add_argument("--macs", type=int, default=2**31, help="of the largest product")
    parser.add_argument("--run", metavar="NAME", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run is not None:
        run_one(arguments.run)
    if arguments.onera is not None:
        if arguments.examples:
            onera_examples(arguments.onera.resolve())
            onera_binaries(arguments.onera.resolve())
        else:
            onera_products(arguments.onera.resolve(), arguments.macs)
    if arguments.tvm_vta is not None:
        tvm_test(arguments.tvm_vta.resolve())


if __name__ == "__main__":
    main()
