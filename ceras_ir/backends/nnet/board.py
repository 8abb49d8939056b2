"""
Read a board for nnet from TOML: the circuits of the FPGA, the CPU and the bus between them.

The time of an operation is the sum of these terms:

- on the FPGA: `launch_us`, and the cycles on the array in Verilog (`array_cycles`). A board without
  an array uses the longer of the times for products and for bytes.
- on the CPU: the time for products and the time for bytes.
- for a value that one side computes and the other side uses: `latency_us` and the time for its
  bytes, a single time.
"""

from dataclasses import dataclass, field, replace

from xdsl.utils.hints import isa

from ceras_ir.backends.nnet.circuits import DEFAULT, CircuitSize
from ceras_ir.support.diagnostics import InputError, did_you_mean
from ceras_ir.support.files import parse_toml
from ceras_ir.targets.capabilities import board_text

TomlTable = dict[str, object]
NNET_BOARD_FIELDS = ("title", "clock_mhz", "cpu", "bus")
MULTIPLYING_CIRCUITS = {"conv2d": 2, "matmul": 2, "depthwise": 1}
"""The number of dimensions of the array in which a circuit multiplies in each cycle."""
ARRAY_CIRCUITS = (*MULTIPLYING_CIRCUITS, "pool2d", "binary")
BOARD_CIRCUITS = (*ARRAY_CIRCUITS, "lookup", "concat", "slice", "transpose", "resize")
"""The circuits that a board may have. A reshape moves no data."""


@dataclass(frozen=True)
class BoardCircuit:
    """The rates and limits of the FPGA for a kind of operation."""

    bytes_per_cycle: float
    """The maximum, as for `macs_per_cycle`."""
    launch_us: float
    macs_per_cycle: float = 0.0
    lanes: int = 1
    """Channels are rounded up to a multiple of `lanes`."""
    max_kernel: int | None = None
    max_channels: int | None = None


@dataclass(frozen=True)
class FpgaBoard:
    """A board with an FPGA. Times are in microseconds, rates per microsecond or clock cycle."""

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


def load_board(name: str) -> FpgaBoard:
    """Return a board of this package by name, or the board that a TOML file describes."""
    return parse_board(board_text("nnet", "ceras_ir.backends.nnet", name), name)


def parse_board(text: str, file: str) -> FpgaBoard:
    """Return the board that the TOML `text` describes. Messages name `file`."""
    content = parse_toml(text, file)
    reader = _BoardFields(file)
    reader.only(content, "the board", {*NNET_BOARD_FIELDS, "circuits", "memory", "array"})
    cpu, bus = reader.table(content, "cpu"), reader.table(content, "bus")
    reader.only(cpu, "cpu", {"macs_per_us", "bytes_per_us"})
    reader.only(bus, "bus", {"bytes_per_us", "latency_us"})
    array = reader.array(content) if "array" in content else None
    circuits: dict[str, BoardCircuit] = {}
    entries = reader.table(content, "circuits")
    reader.only(entries, "circuits", {*BOARD_CIRCUITS})
    for name in entries:
        entry = reader.table(entries, name)
        on_array = array if name in ARRAY_CIRCUITS else None
        fields = set(BoardCircuit.__dataclass_fields__)
        if on_array is not None:
            # The size of the array defines these.
            fields -= {"macs_per_cycle", "bytes_per_cycle", "lanes"}
        reader.only(entry, f"circuits.{name}", fields)
        circuits[name] = reader.circuit(entry, on_array, MULTIPLYING_CIRCUITS.get(name, 0))
    title = content.get("title")
    if not isinstance(title, str):
        raise InputError("title must be text", file)
    return FpgaBoard(
        title,
        reader.number(content, "clock_mhz"),
        reader.number(cpu, "macs_per_us"),
        reader.number(cpu, "bytes_per_us"),
        reader.number(bus, "bytes_per_us"),
        reader.number(bus, "latency_us", zero=True),
        circuits,
        array,
    )


@dataclass(frozen=True)
class _BoardFields:
    file: str

    def only(self, table: TomlTable, where: str, known: set[str]) -> None:
        for name in table:
            if name not in known:
                choices, hint = ", ".join(sorted(known)), did_you_mean(name, known)
                message = f"{where} has no field '{name}'{hint} (fields: {choices})"
                raise InputError(message, self.file)

    def table(self, content: TomlTable, name: str) -> TomlTable:
        value = content.get(name)
        if not isa(value, dict[str, object]):
            raise InputError(f"expected a table [{name}]", self.file)
        return value

    def number(self, content: TomlTable, name: str, *, zero: bool = False) -> float:
        value = content.get(name)
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else -1
        if 0 < number < 1e12 or (number == 0 and zero):
            return float(number)
        bound = ">= 0" if zero else "> 0"
        raise InputError(f"{name} must be a number {bound}, got {value!r}", self.file)

    def circuit(self, entry: TomlTable, array: CircuitSize | None, dimensions: int) -> BoardCircuit:
        launch = self.number(entry, "launch_us", zero=True)
        kernel, channels = self.integer(entry, "max_kernel"), self.integer(entry, "max_channels")
        if array is not None:
            macs = float(array.lanes**dimensions) if dimensions else 0.0
            return BoardCircuit(float(array.bus_bytes), launch, macs, array.lanes, kernel, channels)
        moved = self.number(entry, "bytes_per_cycle")
        macs = self.number(entry, "macs_per_cycle") if "macs_per_cycle" in entry else 0.0
        lanes = self.integer(entry, "lanes") or 1
        return BoardCircuit(moved, launch, macs, lanes, kernel, channels)

    def array(self, content: TomlTable) -> CircuitSize:
        entry = self.table(content, "array")
        known = ("lanes", "bus_bytes", "line_bytes", "result_bytes", "tables")
        self.only(entry, "array", set(known))
        # A core without tables is possible.
        given = {
            name: value
            for name in known
            if (value := self.integer(entry, name, int(name != "tables"))) is not None
        }
        for name, value in given.items():
            if value & (value - 1):
                raise InputError(f"{name} must be a power of two, got {value}", self.file)
        if given.get("tables") == 1:
            raise InputError("tables must be 0 or >= 2, got 1", self.file)
        return replace(DEFAULT, **given)

    def integer(self, content: TomlTable, name: str, minimum: int = 1) -> int | None:
        value = content.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            message = f"{name} must be an integer >= {minimum}, got {value!r}"
            raise InputError(message, self.file)
        return value
