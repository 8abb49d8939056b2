"""
Read a configuration of VTA: a TOML file, or the JSON file of VTA (`vta_config.json`).

Both have the fields of `VtaFields`. Number formats are fixed, because all arithmetic depends on
them. The intrinsic (the size of the matrix product of the hardware) and the buffer sizes may vary,
provided that instructions can be encoded.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdsl.utils.hints import isa

from ceras_ir.backends.vta.machine.board_fields import Flow, Timing, VtaFields
from ceras_ir.backends.vta.machine.isa import PORTABLE_UOPS, MemoryType
from ceras_ir.support.diagnostics import InputError, UnsupportedError, did_you_mean
from ceras_ir.support.files import parse_toml
from ceras_ir.targets.board_files import (
    TOML,
    BoardSummary,
    board_files,
    board_text,
    byte_text,
    fields_of,
    is_required,
    read_fields,
)

TYPO_SIMILARITY = 0.85
"""
The similarity (0 to 1) of a name to a field from which it is refused as a typing error: 1 of 6
letters may differ.
"""

JSON = ".json"
"""The suffix of the names of VTA's own configuration files."""

FLOW, REGISTERS, OFFSET = "DRIVER_FLOW", "DRIVER_REGISTERS", "DRIVER_ADDRESS_OFFSET"


@dataclass(frozen=True)
class DriverInterface:
    """
    The properties of a board that the C driver needs: the design of the registers (`flow`), their
    physical address, and the difference between addresses in VTA and physical addresses.
    """

    flow: Flow
    registers: int
    address_offset: int = 0

    def config(self) -> dict[str, str]:
        offset = {OFFSET: f"{self.address_offset:#x}"} if self.address_offset else {}
        return {FLOW: self.flow, REGISTERS: f"{self.registers:#x}", **offset}


_FIXED = {"LOG_INP_WIDTH": 3, "LOG_WGT_WIDTH": 3, "LOG_ACC_WIDTH": 5}
_INTRINSIC = {"LOG_BATCH": "log_batch", "LOG_BLOCK": "log_block"}
_DERIVED = {
    "LOG_BLOCK_IN": "LOG_BLOCK",
    "LOG_BLOCK_OUT": "LOG_BLOCK",
    "LOG_OUT_WIDTH": "LOG_INP_WIDTH",
}
_BUFFERS = {
    "LOG_UOP_BUFF_SIZE": (MemoryType.UOP, "log_uops"),
    "LOG_INP_BUFF_SIZE": (MemoryType.INP, "log_inp"),
    "LOG_WGT_BUFF_SIZE": (MemoryType.WGT, "log_wgt"),
    "LOG_ACC_BUFF_SIZE": (MemoryType.ACC, "log_acc"),
}
CACHE_LINE_BYTES = 64
"""The size of the longest cache line of the CPUs on boards with VTA."""

_OWN_KEYS = {
    "DRAM_READ_LATENCY": "read_latency",
    "DRAM_WRITE_LATENCY": "write_latency",
    "HOST_MACS_PER_US": "host_macs_per_us",
    "HOST_BYTES_PER_US": "host_bytes_per_us",
}
"""Keys for measured boards, in addition to the JSON of VTA."""

_HLS_KEYS = {
    "HLS_REFILL": "refill",
    "HLS_LATENCY": "latency",
    "HLS_BYTES_PER_CYCLE": "bytes_per_cycle",
    "HLS_INSTRUCTION": "instruction",
}
"""Keys of a calibrated board that is built from the HLS source; see `HlsModel`."""
_BUS, _CLOCK = "FPGA_LOG_AXI_BUS_WIDTH", "FPGA_FREQ"


@dataclass(frozen=True, order=True)
class HlsModel:
    """
    The parameters of the cycle model of a board with VTA from the HLS source (`vta.cc`).

    Only loops over micro-ops are pipelined: each start of such a loop refills the pipeline, and
    each row of a transfer waits for the first data.
    """

    refill: int
    """Cycles of each start of a loop over micro-ops, in addition to a cycle per micro-op."""
    latency: int
    """Cycles of a row of a transfer, in addition to the bytes."""
    bytes_per_cycle: int
    """The bandwidth of the port to DRAM."""
    instruction: int
    """Cycles of each instruction, in addition to the work."""


