"""
The typed content of the report and manifest of a compiled folder.

The files can have any origin, so invalid content is refused.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, nan
from pathlib import Path

from xdsl.utils.hints import isa

from ceras_ir.command.output_files import REPORT
from ceras_ir.pipeline.build import read_manifest
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.timeline import Lane, Timeline, parse_bars
from ceras_ir.support.user_files import read_text
from ceras_ir.targets.capabilities import MICROSECONDS, Manifest

Entry = dict[str, object]

DECIBELS = ("alone_db", "accumulated_db")
NOT_AVAILABLE = "n/a"
"""The signal-to-noise ratio of samples that do not vary."""

KNOWN = ("name", "op", "device", "macs", "bytes", "inputs", "shape", MICROSECONDS)
"""Entries of a layer with a separate field."""


@dataclass(frozen=True)
class Row:
    """A layer of the network in a report page, read from `report.json`."""

    number: int
    """The position of the layer in execution order."""
    name: str
    op: str
    device: str
    macs: int
    bytes: int
    shape: tuple[int, ...]
    inputs: tuple[int | str, ...]
    """Layers as numbers, graph inputs as names."""
    microseconds: float | None
    facts: Mapping[str, object]
    """The other entries of the report."""

    @property
    def reason(self) -> str | None:
        """The reason why the layer is computed in float or not on the accelerator, or `None`."""
        found = self.facts.get("float_reason", self.facts.get("reason"))
        return found if isinstance(found, str) else None


@dataclass(frozen=True)
class DrawnBuffer:
    """
    A buffer in the picture of a memory plan: the bytes from `offset` are in use while operations
    `first_step` to `end_step - 1` run.
    """

    name: str
    device: str
    """The device that computes the value; empty for inputs, constants, workspaces and states."""
    region: str
    offset: int
    size: int
    first_step: int
    end_step: int
    kind: str = ""
    """The use of bytes that hold no planned value, such as `workspace`."""


@dataclass(frozen=True)
class DrawnRegion:
    """
    One of several memories, such as SRAM, in the picture of a memory plan. Sizes are in bytes.
    """

    name: str
    size: int
    capacity: int


@dataclass(frozen=True)
class DrawnPlan:
    """
    A memory plan for a picture: offsets and live ranges of buffers. Sizes are in bytes; a step is
    an operation of the network.
    """

    steps: int
    size: int
    value_bytes: int
    """The size without workspaces and states."""
    lower_bound: int
    buffers: tuple[DrawnBuffer, ...]
    regions: tuple[DrawnRegion, ...] = ()

    def alive(self, step: int) -> int:
        """Return the bytes that are in use during step `step`, an index of operations."""
        return sum(b.size for b in self.buffers if b.first_step <= step < b.end_step)


@dataclass(frozen=True)
class Noise:
    """The quantization noise of a layer, as signal-to-noise ratios in decibels."""

    name: str
    op: str
    alone: float
    """The signal-to-noise ratio if only this layer is quantized."""
    accumulated: float
    """
    The signal-to-noise ratio of the layer with the noise of all preceding layers: infinite without
    loss, NaN if the samples do not vary.
    """
    share: float | None
    """The share of the noise at the outputs, from 0 to 1; `None` if unknown."""
    clipped: float
    """The share of elements that are clipped, from 0 to 1."""


@dataclass(frozen=True)
class Device:
    """The maximum speed of a device in a report: products and bytes per microsecond."""

    device: str
    macs_per_us: float
    bytes_per_us: float


@dataclass(frozen=True)
class DrawnBuild:
    """A possible build of the network for a board, with modelled flash, SRAM and time."""

    flash_bytes: int
    sram_bytes: int
    microseconds: float | None
    level: str
    """The optimization level of the C compiler."""
    kernels: str


@dataclass(frozen=True)
class TradeOff:
    """
    The possible builds of a network for a board, as `--optimize` compares them: the build for each
    goal (such as size or time), and the goal that was selected.
    """

    selected: str
    """The selected goal."""
    goals: Mapping[str, DrawnBuild]
    curve: tuple[DrawnBuild, ...]
    """Builds by flash, of which none is both smaller and faster than another."""


@dataclass(frozen=True)
class Content:
    """The report of a compiled network, as the HTML page shows it."""

    title: str
    target: str
    board: str | None
    entries: Entry
    """The content of `report.json`."""
    manifest: Manifest | None
    layers: tuple[Row, ...]
    totals: Entry
    results: Mapping[str, int | str]
    plan: DrawnPlan | None
    devices: tuple[Device, ...]
    machine: str
    model: str
    microseconds: float | None
    timelines: tuple[Timeline, ...]
    noise: tuple[Noise, ...]
    noise_total: Entry
    provenance: Entry
    trade_off: TradeOff | None

    @cached_property
    def input_names(self) -> list[str]:
        """The names of the graph inputs that a layer consumes or that are graph outputs."""
        read = [s for row in self.layers for s in row.inputs if isinstance(s, str)]
        return list(
            dict.fromkeys([*read, *(s for s in self.results.values() if isinstance(s, str))])
        )

    def total(self, name: str) -> int | float | None:
        """Return the total `name` of the report if it is a number, else `None`."""
        value = self.totals.get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None


# Reads typed fields of JSON; errors are `InputError`.
class _ReportReader:
    def __init__(self, where: str):
        self.where = where

    def wrong(self, error: str) -> InputError:
        return InputError(f"not a report of this version: {error}; compile again", self.where)

    def text(self, entry: Entry, key: str) -> str:
        value = entry.get(key)
        if not isinstance(value, str):
            raise self.wrong(f"'{key}' is not text")
        return value

    def count(self, entry: Entry, key: str) -> int:
        value = entry.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.wrong(f"'{key}' is not a count")
        return value

    def number(self, entry: Entry, key: str) -> float | None:
        value = entry.get(key)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.wrong(f"'{key}' is not a number")
        return float(value)

    def entries(self, entry: Entry, key: str) -> list[Entry]:
        value = entry.get(key, [])
        if not isa(value, list[Entry]):
            raise self.wrong(f"'{key}' is not a list")
        return value

    def entry(self, entry: Entry, key: str) -> Entry:
        value = entry.get(key, {})
        if not isa(value, Entry):
            raise self.wrong(f"'{key}' is not an object")
        return value


def content_of(entries: Entry, title: str, target: str, where: str = REPORT) -> Content:
    """
    Return the typed content of `entries`, a parsed report. Raise an `InputError` for `where`, the
    file, if it is invalid.
    """
    return _content(entries, title, target, None, where)


def read_folder(path: str) -> Content:
    """
    Read the manifest and the report in a folder that `ceras-compile` wrote. Raise an `InputError`
    if they are invalid.
    """
    folder = Path(path)
    if not folder.is_dir():
        found = "not a folder" if folder.exists() else "no such folder"
        raise InputError(f"{found}; expected a folder of ceras-compile", path)
    manifest = read_manifest(folder)
    file = folder / REPORT
    try:
        entries: object = json.loads(read_text(file))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"not a readable report: {error}", str(file)) from None
    if not isa(entries, Entry):
        raise InputError("not a report", str(file))
    name = folder.resolve().name
    return _content(entries, name, manifest.target, manifest, str(file))


def _content(
    entries: Entry, title: str, target: str, manifest: Manifest | None, where: str
) -> Content:
    read = _ReportReader(where)
    prediction, provenance = read.entry(entries, "prediction"), read.entry(entries, "provenance")
    noise = read.entry(entries, "noise")
    board = provenance.get("board")
    model = read.entry(provenance, "model").get("file")
    if isinstance(model, str):
        title = Path(model).name
    results = entries.get("results", {})
    if not isa(results, dict[str, int | str]):
        raise read.wrong("'results' is not an object of layers")
    rows = tuple(_row(read, i, entry) for i, entry in enumerate(read.entries(entries, "layers")))
    sources = [s for row in rows for s in row.inputs] + list(results.values())
    if any(isinstance(s, int) and not 0 <= s < len(rows) for s in sources):
        raise read.wrong("a layer has an unknown input")
    return Content(
        title,
        target,
        board if isinstance(board, str) else None,
        entries,
        manifest,
        rows,
        read.entry(entries, "totals"),
        results,
        _plan(read, entries),
        tuple(_device(read, entry) for entry in read.entries(prediction, "ceilings")),
        str(prediction.get("machine", "")),
        str(prediction.get("model", "")),
        read.number(prediction, MICROSECONDS),
        tuple(_timeline(read, entry) for entry in read.entries(entries, "timelines")),
        tuple(_noise(read, entry) for entry in read.entries(noise, "layers")),
        noise,
        provenance,
        _trade_off(read, entries),
    )


def _row(read: _ReportReader, number: int, entry: Entry) -> Row:
    inputs, shape = entry.get("inputs", []), entry.get("shape", [])
    if not isa(inputs, list[int | str]) or not isa(shape, list[int]):
        raise read.wrong("'inputs' or 'shape' of a layer is not a list")
    return Row(
        number,
        read.text(entry, "name"),
        read.text(entry, "op"),
        read.text(entry, "device"),
        read.count(entry, "macs"),
        read.count(entry, "bytes"),
        tuple(shape),
        tuple(inputs),
        read.number(entry, MICROSECONDS),
        {key: value for key, value in entry.items() if key not in KNOWN},
    )


def _plan(read: _ReportReader, entries: Entry) -> DrawnPlan | None:
    entry = read.entry(entries, "memory")
    if not entry:
        return None
    buffers = [
        DrawnBuffer(
            read.text(b, "name"),
            read.text(b, "device") if "kind" not in b else "",
            read.text(b, "region"),
            read.count(b, "offset"),
            read.count(b, "size"),
            read.count(b, "first_step"),
            read.count(b, "end_step"),
            read.text(b, "kind") if "kind" in b else "",
        )
        for b in read.entries(entry, "buffers")
    ]
    regions = [
        DrawnRegion(read.text(r, "name"), read.count(r, "size"), read.count(r, "capacity"))
        for r in read.entries(entry, "regions")
    ]
    return DrawnPlan(
        read.count(entry, "steps"),
        read.count(entry, "size"),
        read.count(entry, "value_bytes"),
        read.count(entry, "lower_bound"),
        tuple(buffers),
        tuple(regions),
    )


def _trade_off(read: _ReportReader, entries: Entry) -> TradeOff | None:
    entry = read.entry(entries, "optimize")
    if not entry:
        return None
    goals = read.entry(entry, "goals")
    found = {name: _build(read, read.entry(goals, name)) for name in goals}
    curve = tuple(_build(read, build) for build in read.entries(entry, "curve"))
    return TradeOff(read.text(entry, "selected"), found, curve)


def _build(read: _ReportReader, entry: Entry) -> DrawnBuild:
    return DrawnBuild(
        read.count(entry, "flash_bytes"),
        read.count(entry, "sram_bytes"),
        read.number(entry, MICROSECONDS),
        read.text(entry, "level"),
        read.text(entry, "kernels"),
    )


def _device(read: _ReportReader, entry: Entry) -> Device:
    macs, moved = (read.number(entry, key) or 0.0 for key in ("macs_per_us", "bytes_per_us"))
    if macs <= 0 or moved <= 0:
        raise read.wrong("a rate must be above 0")
    return Device(read.text(entry, "device"), macs, moved)


def _timeline(read: _ReportReader, entry: Entry) -> Timeline:
    kinds = entry.get("kinds")
    if not isa(kinds, list[str]):
        raise read.wrong("'kinds' of a timeline is not a list")
    try:
        lanes = [
            Lane(
                read.text(lane, "name"),
                read.number(lane, "busy") or 0.0,
                parse_bars(read.text(lane, "bars"), kinds),
            )
            for lane in read.entries(entry, "lanes")
        ]
    except ValueError as error:
        raise read.wrong(str(error)) from None
    cycles = read.count(entry, "cycles")
    name, note = read.text(entry, "name"), read.text(entry, "note")
    return Timeline(name, cycles, note, tuple(kinds), tuple(lanes))


def _noise(read: _ReportReader, entry: Entry) -> Noise:
    isolated, accumulated = (_ratio(read, entry, key) for key in DECIBELS)
    return Noise(
        read.text(entry, "name"),
        read.text(entry, "op"),
        isolated,
        accumulated,
        read.number(entry, "share"),
        read.number(entry, "clipped") or 0.0,
    )


def _ratio(read: _ReportReader, entry: Entry, key: str) -> float:
    if entry.get(key) == NOT_AVAILABLE:
        return nan
    ratio = read.number(entry, key)
    return inf if ratio is None else ratio


def numbers(content: Content) -> Sequence[tuple[str, int | float]]:
    """Return the totals of a report that are numbers, as pairs of name and value."""
    return [(key, value) for key in content.totals if (value := content.total(key)) is not None]
