"""
How long the circuits in Verilog take for a layer, tile of outputs by tile of outputs.

Function tables come first. Then three things run beside each other: the array, one read a cycle;
the bus, which brings constants first and then residual and rows in turn; and the epilogue with the
writer behind it. Whatever is waited for decides. Small constants are those of the pipelines in
`hdl/`; a test holds the sum to the simulation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from xdsl.ir import Operation

from ceras_ir.backends.nnet.array_plan import ArrayLayer, Box, launches_of, plan
from ceras_ir.backends.nnet.circuits import CircuitSize, number, register_map

LATENCY = 32
"""Of memory, in cycles."""
BURST_BYTES = number("hdl/nnet_core.sv", "BURST_BYTES")
CHAIN = number("hdl/product_array.sv", "CHAIN")
"""Rows of the array that add up in one column, where it has so many."""
OUTSTANDING = number("hdl/axi_reader.sv", "OUTSTANDING")
"""Bursts that are on their way at a time."""
BURST_CYCLES = (LATENCY + 2) / OUTSTANDING
"""Of a short burst, where all that are on their way are short and wait for memory."""
RUN_START = 1
"""From the last burst of a row to the first of the next."""
RESIDUAL_START = 8
"""From the last burst of a block's residual to the first of the next."""
QUEUE = number("hdl/stream_loader.sv", "DEPTH")
"""Beats of constants that are fetched ahead."""
FIRST_BEAT = 6
"""From the start to the first data, besides the latency."""
TABLE_WORD = 8
"""Bytes of a table that are written in a cycle."""
BLOCK_START = 8
"""From the last row that a block needs to its first value."""
SWAP = 5
"""From a tile's first value until the next weights may come."""
LEAST = number("hdl/tile_runner.sv", "LEAST")
"""Of a tile."""
ARRAY_DEPTH = 8
"""From a value to the start of the epilogue, besides the rows of a column of the array."""
EPILOGUE_STEP = 1
"""From the last sum that goes through the epilogue to the first of the other half."""
HALF_FREE = 6
"""From there to the first value that is added up in the same half."""
HEADER_FREE = 12
"""The same to the constants of the next tile of outputs but one, behind which its weights come."""
EPILOGUE_DEPTH = 8
"""From a sum to the write command."""
WRITE_START = 9
"""From a full half of the results, or the last beat of the other, to its first beat."""
WRITE_FREE = 4
"""From its last beat to the first sum that may become a result in it."""
WRITE_END = 15
"""From the last beat to the end, besides the latency."""


@dataclass(frozen=True)
class _Read:
    """What is read at once: a row, or the residual of a group."""

    bursts: float
    beats: float
    least: float = 0.0
    """Cycles in which its bursts can be asked for."""
    start: float = 0.0
    """In which none is asked for."""

    @property
    def cycles(self) -> float:
        """If nothing else is read meanwhile."""
        return max(self.beats, self.bursts * BURST_CYCLES + self.start, self.least)


NOTHING = _Read(0.0, 0.0)


@dataclass
class _Bus:
    """Rows and residual, which share what constants leave of the bus."""

    row: _Read
    group: _Read
    rows_allowed: int
    all_groups: int
    """Groups of results, each of which has its residual; two are fetched ahead."""
    rows: float = 0.0
    """Cycles spent on rows."""
    groups: float = 0.0
    groups_allowed: int = 0

    def __post_init__(self) -> None:
        self.groups_allowed = min(2, self.all_groups)

    def allow_group(self) -> None:
        """One is done."""
        self.groups_allowed = min(self.groups_allowed + 1, self.all_groups)

    @cached_property
    def speed(self) -> float:
        """
        How much faster both are read together: a short burst waits for memory while a long one of
        the other comes.
        """
        row, group = self.row, self.group
        beats = row.beats / row.bursts + group.beats / group.bursts
        apart = row.cycles / row.bursts + group.cycles / group.bursts
        pairs = min(row.bursts / row.cycles, group.bursts / group.cycles)
        saved = pairs * (apart - max(beats, 2 * BURST_CYCLES))
        return 2 / (2 - max(saved, 0.0))

    def advance(self, cycles: float) -> None:
        """Move what may be moved."""
        while cycles > 1e-9:
            rows = self.rows_allowed * self.row.cycles - self.rows
            groups = self.groups_allowed * self.group.cycles - self.groups
            if rows > 1e-9 and groups > 1e-9:
                each = min(cycles * self.speed / 2, rows, groups)
                self.rows += each
                self.groups += each
                cycles -= 2 * each / self.speed
            elif rows > 1e-9:
                self.rows += min(cycles, rows)
                return
            elif groups > 1e-9:
                self.groups += min(cycles, groups)
                return
            else:
                return

    def wait_for_rows(self, count: int) -> float:
        """Cycles until so many rows are there; they pass."""
        left = count * self.row.cycles - self.rows
        if left <= 1e-9:
            return 0.0
        groups = max(self.groups_allowed * self.group.cycles - self.groups, 0.0)
        cycles = self._shared(left, groups)
        self.advance(cycles)
        return cycles

    def _shared(self, left: float, others: float) -> float:
        """Cycles until what is left has come, while others may come too."""
        both = min(left, others)
        return left - both + (2 * both / self.speed if both else 0.0)

    def until_group(self, number: int) -> float:
        """Cycles until the residual of a group is there, if nothing else changes."""
        left = (number + 1) * self.group.cycles - self.groups
        if left <= 1e-9:
            return 0.0
        rows = max(self.rows_allowed * self.row.cycles - self.rows, 0.0)
        return self._shared(left, rows)