@dataclass(frozen=True)
class VtaBoard:
    """
    A configuration of VTA: the size of its matrix product, the sizes of on-chip memories, and the
    timing of the memory system. Fields `log_` are logarithms to base 2; of memories, they count
    elements.
    """

    target: str = "sim"
    log_uops: int = 13
    log_inp: int = 11
    log_wgt: int = 10
    log_acc: int = 11
    bus_bytes: int | None = None
    """The bytes that the memory bus transfers per cycle (a beat)."""
    clock_mhz: int | None = None
    read_latency: int = 50
    """Cycles from a read request to DRAM to the first data; the JSON of VTA does not specify it."""
    write_latency: int = 31
    host_macs_per_us: int = 335
    """
    Products per microsecond of the CPU: a matrix product on an A53 (papers, S3: 1024 x 1024 x 1024
    in 3.2 s).
    """
    host_bytes_per_us: int = 500
    """Bytes per microsecond that the CPU moves in elementwise work, including packing."""
    log_batch: int = 0
    log_block: int = 4
    driver: DriverInterface | None = None
    timing: Timing = "chisel"
    hls: HlsModel | None = None
    """The fitted parameters of a board with `timing` "hls", or `None` if there are none."""
    title: str = field(default="", compare=False, repr=False)

    @property
    def summary(self) -> BoardSummary:
        kinds = [memory for memory, _ in _BUFFERS.values()]
        size = sum(self.elements(kind) * self.element_bytes(kind) for kind in kinds)
        part = f"{self.batch}x{self.block} by {self.block}x{self.block}, {self.clock} MHz"
        return BoardSummary(self.title or self.target, part, f"{byte_text(size)} in 4 buffers")

    @property
    def is_hls(self) -> bool:
        return self.timing == "hls"

    @property
    def batch(self) -> int:
        return 1 << self.log_batch

    @property
    def block(self) -> int:
        """
        The number of lanes of a vector, which is also the number of inputs and of outputs of a
        weight tile.
        """
        return 1 << self.log_block

    @property
    def vector(self) -> tuple[int, ...]:
        """
        The last dimensions of packed tensors: (lanes,), or (rows, lanes) if a vector has several
        rows.
        """
        return (self.block,) if self.batch == 1 else (self.batch, self.block)

    @property
    def macs_per_cycle(self) -> int:
        return self.batch * self.block**2

    @property
    def alignment(self) -> int:
        """
        The alignment of values in DRAM, in bytes: a multiple of the element size of each on-chip
        memory, and of a cache line, so that no two values share a line.
        """
        return max(CACHE_LINE_BYTES, *(self.element_bytes(memory) for memory in MemoryType))

    def element_bytes(self, memory: MemoryType) -> int:
        """
        Return the bytes of an element of the on-chip `memory`. Addresses and sizes in instructions
        count elements.
        """
        return 1 << _log_bytes(memory, self.log_batch, self.log_block)

    @property
    def clock(self) -> int:
        """
        The clock in MHz (cycles per microsecond); by default that of the slowest published board.
        """
        return self.clock_mhz or 100

    @property
    def uops(self) -> int:
        return 1 << self.log_uops

    @property
    def portable_uops(self) -> int:
        """The number of micro-ops that all implementations of VTA can address."""
        return min(self.uops, PORTABLE_UOPS)

    @property
    def inp(self) -> int:
        return 1 << self.log_inp

    @property
    def wgt(self) -> int:
        return 1 << self.log_wgt

    @property
    def acc(self) -> int:
        """The number of vectors in the accumulator memory ACC; the memory OUT has as many."""
        return 1 << self.log_acc

    def elements(self, memory: MemoryType) -> int:
        sizes = {MemoryType.UOP: self.uops, MemoryType.WGT: self.wgt, MemoryType.INP: self.inp}
        return sizes.get(memory, self.acc)

    def config(self) -> dict[str, str | int]:
        """Return the configuration with the keys of `vta_config.json`, for other programs."""
        memory: dict[str, str | int] = {
            key: getattr(self, field)
            for key, field in _OWN_KEYS.items()
            if getattr(self, field) != getattr(VtaBoard, field)
        }
        if self.bus_bytes is not None:
            memory[_BUS] = (8 * self.bus_bytes).bit_length() - 1
        if self.clock_mhz is not None:
            memory[_CLOCK] = self.clock_mhz
        driver = {} if self.driver is None else self.driver.config()
        return {
            "TARGET": self.target,
            "HW_VER": "0.0.2",
            **_FIXED,
            **{key: getattr(self, field) for key, field in _INTRINSIC.items()},
            **{
                key: _log_bytes(kind, self.log_batch, self.log_block) + getattr(self, field)
                for key, (kind, field) in _BUFFERS.items()
            },
            **memory,
            **driver,
            **({"TIMING": self.timing} if self.is_hls else {}),
            **({} if self.hls is None else {k: vars(self.hls)[f] for k, f in _HLS_KEYS.items()}),
        }


def _log_bytes(memory: MemoryType, batch: int, block: int) -> int:
    vector = batch + block
    logs = {MemoryType.UOP: 2, MemoryType.WGT: 2 * block, MemoryType.ACC: 2 + vector}
    return logs.get(memory, vector)


def parse_board(text: str, file: str | None = None) -> VtaBoard:
    """
    Return the board that the JSON `text` of a configuration describes. Error messages name `file`.
    """
    try:
        loaded: object = json.loads(text, object_pairs_hook=_object(file))
    except (ValueError, RecursionError) as e:
        raise InputError(f"not JSON: {e}", file) from None
    if not isa(loaded, dict[str, object]):
        raise InputError("a VTA configuration is a JSON object", file)
    known = {each.name: is_required(each) for each in fields_of(VtaFields)}
    optional = [key for key, required in known.items() if not required]
    for key in loaded.keys() - known.keys():
        if hint := did_you_mean(key, optional, TYPO_SIMILARITY):
            raise InputError(f"a VTA configuration has no {key}{hint}", file)
    # Tools of VTA write more keys than these.
    return board_of({key: value for key, value in loaded.items() if key in known}, file)


