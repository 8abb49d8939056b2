"""
A board for nnet, read from TOML: its FPGA circuits, its CPU and the bus between them.

The model is simple and stated here: a circuit takes `launch_us`, then its cycles on the array in
Verilog (`array_cycles`) where the board has one, otherwise the longer of its products and its
bytes; the CPU takes its products and then its bytes; a value that one side makes and the other
reads costs `latency_us` and its bytes once.
"""

from dataclasses import dataclass, field, replace

from xdsl.utils.hints import isa

from ceras_ir.backends.nnet.circuits import DEFAULT, CircuitSize
from ceras_ir.support.diagnostics import InputError, did_you_mean
from ceras_ir.support.files import parse_toml
from ceras_ir.targets.capabilities import board_text

TomlTable = dict[str, object]
FIELDS = ("title", "clock_mhz", "cpu", "bus")
PRODUCTS = {"conv2d": 2, "matmul": 2, "depthwise": 1}
"""Circuits that multiply, and of how many of the array's two dimensions each cycle."""
ON_ARRAY = (*PRODUCTS, "pool2d", "binary")
"""Circuits that the array in Verilog is."""
CIRCUITS = (*ON_ARRAY, "lookup", "concat", "slice", "transpose", "resize")
"""All that a board may have; a reshape moves nothing."""


@dataclass(frozen=True)
class BoardCircuit:
    """One kind of operation on the FPGA."""

    bytes_per_cycle: float
    """At most, like the products."""
    launch_us: float
    macs_per_cycle: float = 0.0
    lanes: int = 1
    """Channels are rounded up to a multiple of this."""
    max_kernel: int | None = None
    max_channels: int | None = None


@dataclass(frozen=True)
class FpgaBoard:
    """Times are microseconds, rates per microsecond or clock cycle."""

    title: str
    clock_mhz: float
    cpu_macs_per_us: float
    cpu_bytes_per_us: float
    bus_bytes_per_us: float
    bus_latency_us: float
    circuits: dict[str, BoardCircuit] = field(default_factory=dict[str, BoardCircuit])
    """By the name of the operation without `graph.`."""
    array: CircuitSize | None = None
    """What the circuits in Verilog are built for, if those are the board's."""


def load_board(name: str) -> FpgaBoard:
    """A board of this package by name, or one described in a TOML file."""
    return parse_board(board_text("nnet", "ceras_ir.backends.nnet", name), name)


def parse_board(text: str, file: str) -> FpgaBoard:
    """The board that the TOML `text` describes; `file` is named in messages."""
    content = parse_toml(text, file)
    reader = _BoardFields(file)
    reader.only(content, "the board", {*FIELDS, "circuits", "memory", "array"})
    cpu, bus = reader.table(content, "cpu"), reader.table(content, "bus")
    reader.only(cpu, "cpu", {"macs_per_us", "bytes_per_us"})
    reader.only(bus, "bus", {"bytes_per_us", "latency_us"})
    array = reader.array(content) if "array" in content else None
    circuits: dict[str, BoardCircuit] = {}
    entries = reader.table(content, "circuits")
    reader.only(entries, "circuits", {*CIRCUITS})
    for name in entries:
        entry = reader.table(entries, name)
        on_array = array if name in ON_ARRAY else None
        fields = set(BoardCircuit.__dataclass_fields__)
        if on_array is not None:
            # The array says these.
            fields -= {"macs_per_cycle", "bytes_per_cycle", "lanes"}
        reader.only(entry, f"circuits.{name}", fields)
        circuits[name] = reader.circuit(entry, on_array, PRODUCTS.get(name, 0))
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
    """Typed fields of a TOML table."""

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
        least = "of at least 0" if zero else "above 0"
        raise InputError(f"{name} must be a number {least}, got {value!r}", self.file)

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
        # A core may have no tables; all else it must have.
        least = dict.fromkeys(known, 1) | {"tables": 0}
        given = {
            name: value
            for name in known
            if (value := self.integer(entry, name, least[name])) is not None
        }
        for name, value in given.items():
            if value & (value - 1):
                raise InputError(f"{name} must be a power of two, got {value}", self.file)
        if given.get("tables") == 1:
            raise InputError("tables must be 0 or at least 2, got 1", self.file)
        return replace(DEFAULT, **given)

    def integer(self, content: TomlTable, name: str, least: int = 1) -> int | None:
        value = content.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            message = f"{name} must be an integer of at least {least}, got {value!r}"
            raise InputError(message, self.file)
        return value
