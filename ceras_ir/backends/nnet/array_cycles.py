"""
Model the cycles in which the FPGA core in Verilog executes a layer, for each tile of outputs.

The function tables are loaded first. Then three units work at the same time: the array, which
consumes one input vector per cycle; the bus, on which constants have priority and residual and
input rows alternate; and the epilogue with the writer after it. The slowest unit determines the
time. The constants describe the pipelines in `hdl/`. A test compares the model with a simulation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from xdsl.ir import Operation

from ceras_ir.backends.nnet.array_plan import ArrayLayer, Box, launches_of, plan
from ceras_ir.backends.nnet.circuits import CircuitSize, number, register_map

MAX_CHAIN_ROWS = number("hdl/product_array.sv", "CHAIN")  # added up in a column of the array
MIN_TILE_CYCLES = number("hdl/tile_runner.sv", "LEAST")

# The bus. Short bursts wait for memory; the latencies of `MAX_BURSTS` short bursts overlap.
MEMORY_LATENCY_CYCLES = 32  # of memory
BURST_BYTES = number("hdl/nnet_core.sv", "BURST_BYTES")
MAX_BURSTS = number("hdl/axi_reader.sv", "OUTSTANDING")  # in flight
BURST_CYCLES = (MEMORY_LATENCY_CYCLES + 2) / MAX_BURSTS
RUN_START = 1  # from the last burst of a row to the first of the next
RESIDUAL_START = 8  # from the last burst of a block's residual to the first of the next
QUEUE_BEATS = number("hdl/stream_loader.sv", "DEPTH")  # of constants that are prefetched
FIRST_BEAT = 6  # from the start to the first data, in addition to the latency
TABLE_WORD_BYTES = 8  # of a table, written per cycle

# The array.
BLOCK_START = 8  # from the last row that a block needs to its first input vector
SWAP = 5  # from the first input vector of a tile until the next weights may arrive
ARRAY_DEPTH = 9  # from an input vector to the epilogue, in addition to `MAX_CHAIN_ROWS`

# The epilogue. The sums have two halves.
EPILOGUE_STEP = 1  # from the last sum of a half to the first sum of the other half
HALF_FREE = 6  # from the last sum of a half to the first product that is added in the same half
HEADER_FREE = 11  # the same to the constants of the tile after the next, which precede the weights
EPILOGUE_DEPTH = 7  # from a sum to the write command

# The writer. The results have two halves.
WRITE_START = 10  # from a full half, or the last beat of the other, to the first beat
WRITE_FREE = 3  # from the last beat of a half to the first sum that may be written to it
WRITE_END = 15  # from the last beat to the end, in addition to the latency


@dataclass(frozen=True)
class _Read:
    """
    The bus transfer of a row of the input, or of the residual of a group of outputs: the number of
    bursts, and of beats, which are cycles with data.
    """

    bursts: float
    beats: float
    request_cycles: float = 0.0
    """The minimum number of cycles in which the bursts can be requested."""
    idle_cycles: float = 0.0
    """The cycles before the first request."""

    @property
    def cycles(self) -> float:
        """The cycles of the transfer if no other transfer uses the bus."""
        requests = self.bursts * BURST_CYCLES + self.idle_cycles
        return max(self.beats, requests, self.request_cycles)


@dataclass
class _Bus:
    """
    The progress of the bus, which reads input rows (`row`) and residuals (`group`) in the cycles
    that constants leave free. `rows_allowed` and `groups_allowed` are the numbers of rows and
    residuals, from the start on, that may be read because a buffer is free.
    """

    row: _Read
    group: _Read
    rows_allowed: int
    all_groups: int
    """
    The number of groups of results with a residual, 0 without residual. Two residuals are
    prefetched.
    """
    rows: float = 0.0
    """The bus cycles spent on rows of the input."""
    groups: float = 0.0
    """The bus cycles spent on residuals."""
    groups_allowed: int = 0

    def __post_init__(self) -> None:
        self.groups_allowed = min(2, self.all_groups)

    def allow_group(self) -> None:
        self.groups_allowed = min(self.groups_allowed + 1, self.all_groups)

    @cached_property
    def speed(self) -> float:
        """
        The speedup, 1 or more, if rows and residuals are read at the same time: a short burst waits
        for memory while a long burst of the other transfer arrives.
        """
        row, group = self.row, self.group
        beats = row.beats / row.bursts + group.beats / group.bursts
        separate = row.cycles / row.bursts + group.cycles / group.bursts
        pairs = min(row.bursts / row.cycles, group.bursts / group.cycles)
        saved = pairs * (separate - max(beats, 2 * BURST_CYCLES))
        return 2 / (2 - max(saved, 0.0))

    def advance(self, cycles: float) -> None:
        """
        Read rows and residuals for a number of cycles; the bus is idle when all their buffers are
        full.
        """
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
        """
        Advance until `count` input rows are read, and return the cycles that this takes; 0 if they
        already are.
        """
        left = count * self.row.cycles - self.rows
        if left <= 1e-9:
            return 0.0
        groups = max(self.groups_allowed * self.group.cycles - self.groups, 0.0)
        cycles = self._shared(left, groups)
        self.advance(cycles)
        return cycles

    def _shared(self, left: float, competing: float) -> float:
        both = min(left, competing)
        return left - both + (2 * both / self.speed if both else 0.0)

    def until_group(self, number: int) -> float:
        """
        Return the cycles until the residual of group `number` is read, if no further buffer becomes
        free for rows or residuals; 0 if it already is. The state is not changed.
        """
        left = (number + 1) * self.group.cycles - self.groups
        if left <= 1e-9:
            return 0.0
        rows = max(self.rows_allowed * self.row.cycles - self.rows, 0.0)
        return self._shared(left, rows)


@dataclass
class _Results:
    """
    The progress of the output stage (epilogue) and of the writer. Each has two buffers, called
    halves: the epilogue for sums, the writer for results.
    """

    write_cycles: tuple[float, float]
    """
    The cycles in which the writer stores a group of a full block, and the last group of the
    channels.
    """
    finished: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """The cycles at which the epilogue consumes the last sums of the two latest halves."""
    written: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """The cycles of the last beats of the two latest halves of results."""
    end: float = 0.0


def core_cycles_of(op: Operation, size: CircuitSize) -> tuple[int, int] | None:
    """
    Return the number of launches in which the core in Verilog executes an operation, and the cycles
    of all launches together; `None` if the core cannot execute it.
    """
    found = launches_of(op, size)
    if isinstance(found, str):
        return None
    counts = [planned.count for _, planned in found]
    cycles = [cycles_of(layer, size) or 0 for layer, _ in found]
    return sum(counts), sum(n * each for n, each in zip(counts, cycles, strict=True))


@cache
def cycles_of(layer: ArrayLayer | Box, size: CircuitSize) -> int | None:
    """
    Return the modelled cycles of a launch, or `None` if the circuits refuse the layer. The results
    are cached: placement and report request the same layers, and layers repeat in a network.
    """
    planned = plan(layer, size)
    if isinstance(planned, str):
        return None
    return round(_Launch(planned.registers, layer.starts, size).cycles())


def _ceiling(size: int, unit: int) -> int:
    return -(-size // unit)


@dataclass
class _Launch:
    """
    The register values of a launch, and the start addresses of input, result and residual, modulo
    the alignment of the arena.
    """

    registers: Mapping[str, int]
    starts: tuple[int, int, int]
    size: CircuitSize

    def mode(self, name: str) -> bool:
        """Return the bit `name` of the register `mode`."""
        (bit,) = (c.value for c in register_map().flags if c.name == name)
        return bool(self.registers["mode"] >> bit & 1)

    @cached_property
    def result_size(self) -> int:
        return 4 if self.mode("MAKES_FLOATS") else 1

    @cached_property
    def multiplies(self) -> bool:
        return not self.mode("TAKES_VALUES")

    @property
    def weight_bits(self) -> int:
        return 4 if self.mode("FOUR_BITS") else 2 if self.mode("TWO_BITS") else 8

    @property
    def block_pixels(self) -> int:
        return self.registers["block_rows"] * self.registers["block_columns"]

    @property
    def tiles(self) -> int:
        """The number of tiles of weights whose products are added for an output."""
        r = self.registers
        return r["kernel_rows"] * r["row_taps"] * r["run_tiles"]

    def cycles(self) -> float:
        r, size, multiplies = self.registers, self.size, self.multiplies
        header = _ceiling(8 * size.lanes, size.bus_bytes)
        tile = _ceiling(size.lanes**2 * self.weight_bits, 8 * size.bus_bytes) if multiplies else 0
        beats = header + tile * self.tiles
        chain = min(size.lanes, MAX_CHAIN_ROWS)
        load = tile + SWAP + max(chain - tile - 1, 0) if multiplies else 0
        free = max(HALF_FREE, HEADER_FREE + header + tile if multiplies else 0)
        stream = beats * r["output_tiles"] * r["blocks"]
        bus = self._bus()
        results = _Results(self._write_cycles())

        tables = _ceiling(r["table_bytes"], size.bus_bytes)
        ahead = min(stream, QUEUE_BEATS)
        stream -= ahead
        now = FIRST_BEAT + MEMORY_LATENCY_CYCLES + tables + float(ahead)
        ready = (
            FIRST_BEAT
            + MEMORY_LATENCY_CYCLES
            + r["table_bytes"] // TABLE_WORD_BYTES
            + header
            + tile
        )
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
                        each = max(reads, load, MIN_TILE_CYCLES)
                        length = max(each * self.tiles, beats)
                        # The constants of later tiles have priority on the bus.
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
        return results.end + MEMORY_LATENCY_CYCLES + WRITE_END

    def _finish(
        self, results: _Results, bus: _Bus, sums: float, pixels: int, output: int, group: int
    ) -> int:
        """
        Add the cycles in which the epilogue converts, and the writer stores, the tile `output` of
        the channels; `sums` is the cycle of the last sum. A group of tiles is written together:
        return the number of the group of the next tile.
        """
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
        residual = _Read(0.0, 0.0)
        outputs, pitch = r["outputs"], r["residual_pitch"]
        if pitch:
            width = min(r["group_tiles"] * size.lanes, outputs)
            dense = pitch == outputs == width
            pixels = self.block_pixels
            runs, length = (1, pixels * width) if dense else (pixels, width)
            residual = _read(runs, length, pitch, pixels * pitch, size, self.starts[2])
            residual = replace(residual, idle_cycles=RESIDUAL_START)
        groups = r["blocks"] * _ceiling(r["output_tiles"], r["group_tiles"])
        allowed = min(r["slots"], r["input_rows"])
        return _Bus(row, residual, allowed, groups if pitch else 0)

    def _write_cycles(self) -> tuple[float, float]:
        r, pixels = self.registers, self.block_pixels
        full = min(r["group_tiles"] * self.size.lanes, r["outputs"])
        last = r["outputs"] - (_ceiling(r["outputs"], full) - 1) * full
        dense = last == r["outputs"] and r["result_pitch"] == last * self.result_size

        def cycles(outputs: int) -> float:
            width = outputs * self.result_size
            runs, length = (1, pixels * width) if dense else (pixels, width)
            step = r["result_pitch"] * (pixels if dense else 1)
            return _read(runs, length, step, step, self.size, self.starts[1]).beats

        return cycles(full), cycles(last)


def _read(runs: int, length: int, pitch: int, step: int, size: CircuitSize, start: int) -> _Read:
    # The average over 16 positions.
    found = [_bursts(length, start + i * (pitch if runs > 1 else step), size) for i in range(16)]
    bursts, beats = (runs * sum(counts) / 16 for counts in zip(*found, strict=True))
    return _Read(bursts, beats, bursts + RUN_START if runs == 1 else 0.0)


def _bursts(length: int, start: int, size: CircuitSize) -> tuple[int, int]:
    """
    Return the number of bus bursts, and the number of bus cycles with data (beats), that transfer
    `length` bytes from the address `start`.
    """
    first, last = start % BURST_BYTES, start % BURST_BYTES + length - 1
    bursts = last // BURST_BYTES + 1
    return bursts, last // size.bus_bytes - first // size.bus_bytes + 1
