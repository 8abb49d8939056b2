"""
Read a board for nnet from TOML: the circuits of the FPGA, the CPU and the bus between them.

The modelled time of an operation is the sum of these terms:

- on the FPGA: `launch_us`, and the cycles on the array in Verilog (`array_cycles`). A board without
  an array uses the longer of the times for products and for bytes.
- on the CPU: the time for products and the time for bytes.
- for a value that one side computes and the other side uses: `latency_us` and the time for its
  bytes, a single time.
"""

from dataclasses import dataclass, field, fields, replace

from ceras_ir.backends.nnet.circuits import DEFAULT, CircuitSize
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.files import parse_toml
from ceras_ir.targets.board_files import (
    BoardSummary,
    board_field,
    board_text,
    byte_text,
    read_fields,
)
from ceras_ir.transforms.memory.regions import Memory, RegionFields

MULTIPLYING_CIRCUITS = {"conv2d": 2, "matmul": 2, "depthwise": 1}
"""
The circuits that multiply on the array, each with a number d: they compute lanes^d products per
cycle.
"""
ARRAY_CIRCUITS = (*MULTIPLYING_CIRCUITS, "pool2d", "binary")
BOARD_CIRCUITS = (*ARRAY_CIRCUITS, "lookup", "concat", "slice", "transpose", "resize")
"""The circuits that a board may have. A reshape moves no data."""
SIZED_BY_ARRAY = ("macs_per_cycle", "bytes_per_cycle", "lanes")
"""
The fields of a circuit that a board with an array must not set, because they follow from its size.
"""
MAX_LANES, MAX_BUFFER_BYTES = 1 << 16, 1 << 30


@dataclass(frozen=True)
class BoardCircuit:
    """
    The speed and the limits of the circuit of the FPGA for a kind of operation. A limit of `None`
    is no limit.
    """

    bytes_per_cycle: float
    """The maximum number of bytes that the circuit transfers in a clock cycle."""
    launch_us: float
    macs_per_cycle: float = 0.0
    lanes: int = 1
    """
    The channels that are computed in parallel: the time is that of the next multiple of `lanes`.
    """
    max_kernel: int | None = None
    max_channels: int | None = None


@dataclass(frozen=True)
class FpgaBoard:
    """
    A CPU, an FPGA with circuits, and the bus between them. The suffixes of the fields are the
    units: `macs_per_us` are products per microsecond.
    """

    title: str
    clock_mhz: float
    cpu_macs_per_us: float
    cpu_bytes_per_us: float
    bus_bytes_per_us: float
    bus_latency_us: float
    circuits: dict[str, BoardCircuit] = field(default_factory=dict[str, BoardCircuit])
    """The circuits by the name of the operation without `graph.`."""
    array: CircuitSize | None = None
    """The size of the core in Verilog, if the circuits are in Verilog."""
    memories: tuple[RegionFields, ...] = ()

    @property
    def summary(self) -> BoardSummary:
        size = "" if self.array is None else f"{self.array.lanes}x{self.array.lanes} array, "
        memories = ", ".join(f"{byte_text(each.bytes)} {each.name}" for each in self.memories)
        return BoardSummary(self.title, f"{size}{self.clock_mhz:g} MHz", memories)


@dataclass(frozen=True)
class CpuFields:
    """The rates of the CPU."""

    macs_per_us: float = board_field(is_positive=True, example="335")
    """Products that the CPU computes in a microsecond."""
    bytes_per_us: float = board_field(is_positive=True, example="500")
    """Bytes that the CPU moves in a microsecond, for elementwise work."""


@dataclass(frozen=True)
class BusFields:
    """The bus between CPU and FPGA."""

    bytes_per_us: float = board_field(is_positive=True, example="1600")
    """Bytes that the bus moves in a microsecond."""
    latency_us: float = board_field(example="5")
    """The time of a transfer in addition to the time of the bytes."""


@dataclass(frozen=True)
class ArrayFields:
    """The size of the core in Verilog; cycles are then those of the core."""

    lanes: int = board_field(
        DEFAULT.lanes, minimum=1, maximum=MAX_LANES, is_power_of_two=True, example="16"
    )
    """The number of rows and of columns of the array."""
    bus_bytes: int = board_field(
        DEFAULT.bus_bytes, minimum=1, maximum=MAX_LANES, is_power_of_two=True
    )
    """The bytes per cycle of the bus."""
    line_bytes: int = board_field(
        DEFAULT.line_bytes, minimum=1, maximum=MAX_BUFFER_BYTES, is_power_of_two=True
    )
    """The size of the buffer for rows of the input."""
    result_bytes: int = board_field(
        DEFAULT.result_bytes, minimum=1, maximum=MAX_BUFFER_BYTES, is_power_of_two=True
    )
    """The size of the buffer of results."""
    tables: int = board_field(DEFAULT.tables, maximum=MAX_LANES, is_power_of_two=True)
    """The maximum number of function tables of a layer; 0 for none. 1 is refused."""