@dataclass
class _Results:
    """Epilogue and writer: two halves of sums, and two of results."""

    write_cycles: tuple[float, float]
    """Of a group of a whole block, and of the last one."""
    finished: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """When the last sums of the halves that were filled last go through the epilogue."""
    written: list[float] = field(default_factory=lambda: [0.0, 0.0])
    end: float = 0.0


def core_cycles_of(op: Operation, size: CircuitSize) -> tuple[int, int] | None:
    """Launches of an operation and the sum of their cycles; None if the core does not run it."""
    found = launches_of(op, size)
    if isinstance(found, str):
        return None
    counts = [planned.count for _, planned in found]
    cycles = [cycles_of(layer, size) or 0 for layer, _ in found]
    return sum(counts), sum(n * each for n, each in zip(counts, cycles, strict=True))


@cache
def cycles_of(layer: ArrayLayer | Box, size: CircuitSize) -> int | None:
    """
    Cycles of a launch; None if the circuits refuse the layer. Placement and report ask for
    the same layers, and layers repeat in a network.
    """
    planned = plan(layer, size)
    if isinstance(planned, str):
        return None
    return round(_Launch(planned.registers, layer.starts, size).cycles())


def ceiling(size: int, unit: int) -> int:
    """How many units hold `size`."""
    return -(-size // unit)


@dataclass
class _Launch:
    """A launch in progress: the registers, and the offsets of input, result and residual."""

    registers: Mapping[str, int]
    starts: tuple[int, int, int]
    size: CircuitSize

    def mode(self, name: str) -> bool:
        """A bit of the register `mode`."""
        (bit,) = (c.value for c in register_map().modes if c.name == name)
        return bool(self.registers["mode"] >> bit & 1)

    @cached_property
    def result_size(self) -> int:
        return 4 if self.mode("MAKES_FLOATS") else 1

    @cached_property
    def multiplies(self) -> bool:
        return not self.mode("TAKES_VALUES")

    @property
    def block_pixels(self) -> int:
        return self.registers["block_rows"] * self.registers["block_columns"]

    @property
    def tiles(self) -> int:
        """Tiles of products of a pixel."""
        r = self.registers
        return r["kernel_rows"] * r["row_taps"] * r["run_tiles"]

    def cycles(self) -> float:
        r, size, multiplies = self.registers, self.size, self.multiplies
        header = ceiling(8 * size.lanes, size.bus_bytes)
        tile = ceiling(size.lanes**2, size.bus_bytes) if multiplies else 0
        beats = header + tile * self.tiles
        chain = min(size.lanes, CHAIN)
        load = tile + SWAP + (8 if size.bus_bytes > size.lanes else 0) if multiplies else 0
        free = max(HALF_FREE, HEADER_FREE + header + tile if multiplies else 0)
        stream = beats * r["output_tiles"] * r["blocks"]
        bus = self._bus()
        results = _Results(self._write_cycles())

        tables = ceiling(r["table_bytes"], size.bus_bytes)
        ahead = min(stream, QUEUE)
        stream -= ahead
        now = FIRST_BEAT + LATENCY + tables + float(ahead)
        ready = FIRST_BEAT + LATENCY + r["table_bytes"] // TABLE_WORD + header + tile
        group = 0
        height, after = r["height"], r["reads_after"]
        for image in range(r["images"]):
            for row in range(0, r["rows"], r["block_rows"]):
                rows = min(r["block_rows"], r["rows"] - row)
                top = row * r["stride_y"] + r["first_y"]
                bottom = top + (rows - 1) * r["stride_y"] + r["extent"]
                needed = image * height + min(max(bottom, 0), height)
                for column in range(0, r["columns"], r["block_columns"]):
                    columns = min(r["block_columns"], r["columns"] - column)
                    pixels = rows * columns
                    reads = rows * ((columns - 1) * r["reads_apart"] + 1 + after)
                    waited = bus.wait_for_rows(needed)
                    start = max(now + waited + (BLOCK_START if waited else 0), ready)
                    bus.advance(start - now - waited)
                    now = start
                    for output in range(r["output_tiles"]):
                        begin = max(now, results.finished[0] + free)
                        each = max(reads, load, LEAST)
                        length = max(each * self.tiles, beats)
                        # As many constants come for later tiles, until all have come.
                        fetched = min(beats, stream)
                        stream -= fetched
                        bus.advance(begin - now + max(length - fetched, 0))
                        now = begin + length
                        sums = now - each + reads - after + ARRAY_DEPTH + chain
                        group = self._finish(results, bus, sums, pixels, output, group)
                last = row + r["block_rows"] >= r["rows"]
                next_top = top + r["block_rows"] * r["stride_y"]
                freed = image * height + (height if last else max(next_top, 0))
                bus.rows_allowed = min(freed + r["slots"], r["input_rows"])
        return results.end + LATENCY + WRITE_END

    def _finish(
        self,
        results: _Results,
        bus: _Bus,
        sums: float,
        pixels: int,
        output: int,
        group: int,
    ) -> int:
        """One tile of outputs behind the array; the number of the group after it."""
        place = output % self.registers["group_tiles"]
        is_last = output == self.registers["output_tiles"] - 1
        begin = max(sums, results.finished[1] + EPILOGUE_STEP)
        if place == 0:
            begin = max(begin, results.written[0] + WRITE_FREE)
            if self.registers["residual_pitch"]:
                begin = max(begin, sums + bus.until_group(group))
        end = begin + pixels * self.result_size
        results.finished = [results.finished[1], end]
        results.end = max(results.end, end + EPILOGUE_DEPTH)
        if place < self.registers["group_tiles"] - 1 and not is_last:
            return group
        share = pixels / self.block_pixels
        start = max(end + EPILOGUE_DEPTH, results.end)
        results.end = start + WRITE_START + results.write_cycles[is_last] * share
        results.written = [results.written[1], results.end]
        bus.allow_group()
        return group + 1

    def _bus(self) -> _Bus:
        r, size = self.registers, self.size
        row = _read(
            r["row_runs"], r["run_bytes"], r["input_pitch"], r["row_pitch"], size, self.starts[0]
        )
        residual = NOTHING
        outputs, pitch = r["outputs"], r["residual_pitch"]
        if pitch:
            width = min(r["group_tiles"] * size.lanes, outputs)
            dense = pitch == outputs == width
            pixels = self.block_pixels
            runs, length = (1, pixels * width) if dense else (pixels, width)
            residual = _read(runs, length, pitch, pixels * pitch, size, self.starts[2])
            residual = replace(residual, start=RESIDUAL_START)
        groups = r["blocks"] * ceiling(r["output_tiles"], r["group_tiles"])
        allowed = min(r["slots"], r["input_rows"])
        return _Bus(row, residual, allowed, groups if pitch else 0)

    def _write_cycles(self) -> tuple[float, float]:
        """Of a group of a whole block, and of the last group, which may have fewer outputs."""
        r, pixels = self.registers, self.block_pixels
        whole = min(r["group_tiles"] * self.size.lanes, r["outputs"])
        last = r["outputs"] - (ceiling(r["outputs"], whole) - 1) * whole
        dense = last == r["outputs"] and r["result_pitch"] == last * self.result_size
        counts: list[float] = []
        for outputs in (whole, last):
            width = outputs * self.result_size
            runs, length = (1, pixels * width) if dense else (pixels, width)
            step = r["result_pitch"] * (pixels if dense else 1)
            counts.append(_read(runs, length, step, step, self.size, self.starts[1]).beats)
        return counts[0], counts[1]


def _read(runs: int, length: int, pitch: int, step: int, size: CircuitSize, start: int) -> _Read:
    """So many runs, on average over what begins every `step` bytes from `start` on."""
    found = [_bursts(length, start + i * (pitch if runs > 1 else step), size) for i in range(16)]
    bursts, beats = (runs * sum(counts) / 16 for counts in zip(*found, strict=True))
    return _Read(bursts, beats, bursts + RUN_START if runs == 1 else 0.0)


def _bursts(length: int, start: int, size: CircuitSize) -> tuple[int, int]:
    """How many bursts and beats a run is that begins at byte `start`."""
    first, last = start % BURST_BYTES, start % BURST_BYTES + length - 1
    bursts = last // BURST_BYTES + 1
    return bursts, last // size.bus_bytes - first // size.bus_bytes + 1
