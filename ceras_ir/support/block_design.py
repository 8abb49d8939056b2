"""
Print the files that connect a core to the processor of a board: a wrapper in Verilog, the block
design as a script for Vivado, and a device-tree overlay.

A core has registers on AXI4-Lite (ports `s_*`), a memory port on AXI4 (`m_*`), and an interrupt.
The texts with placeholders in `board/` are those of all targets with such a core.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_FOLDER = Path(__file__).parent / "board"
_PLACEHOLDER = re.compile(r"@(\w+?)@")


def fill_in(text: str, values: Mapping[str, object]) -> str:
    """Return `text` with the value of each name instead of `@name@`."""
    return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), text)


@dataclass(frozen=True)
class Processor:
    """A processor on the chip of the FPGA, and its ports that the block design uses."""

    title: str
    registers: int
    """The physical address of the registers of the core."""
    controller: str
    """The label of the interrupt controller in the device tree."""
    interrupt: int
    """The number of the first shared interrupt from the FPGA, without the first 32."""
    cells: int
    """The words of an address in the device tree."""
    memory_bits: int
    """The maximum width of the memory port."""
    ports: Mapping[str, str]
    """The names of pins, by placeholder."""
    script: str
    """The commands that create the processor `ps` of the block design."""


PROCESSORS = {
    "zynq_7000": Processor(
        "a Zynq-7000",
        0x43C00000,
        "intc",
        29,
        1,
        64,
        {
            "CLOCK_PIN": "FCLK_CLK0",
            "RESET_PIN": "FCLK_RESET0_N",
            "CONTROL_PORT": "M_AXI_GP0",
            "CONTROL_CLOCK": "M_AXI_GP0_ACLK",
            "MEMORY_PORT": "S_AXI_HP0",
            "MEMORY_CLOCK": "S_AXI_HP0_ACLK",
            "INTERRUPT_PIN": "IRQ_F2P",
        },
        """\
set ps [create_bd_cell -type ip -vlnv xilinx.com:ip:processing_system7 ps]
apply_bd_automation -rule xilinx.com:bd_rule:processing_system7 \\
    -config {make_external "FIXED_IO, DDR" apply_board_preset 1} $ps
# Registers are on the first master port. Memory is on HP0, which is not coherent.
set_property -dict [list \\
    CONFIG.PCW_USE_M_AXI_GP0 1 CONFIG.PCW_USE_S_AXI_HP0 1 \\
    CONFIG.PCW_S_AXI_HP0_DATA_WIDTH @MEMORY_BITS@ \\
    CONFIG.PCW_USE_FABRIC_INTERRUPT 1 CONFIG.PCW_IRQ_F2P_INTR 1 \\
    CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ $clock_mhz] $ps
""",
    ),
    "zynq_ultrascale": Processor(
        "a Zynq UltraScale+",
        0xA0000000,
        "gic",
        89,
        2,
        128,
        {
            "CLOCK_PIN": "pl_clk0",
            "RESET_PIN": "pl_resetn0",
            "CONTROL_PORT": "M_AXI_HPM0_FPD",
            "CONTROL_CLOCK": "maxihpm0_fpd_aclk",
            "MEMORY_PORT": "S_AXI_HP0_FPD",
            "MEMORY_CLOCK": "saxihp0_fpd_aclk",
            "INTERRUPT_PIN": "pl_ps_irq0",
        },
        """\
set ps [create_bd_cell -type ip -vlnv xilinx.com:ip:zynq_ultra_ps_e ps]
apply_bd_automation -rule xilinx.com:bd_rule:zynq_ultra_ps_e -config {apply_board_preset 1} $ps
# Registers are on the first master port. Memory is on HP0, which is not coherent.
set_property -dict [list \\
    CONFIG.PSU__USE__M_AXI_GP0 1 CONFIG.PSU__USE__M_AXI_GP1 0 CONFIG.PSU__USE__M_AXI_GP2 0 \\
    CONFIG.PSU__USE__S_AXI_GP2 1 CONFIG.PSU__SAXIGP2__DATA_WIDTH @MEMORY_BITS@ \\
    CONFIG.PSU__USE__IRQ0 1 CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ $clock_mhz] $ps
