"""
What the nnet circuits in Verilog take of a chip, and what share of their array networks use.

    python benchmarks/nnet_circuits.py --chip xcup|ecp5 [--lanes 16] [--bus 16] [--lines BYTES]
    python benchmarks/nnet_circuits.py DIR...    compiled with --target nnet --board ceras_zcu104

"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from xdsl.utils.hints import isa

from ceras_ir.backends.dataflow.synthesis import SCRIPTS, count, find_yosys
from ceras_ir.backends.nnet.circuit_size import DEFAULT, TOP, CircuitSize, circuit_sources


def synthesize(size: CircuitSize, family: str) -> None:
    command = find_yosys()
    if command is None:
        raise SystemExit("no yosys: install the extra 'rtl', or put yosys on the PATH")
    with tempfile.TemporaryDirectory(dir=Path.home()) as work:
        for source in circuit_sources():
            (Path(work) / source.name).write_bytes(source.read_bytes())
        names = " ".join(source.name for source in circuit_sources())
        sizes = " ".join(f"-set {name} {value}" for name, value in size.parameters().items())
        text = f"read_verilog -sv {names}; chparam {sizes} {TOP}; {SCRIPTS[family].format(top=TOP)}"
        text += "; tee -q -o stat stat -json"
        subprocess.run([command, "-q", "-p", text], cwd=work, check=True)
        found = count((Path(work) / "stat").read_text())
    products = size.lanes**2
    print(f"{family}: {products} products a cycle, {found.dsp} DSP, {found.lut} LUT sites")
    print(f"memories: {found.ram18} of 18 kbit ({found.ram18 / 2:g} of 36)")


def share(folder: Path) -> None:
    """A line for a network: cycles of its array, and the share of the peak."""
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
    parser.add_argument("--chip", choices=sorted(SCRIPTS))
    parser.add_argument("--lanes", type=int, default=DEFAULT.lanes)
    parser.add_argument("--bus", type=int, default=DEFAULT.bus_bytes)
    parser.add_argument("--lines", type=int, default=DEFAULT.line_bytes)
    parser.add_argument("--results", type=int, default=DEFAULT.result_bytes)
    arguments = parser.parse_args()
    if arguments.chip:
        paired = arguments.chip == "xcup"
        size = CircuitSize(
            arguments.lanes, arguments.bus, arguments.lines, arguments.results, paired
        )
        synthesize(size, arguments.chip)
    for folder in arguments.folders:
        share(folder)


if __name__ == "__main__":
    main()