@dataclass(frozen=True)
class CircuitFields:
    """
    The circuit of a kind of operation. In a board with a table `[array]`, the circuits of
    convolutions, products, pooling and elementwise operations must not have the fields
    `bytes_per_cycle`, `macs_per_cycle` and `lanes`, because these follow from the size of the
    array.
    """

    launch_us: float = board_field(example="10")
    """The time of a launch in addition to the time of the work."""
    bytes_per_cycle: float | None = board_field(None, is_positive=True, example="16")
    """The bandwidth of the circuit. Required, unless `[array]` determines it."""
    macs_per_cycle: float | None = board_field(None, is_positive=True)
    """Products per cycle; 0, the default, for a circuit that does not multiply."""
    lanes: int | None = board_field(None, minimum=1, maximum=MAX_LANES)
    """Channels are rounded up to a multiple of the lanes; by default 1."""
    max_kernel: int | None = board_field(None, minimum=1)
    """The largest height and width of a window."""
    max_channels: int | None = board_field(None, minimum=1)
    """The largest number of channels."""


@dataclass(frozen=True)
class NnetFields:
    """A board with an FPGA, a CPU and a bus between them."""

    title: str = board_field(example='"My board"')
    """The name of the board in reports."""
    clock_mhz: float = board_field(is_positive=True, example="200")
    """The clock of the FPGA."""
    cpu: CpuFields = board_field()
    """The rates of the CPU."""
    bus: BusFields = board_field()
    """The bus between CPU and FPGA."""
    circuits: dict[str, CircuitFields] = board_field(choices=BOARD_CIRCUITS)
    """The circuits of the FPGA. The CPU computes operations without a circuit."""
    array: ArrayFields | None = board_field(None)
    """
    The size of the core in Verilog, if the circuits are in Verilog. It determines
    `bytes_per_cycle`, `macs_per_cycle` and `lanes` of the first five circuits, which must not have
    these fields.
    """
    memory: Memory | None = board_field(None)
    """A table that contains only the list `[[memory.region]]`."""


def load_board(name: str) -> FpgaBoard:
    """Return a packaged board by name, or the board that a TOML file describes."""
    return parse_board(board_text("nnet", "ceras_ir.backends.nnet", name), name)


def parse_board(text: str, file: str) -> FpgaBoard:
    """Return the board that the TOML `text` describes. Error messages name `file`."""
    described = read_fields(NnetFields, parse_toml(text, file), file)
    array = None
    if described.array is not None:
        if described.array.tables == 1:
            raise InputError("tables must be 0 or >= 2, got 1", file)
        array = replace(DEFAULT, **vars(described.array))
    return FpgaBoard(
        described.title,
        described.clock_mhz,
        described.cpu.macs_per_us,
        described.cpu.bytes_per_us,
        described.bus.bytes_per_us,
        described.bus.latency_us,
        {name: _circuit(name, c, array, file) for name, c in described.circuits.items()},
        array,
        () if described.memory is None else described.memory.region,
    )


def _circuit(
    name: str, described: CircuitFields, array: CircuitSize | None, file: str
) -> BoardCircuit:
    launch, limits = described.launch_us, (described.max_kernel, described.max_channels)
    if array is not None and name in ARRAY_CIRCUITS:
        if given := [each for each in SIZED_BY_ARRAY if getattr(described, each) is not None]:
            known = [each.name for each in fields(described) if each.name not in SIZED_BY_ARRAY]
            raise InputError(
                f"table [circuits.{name}] of a board with [array] has no field '{given[0]}', "
                f"because it follows from the size of the array (fields: {', '.join(known)})",
                file,
            )
        dimensions = MULTIPLYING_CIRCUITS.get(name, 0)
        macs = float(array.lanes**dimensions) if dimensions else 0.0
        return BoardCircuit(float(array.bus_bytes), launch, macs, array.lanes, *limits)
    if described.bytes_per_cycle is None:
        raise InputError(
            f"table [circuits.{name}] of the board has no field 'bytes_per_cycle': add "
            "bytes_per_cycle = 16, the bandwidth of the circuit",
            file,
        )
    macs, lanes = described.macs_per_cycle or 0.0, described.lanes or 1
    return BoardCircuit(described.bytes_per_cycle, launch, macs, lanes, *limits)
