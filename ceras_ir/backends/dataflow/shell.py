"""
Create the files that connect a circuit to the processor of a board: the shell with registers and
memory port, the block design, and the Linux driver.

`shell/circuit_registers.sv` is the single source of the registers, for SystemVerilog and C. The
hash of the circuit is a register, so that the driver refuses the bitstream of another network.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from math import ceil
from pathlib import Path

from xdsl.dialects.func import FuncOp

from ceras_ir.backends.dataflow.board import DataflowBoard
from ceras_ir.backends.dataflow.frames import PortFrames
from ceras_ir.backends.dataflow.verilog import TOP_MODULE, output_ports
from ceras_ir.network.artefacts import Artefact
from ceras_ir.network.driver_tables import tensor_tables
from ceras_ir.support.block_design import PROCESSORS, BusCore, design_files
from ceras_ir.support.native import AXI_LITE_PORT, NETWORK_DRIVER_SOURCES, digest
from ceras_ir.support.registers import RegisterConstant, register_constants

BOARD_FOLDER, DRIVER_FOLDER = "board", "driver"
NAME, SHELL_MODULE = "circuit", "circuit_shell"
SHELL_FOLDER = Path(__file__).parent / "shell"
REGISTER_PACKAGE = "circuit_registers.sv"
REGISTER_HEADER = "circuit_registers.h"
ADDRESS_BITS = 12
"""The width of addresses of registers, a page."""
_BITS = "  // Bits of CONTROL."

MIN_TIMEOUT_MS, TIMEOUT_FACTOR = 1000, 10
"""The timeout of a launch is this multiple of the predicted time, with this minimum."""

DESCRIPTIONS = {
    "Makefile": "builds circuit_run and libcircuit.so",
    "ceras_circuit.py": "runs the network from Python, with PYNQ's memory or u-dma-buf's",
    "circuit.c": "driver: launches, caches, errors",
    "circuit.h": "driver: the interface",
    "circuit_main.c": "driver: circuit_run, the network on raw tensors",
}
"""The files of `runtime/` that are copied to the folder `driver`."""
_KINDS = {
    ".sv": "SystemVerilog: registers and memory port",
    ".v": "the circuit with AXI interfaces",
    ".tcl": "the block design, for Vivado",
    ".dtso": "device-tree overlay",
}


def shell_sources() -> list[Path]:
    """
    Return the SystemVerilog sources of the shell, without those of the circuit; the package that
    declares the registers is first.
    """
    package = SHELL_FOLDER / REGISTER_PACKAGE
    return [package, AXI_LITE_PORT, *sorted({*SHELL_FOLDER.glob("*.sv")} - {package})]


def registers() -> tuple[list[RegisterConstant], list[RegisterConstant]]:
    """Return the words and sizes that the package of registers declares, and the bits."""
    text = (SHELL_FOLDER / REGISTER_PACKAGE).read_text("ascii")
    words, bits = text.split(_BITS)
    return register_constants(words), register_constants(bits)


def constant(name: str) -> int:
    """Return a word index or size of the package of registers by its name."""
    return next(c.value for c in registers()[0] if c.name == name)


def registers_header() -> str:
    """Return the text of the C header with the registers: word indices, and masks of bits."""
    words, bits = registers()
    lines = [f"  REGISTER_{c.name} = {c.value},\n" for c in words]
    lines += [f"  BIT_{c.name} = 1 << {c.value},\n" for c in bits if c.name != "STATUS_BITS"]
    return (
        "/* Generated from circuit_registers.sv: indices of words, and bits. */\n"
        "#ifndef CIRCUIT_REGISTERS_H\n#define CIRCUIT_REGISTERS_H\n\n"
        f"enum {{\n{''.join(lines)}}};\n\n#endif\n"
    )


def configuration(project: Mapping[str, str]) -> int:
    """Return the hash of a circuit: 32 bits of the SHA-256 of sources and memory contents."""
    parts = [
        part.encode()
        for name, text in sorted(project.items())
        if name.endswith((".sv", ".mem"))
        for part in (name, "\0", text, "\0")
    ]
    return int(digest(parts)[:8], 16)


def has_shell(board: DataflowBoard, outputs: int) -> bool:
    """
    Return whether the shell supports the board: a processor, a port width of AXI, and few outputs.
    """
    width = board.port_bytes
    is_width = width >= 4 and width & (width - 1) == 0
    return board.processor in PROCESSORS and is_width and outputs <= constant("MAX_OUTPUTS")


def bus_core(number: int, source: PortFrames, results: Sequence[PortFrames]) -> BusCore:
    """Describe the shell with the circuit. `number` is the hash of the circuit."""
    beats = [port.stream_bytes // port.frames // port.port_bytes for port in (source, *results)]
    # In a concatenation, the first value has the most significant bits.
    sizes = ", ".join(f"32'd{count}" for count in reversed(beats[1:]))
    streams = ("valid", "ready", "data", "last")
    connections = {
        name: name
        for name in ("circuit_rst", "input_errors", *(f"{e}_{s}" for e in ENDS for s in streams))
    }
    ports = {"clk": "aclk", "rst": "circuit_rst", "input_errors": "input_errors"}
    ports |= {f"s_axis_t{part}": f"input_{part}" for part in streams}
    for n, name in enumerate(output_ports(len(results))):
        ports |= {f"{name}_t{part}": f"output_{part}[{n}]" for part in streams}
        ports[f"{name}_tdata"] = f"output_data[{n}*8*BUS_BYTES+:8*BUS_BYTES]"
    wired = ",\n".join(f"      .{port}({wire})" for port, wire in ports.items())
    return BusCore(
        NAME,
        SHELL_MODULE,
        source.port_bytes,
        ADDRESS_BITS,
        {
            "CONFIGURATION": f"32'h{number:08x}",
            "OUTPUTS": len(results),
            "INPUT_BEATS": beats[0],
            "OUTPUT_BEATS": f"{{{sizes}}}",
        },
        wires="  wire circuit_rst, input_valid, input_ready, input_last;\n"
        "  wire [1:0] input_errors;\n"
        "  wire [8*BUS_BYTES-1:0] input_data;\n"
        "  wire [OUTPUTS-1:0] output_valid, output_ready, output_last;\n"
        "  wire [OUTPUTS*8*BUS_BYTES-1:0] output_data;\n",
        connections=connections,
        instances=f"\n  {TOP_MODULE} circuit (\n{wired}\n  );\n",
    )


ENDS = ("input", "output")


def board_files(board: DataflowBoard, core: BusCore) -> dict[str, str]:
    """Return the files of the folder `board`: the shell, the wrapper, and the block design."""
    shell = {path.name: path.read_text("ascii") for path in shell_sources()}
    return shell | design_files(
        core,
        PROCESSORS[board.processor],
        board=board.title,
        part=board.part,
        board_files=board.board_files,
        clock_mhz=board.clock_mhz,
        sources=["../hdl/*.sv", "../hdl/*.mem", "*.sv"],
    )


def network_table(main: FuncOp, board: DataflowBoard, number: int, latency_ms: float) -> str:
    """Return the C source with the properties of the network, for the driver."""
    tables, counts = tensor_tables(main)
    timeout = max(MIN_TIMEOUT_MS, ceil(TIMEOUT_FACTOR * latency_ms))
    address = PROCESSORS[board.processor].registers
    return (
        "/* Tables of this network, generated by ceras_ir. */\n"
        '#include "circuit.h"\n#include "../model.h"\n\n'
        f"{tables}const CircuitNetwork circuit_network = {{\n"
        f"  {number:#010x}u, {address:#x}u, {timeout}u, {counts}, inputs, outputs, run\n}};\n"
    )


def shell_artefacts(
    main: FuncOp,
    board: DataflowBoard,
    project: Mapping[str, str],
    source: PortFrames,
    results: Sequence[PortFrames],
    latency_ms: float,
) -> tuple[list[Artefact], dict[str, object]]:
    """
    Return the files of the folders `board` and `driver`, and the entries of the manifest; nothing
    for a board that the shell does not support. `project` has the files of the circuit by name,
    `latency_ms` is the predicted time of a launch.
    """
    if not has_shell(board, len(results)):
        return [], {}
    number = configuration(project)
    found = [
        Artefact.of_text(f"{BOARD_FOLDER}/{name}", _KINDS[Path(name).suffix], text)
        for name, text in board_files(board, bus_core(number, source, results)).items()
    ]
    runtime = files("ceras_ir.backends.dataflow.runtime")
    sources = {runtime / name: text for name, text in DESCRIPTIONS.items()}
    found += [
        Artefact.of_text(f"{DRIVER_FOLDER}/{path.name}", what, path.read_text(encoding="utf-8"))
        for path, what in (sources | NETWORK_DRIVER_SOURCES).items()
    ]
    table = network_table(main, board, number, latency_ms)
    header = registers_header()
    found += [
        Artefact.of_text(f"{DRIVER_FOLDER}/{REGISTER_HEADER}", "driver: registers", header),
        Artefact.of_text(f"{DRIVER_FOLDER}/circuit_network.c", "driver: tables", table),
    ]
    return found, {
        "configuration": f"{number:#010x}",
        "registers": f"{PROCESSORS[board.processor].registers:#x}",
    }