""",
    ),
}
"""The processors by the names in board files."""

MIN_MEMORY_BITS = 32


@dataclass(frozen=True)
class BusCore:
    """A core in SystemVerilog with registers, memory port and interrupt."""

    name: str
    """The prefix of modules and files, such as `nnet`."""
    module: str
    bus_bytes: int
    """The width of the memory port, which is also the parameter `BUS_BYTES` of the module."""
    address_bits: int
    """The width of addresses of registers."""
    parameters: Mapping[str, object]
    """
    The other parameters of the module. The wrapper has their values as constants, because a block
    design accepts only simple parameters.
    """
    ports: str = ""
    """Declarations of more ports of the wrapper."""
    wires: str = ""
    """Declarations inside the wrapper."""
    connections: Mapping[str, str] = field(default_factory=dict[str, str])
    """Expressions at more ports of the module."""
    instances: str = ""
    """Instances next to the core."""

    @property
    def wrapper(self) -> str:
        """Return the Verilog wrapper, the module `{name}_axi`."""
        values = {**self.parameters, "BUS_BYTES": self.bus_bytes}
        return fill_in(
            (_FOLDER / "axi_wrapper.v").read_text("ascii"),
            {
                "NAME": self.name,
                "CORE": self.module,
                "SIZES": "".join(f"  localparam {k} = {v};\n" for k, v in values.items()),
                "DATA_HIGH": 8 * self.bus_bytes - 1,
                "BYTE_HIGH": self.bus_bytes - 1,
                "VALUES": ",\n".join(f"      .{key}({key})" for key in values),
                "PORTS": self.ports,
                "WIRES": self.wires,
                "ADDRESS_HIGH": self.address_bits - 1,
                "CONNECTIONS": "\n".join(f"      .{k}({v})," for k, v in self.connections.items()),
                "INSTANCES": self.instances,
            },
        )


def design_files(
    core: BusCore,
    processor: Processor,
    *,
    board: str,
    part: str,
    board_files: str,
    clock_mhz: int,
    sources: Sequence[str],
) -> dict[str, str]:
    """
    Return the wrapper, the script and the overlay by file name. `sources` are patterns of the
    sources relative to the folder of these files; `board_files` is vendor and name of the board in
    Vivado, without the version.
    """
    bits = max(MIN_MEMORY_BITS, min(8 * core.bus_bytes, processor.memory_bits))
    registers = f"0x{processor.registers:08X}"
    values: dict[str, object] = {
        "NAME": core.name,
        "BOARD": board,
        "PART": part,
        "BOARD_FILES": board_files,
        "MHZ": clock_mhz,
        "REGISTERS": registers,
        "SOURCES": " ".join(f"[glob $here/{each}]" for each in (*sources, f"{core.name}_axi.v")),
        "PROCESSOR": fill_in(processor.script, {"MEMORY_BITS": bits}),
        **processor.ports,
    }

    def cells(number: int) -> str:
        return " ".join(["0x0"] * (processor.cells - 1) + [f"{number:#x}"])

    tree = {
        "NAME": core.name,
        "PROCESSOR": processor.title,
        "REGISTERS": registers,
        "UNIT": f"{processor.registers:x}",
        "CELLS": processor.cells,
        "REG": f"{cells(processor.registers)} {cells(0x1000)}",
        "SIZE": cells(0x4000000),
        "CONTROLLER": processor.controller,
        "INTERRUPT": processor.interrupt,
        "INTERRUPT_PIN": processor.ports["INTERRUPT_PIN"],
    }
    return {
        f"{core.name}_axi.v": core.wrapper,
        "block_design.tcl": fill_in((_FOLDER / "block_design.tcl").read_text("ascii"), values),
        f"{core.name}.dtso": fill_in((_FOLDER / "overlay.dtso").read_text("ascii"), tree),
    }
