"""
Measure the resources of the nnet circuits in Verilog, and the share of the array that networks use.

    python benchmarks/nnet_circuits.py --chip xcup|ecp5 [--lanes 16] [--bus 16] [--lines BYTES]
    python benchmarks/nnet_circuits.py --place 1 2 3 [--lanes 4] [--bus 8] ...  by nextpnr for an
        ECP5-85F, with each of the seeds
    python benchmarks/nnet_circuits.py --layers 1000 [--lanes 16] ...     random, in Verilator
    python benchmarks/nnet_circuits.py DIR...    compiled with --target nnet --board ceras_zcu104
"""

import argparse
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from xdsl.utils.hints import isa

from ceras_ir.backends.dataflow.resources import YOSYS, YOSYS_SCRIPTS, count, route
from ceras_ir.backends.nnet.circuits import CORE_MODULE, DEFAULT, CircuitSize, circuit_sources
from ceras_ir.backends.nnet.engine import SOURCES, build_simulation
from ceras_ir.support.diagnostics import InputError


def netlist(size: CircuitSize, family: str, work: Path) -> str:
    """Synthesize to `net.json` in the folder `work`, and return the counts of yosys."""
    for source in circuit_sources():
        (work / source.name).write_bytes(source.read_bytes())
    names = " ".join(source.name for source in circuit_sources())
    sizes = " ".join(f"-set {name} {value}" for name, value in size.parameters().items())
    script = YOSYS_SCRIPTS[family].format(top=CORE_MODULE)
    text = f"read_verilog -sv {names}; chparam {sizes} {CORE_MODULE}; {script}"
    text += "; write_json net.json; tee -q -o stat stat -json"
    YOSYS.run(["-q", "-p", text], work)
    return (work / "stat").read_text()


def synthesize(size: CircuitSize, family: str) -> None:
    """Print the resources of the circuit, counted by yosys."""
    with tempfile.TemporaryDirectory(dir=Path.home()) as work:
        found = count(netlist(size, family, Path(work)))
    products = size.lanes**2
    print(f"{family}: {products} products a cycle, {found.dsp} DSP, {found.lut} LUT sites")
    print(f"memories: {found.ram18} of 18 kbit ({found.ram18 / 2:g} of 36)")


GOAL_MHZ = 100
"""The clock for which nextpnr optimizes."""


def place(size: CircuitSize, seeds: Sequence[int]) -> None:
    """Place and route for an ECP5-85F with each of the seeds; nextpnr chooses the pins."""
    with tempfile.TemporaryDirectory(dir=Path.home()) as work:
        netlist(size, "ecp5", Path(work))
        for seed in seeds:
            clock = route(Path(work) / "net.json", "85k CABGA756 6", GOAL_MHZ, seed)
            print(f"ECP5-85F, speed grade 6, seed {seed}: {clock:.1f} MHz after place and route")


def layers(size: CircuitSize, count: int, first: int) -> None:
    """Run random layers in Verilog and in C++, under random stalls; all bytes must be equal."""
    tests = Path(__file__).parents[1] / "test" / "backends" / "nnet"
    names = ("fpga_linear.cpp", "fpga_depthwise.cpp", "fpga_circuits.cpp", "fpga_movement.cpp")
    circuits = [SOURCES / name for name in names]
    program = build_simulation("rtl_layers", [tests / "rtl_layers.cpp", *circuits], size)
    done = subprocess.run([program, str(first), str(count), "-1", "24"], check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


def share(folder: Path) -> None:
    """Print a line for a network: cycles of the array, and the share of the peak."""
    content: object = json.loads((folder / "report.json").read_text())
    assert isa(content, dict[str, object])
    layers = content["layers"]
    assert isa(layers, list[dict[str, object]])
    timed = [layer for layer in layers if isinstance(layer.get("cycles"), int)]
    cycles = sum(_number(layer, "cycles") for layer in timed)
    macs = sum(_number(layer, "macs") for layer in timed)
    ideal = macs / DEFAULT.lanes**2
    print(f"{folder.name}: {len(timed)} layers, {cycles:,} cycles, {macs:,} products,", end=" ")
    print(f"{ideal / cycles:.1%} of the peak")


def _number(layer: dict[str, object], key: str) -> int:
    value = layer[key]
    assert isinstance(value, int)
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--chip", choices=sorted(YOSYS_SCRIPTS))
    parser.add_argument("--lanes", type=int, default=DEFAULT.lanes)
    parser.add_argument("--bus", type=int, default=DEFAULT.bus_bytes)
    parser.add_argument("--lines", type=int, default=DEFAULT.line_bytes)
    parser.add_argument("--results", type=int, default=DEFAULT.result_bytes)
    parser.add_argument("--place", nargs="+", type=int, metavar="SEED", default=())
    parser.add_argument("--layers", type=int, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    arguments = parser.parse_args()
    # Pairs of products need the multipliers of xcup; those of ECP5 are narrower.
    paired = not arguments.place and arguments.chip != "ecp5"
    size = CircuitSize(arguments.lanes, arguments.bus, arguments.lines, arguments.results, paired)
    try:
        if arguments.chip:
            synthesize(size, arguments.chip)
        if arguments.place:
            place(size, arguments.place)
    except InputError as error:
        raise SystemExit(str(error)) from None
    if arguments.layers:
        layers(size, arguments.layers, arguments.first)
    for folder in arguments.folders:
        share(folder)


if __name__ == "__main__":
    main()