def board_of(content: Mapping[str, object], file: str | None) -> VtaBoard:
    """
    Return the board for `content`, the fields of a configuration by name. Error messages name
    `file`.
    """
    config = vars(read_fields(VtaFields, content, file))
    batch, block = config["LOG_BATCH"], config["LOG_BLOCK"]
    for key, other in _DERIVED.items():
        if config[key] not in (None, config[other]):
            raise UnsupportedError(
                f"unsupported {key} {config[key]}: must be {other}, {config[other]}", file
            )
    logs: dict[MemoryType, int] = {}
    for key, (memory, _) in _BUFFERS.items():
        logs[memory] = config[key] - _log_bytes(memory, batch, block)
        if logs[memory] < 1:
            raise UnsupportedError(f"unsupported {key}: fewer than two elements", file)
    _check_encodable(logs, file)
    return VtaBoard(
        target=config["TARGET"],
        title=config["title"],
        timing=config["TIMING"],
        hls=_hls_model(config, file),
        **{field: logs[memory] for memory, field in _BUFFERS.values()},
        log_batch=batch,
        log_block=block,
        bus_bytes=None if (bus := config[_BUS]) is None else (1 << bus) // 8,
        clock_mhz=config[_CLOCK],
        driver=_driver(config, content, file),
        **{field: config[key] for key, field in _OWN_KEYS.items()},
    )


def _driver(
    config: Mapping[str, Any], content: Mapping[str, object], file: str | None
) -> DriverInterface | None:
    if config[FLOW] is None:
        if key := next((key for key in (REGISTERS, OFFSET) if key in content), None):
            raise InputError(f'{key} without {FLOW}: add {FLOW} = "hls" or "chisel"', file)
        return None
    if config[REGISTERS] is None:
        message = f"{FLOW} without {REGISTERS}: add the physical address of the first register"
        raise InputError(message, file)
    return DriverInterface(config[FLOW], config[REGISTERS], config[OFFSET])


def _hls_model(config: Mapping[str, Any], file: str | None) -> HlsModel | None:
    if not (given := [key for key in _HLS_KEYS if config[key] is not None]):
        return None
    if config["TIMING"] != "hls" or len(given) < len(_HLS_KEYS):
        raise InputError(
            f"{', '.join(_HLS_KEYS)} belong together, and to TIMING hls, got {', '.join(given)}",
            file,
        )
    return HlsModel(**{field: config[key] for key, field in _HLS_KEYS.items()})


def _object(file: str | None) -> Callable[[list[tuple[str, object]]], dict[str, object]]:
    def build(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in pairs:
            if key in found:
                raise InputError(f"{key} is given twice", file)
            found[key] = value
        return found

    return build


def _check_encodable(logs: Mapping[MemoryType, int], file: str | None) -> None:
    """
    Refuse buffer sizes for which indices do not fit the 32-bit micro-op or the 128-bit
    instruction.

    The input buffer must hold at least as many vectors as the accumulator. Otherwise HLS
    (`VTA_UOP_GEM_2_0`) and the simulator (`VTAUop.src_idx`) disagree on the position of the weight
    index.
    """
    uop, inp, wgt, acc = (logs[memory] for memory, _ in _BUFFERS.values())
    for used, limit, reason in (
        (2 * (acc + inp + wgt), 64, "GEMM index factors exceed 64 bits"),
        (acc + inp + wgt, 32, "micro-op indices exceed 32 bits"),
        (4 * acc, 44, "ALU index factors exceed 44 bits"),
        (2 * uop, 27, "micro-op range exceeds 27 bits"),
        (max(logs.values()), 16, "sram_base has 16 bits"),
        (acc, inp, "VTA's implementations disagree on micro-ops with fewer inputs than sums"),
    ):
        if used > limit:
            sizes = f"{1 << uop} uop, {1 << inp} inp, {1 << wgt} wgt, {1 << acc} acc"
            raise UnsupportedError(f"unsupported buffer sizes ({sizes}): {reason}", file)


def load_board(name: str | Path) -> VtaBoard:
    """
    Return a packaged board by name (`pynq`, `zcu102`, ...), or the board of a TOML or JSON file.
    """
    file = str(name)
    text = board_text("vta", "ceras_ir.backends.vta", file, suffixes=(TOML, JSON))
    return (
        parse_board(text, file) if file.endswith(JSON) else board_of(parse_toml(text, file), file)
    )


def spelled(board: VtaBoard, file: str) -> str:
    """
    Return the text of a configuration file for `board`, in TOML if `file` ends in `.toml`, else in
    JSON.
    """
    if not file.endswith(TOML):
        return json.dumps(board.config(), indent=2) + "\n"
    fields = {"title": board.title, **board.config()} if board.title else board.config()
    # Text and integers have the same form in TOML and JSON.
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())


def board_names() -> list[str]:
    return list(board_files("ceras_ir.backends.vta"))
