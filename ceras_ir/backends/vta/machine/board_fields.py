"""Declare the fields of a VTA configuration in TOML or JSON."""

from dataclasses import dataclass
from typing import Literal, get_args

from ceras_ir.targets.board_files import board_field

Flow = Literal["hls", "chisel"]
FLOWS: tuple[Flow, ...] = get_args(Flow)
DRIVER_PAGE_BYTES = 4096
"""
The size of a page. Registers and memory are mapped by pages, and a burst of VTA must not cross a
page.
"""


Timing = Literal["chisel", "hls"]
"""
The implementations of VTA that have a model of cycles: built from the Chisel or from the HLS
source.
"""


MIN_LOG_BUS, MAX_LOG_BUS = 5, 10
"""AXI has buses of 32 to 1024 bits; the designs of VTA have 64 and 128."""
MAX_LOG_INTRINSIC = 8
"""The maximum logarithm of the rows and of the lanes of a vector: 65,536 multipliers."""

MAX_KEY = (1 << 31) - 1
MAX_ADDRESS = (1 << 32) - DRIVER_PAGE_BYTES


@dataclass(frozen=True)
class VtaFields:
    """
    A configuration of VTA. A file `vta_config.json` of VTA is accepted as a board; other keys of a
    JSON file are ignored. `title` and the keys from `TIMING` on are additions of this compiler; the
    keys `HLS_...` are for `TIMING` hls, and `ceras-vta fit` measures them. Logarithms have base 2.
    """

    LOG_INP_WIDTH: int = board_field(minimum=3, maximum=3, unsupported="inputs must be int8")
    """The logarithm of the bits of an input."""
    LOG_WGT_WIDTH: int = board_field(
        minimum=3,
        maximum=3,
        unsupported="weights must be int8: tiles of weights also hold biases and shifts in 8 bits, "
        "and VTA's Chisel and OpenCL sources have no other width",
    )
    """The logarithm of the bits of a weight."""
    LOG_ACC_WIDTH: int = board_field(minimum=5, maximum=5, unsupported="accumulators must be int32")
    """The logarithm of the bits of an accumulator."""
    LOG_BATCH: int = board_field(
        maximum=MAX_LOG_INTRINSIC, unsupported="a vector has 1 to 256 rows", example="0"
    )
    """The logarithm of the rows of a vector."""
    LOG_BLOCK: int = board_field(
        minimum=1,
        maximum=MAX_LOG_INTRINSIC,
        unsupported="VTA's multipliers have 2 to 256 lanes",
        example="4",
    )
    """The logarithm of the lanes of a vector, which are also the sides of a weight tile."""
    LOG_UOP_BUFF_SIZE: int = board_field(maximum=MAX_KEY, example="15")
    """The logarithm of the bytes of the micro-op buffer."""
    LOG_INP_BUFF_SIZE: int = board_field(maximum=MAX_KEY, example="15")
    """The logarithm of the bytes of the input buffer."""
    LOG_WGT_BUFF_SIZE: int = board_field(maximum=MAX_KEY, example="18")
    """The logarithm of the bytes of the weight buffer."""
    LOG_ACC_BUFF_SIZE: int = board_field(maximum=MAX_KEY, example="17")
    """The logarithm of the bytes of the accumulator buffer."""
    title: str = board_field("")
    """The name of the board in lists."""
    TARGET: str = board_field("sim")
    """The name of the configuration."""
    HW_VER: str = board_field("")
    """The version of VTA, which has no effect."""
    LOG_BLOCK_IN: int | None = board_field(None, maximum=MAX_KEY)
    """Equal to `LOG_BLOCK`, if the file has it."""
    LOG_BLOCK_OUT: int | None = board_field(None, maximum=MAX_KEY)
    """Equal to `LOG_BLOCK`, if the file has it."""
    LOG_OUT_WIDTH: int | None = board_field(None, maximum=MAX_KEY)
    """Equal to `LOG_INP_WIDTH`, if the file has it."""
    FPGA_LOG_AXI_BUS_WIDTH: int | None = board_field(None, minimum=MIN_LOG_BUS, maximum=MAX_LOG_BUS)
    """The logarithm of the bits of the memory bus."""
    FPGA_FREQ: int | None = board_field(None, minimum=1, maximum=MAX_KEY)
    """The clock in MHz; 100 if it is missing."""
    TIMING: Timing = board_field("chisel")
    """The source of the hardware, which determines the model of cycles."""
    DRAM_READ_LATENCY: int = board_field(50, maximum=MAX_KEY)
    """Cycles from a request to DRAM to the first data."""
    DRAM_WRITE_LATENCY: int = board_field(31, maximum=MAX_KEY)
    """Cycles of a write to DRAM in addition to the data."""
    HOST_MACS_PER_US: int = board_field(335, minimum=1, maximum=MAX_KEY)
    """Products that the CPU computes in a microsecond."""
    HOST_BYTES_PER_US: int = board_field(500, minimum=1, maximum=MAX_KEY)
    """Bytes that the CPU moves in a microsecond, packing included."""
    HLS_REFILL: int | None = board_field(None, maximum=MAX_KEY)
    """Cycles to start a loop over micro-ops."""
    HLS_LATENCY: int | None = board_field(None, maximum=MAX_KEY)
    """Cycles of a row of a transfer."""
    HLS_BYTES_PER_CYCLE: int | None = board_field(None, minimum=1, maximum=MAX_KEY)
    """The bandwidth of the port to DRAM."""
    HLS_INSTRUCTION: int | None = board_field(None, maximum=MAX_KEY)
    """Cycles of each instruction."""
    DRIVER_FLOW: Flow | None = board_field(None)
    """
    The layout of the registers: that of the HLS design (four modules, a page of addresses each) or
    of the Chisel design. Without it, `vta_run` needs `--registers`, and assumes `--flow hls`.
    """
    DRIVER_REGISTERS: int | None = board_field(
        None,
        minimum=DRIVER_PAGE_BYTES,
        maximum=MAX_ADDRESS,
        multiple=DRIVER_PAGE_BYTES,
        accepts_text=True,
    )
    """The physical address of the first register. `DRIVER_FLOW` requires it."""
    DRIVER_ADDRESS_OFFSET: int = board_field(
        0, maximum=MAX_ADDRESS, multiple=DRIVER_PAGE_BYTES, accepts_text=True
    )
    """The difference between an address in VTA and the physical address of memory."""
