"""
Compare generated C with other runtimes on this machine: networks of `ROWS` in float, int8, int4.

    python -m venv peers
    peers/bin/pip install onnx onnxruntime openvino nncf mnn ncnn
    peers/bin/pip install --no-deps pnnx
    python benchmarks/peers.py --python peers/bin/python [--litert litert/bin/python]
        [--only PATTERN] [--kind float|int8|int4] [--peers NAME,...] [--threads N]
        [--isa vnni|native] [--board NAME] [--budget SHARE] [--rounds N] [--seconds S]
        [--folder DIR] [--prepare] [--csv FILE] [--markdown PAGE.md]

LiteRT needs a separate environment: `pip install onnx2tf tensorflow-cpu ai-edge-litert`.

1. Weights are seeded. All runtimes calibrate int8 with the same samples; `peer_conversions.py` has
   the methods. The C is compiled with `--optimize speed`, which is `balanced` on computers.
2. In each round, all programs run one after another on the same processors. A figure is the median
   of rounds: processor time for one thread, elapsed time for several.
3. Agreement is the signal-to-noise ratio of the first output in dB, compared with the float
   network in ONNX Runtime without optimization of the graph.
4. The best peer is the fastest with a correct result: at least 50 dB in float and 10 dB otherwise.
5. The bound is the larger of two times: the products at the peak rate of the processor, and a loop
   that only loads the weights. Winograd has fewer products, and can be faster.
6. `--isa vnni` denies all programs the tile registers of AMX. Each process reports whether it has
   requested them.

`--board` names the board file with the rates of this computer, from which times are predicted.
`--budget 0` compiles int8 without 16-bit values, as the other runtimes do.
`--folder` keeps models, converted forms and compiled C; `--prepare` only fills it. `--markdown`
replaces the text between the lines `<!-- peers N -->` and `<!-- end -->` of a page, where N is the
number of threads.
"""

import argparse
import csv
import json
import math
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill

import numpy as np
import peer_networks as nets
from c_host import peaks
from networks import ds_cnn, mobilenet_v2, resnet8, resnet18, resnet50
from peer_programs import HERE, PEERS, Cell, Failed, Place, Programs, Row, Talk, agreement, run
from yolox import yolox

LEAST_DB = {"float": 50.0, "int8": 10.0, "int4": 10.0}
"""The agreement of a correct result, with which a runtime can be the best."""

STATES = tuple(
    (f"{kind}{layer}", f"next_{kind}{layer}")
    for layer in range(nets.LAYERS)
    for kind in ("key", "value")
)

KINDS = "float", "int8", "int4"

ROWS = (
    Row("keyword spotter", ds_cnn),
    Row("ResNet-8", resnet8),
    Row("TCN", nets.tcn),
    Row("LSTM 128", nets.lstm, "dynamic"),
    Row("MobileNetV3-S", nets.mobilenet_v3),
    Row("MobileNetV2", mobilenet_v2),
    Row("EfficientNet-lite0", nets.efficientnet_lite0),
    Row("U-Net 128", nets.unet),
    Row("YOLOv8n-like 320", nets.yolov8n),
    Row("YOLOX-s 416", yolox),
    Row("ResNet-18", resnet18),
    Row("ResNet-50", resnet50),
    Row("ViT-tiny", nets.vit_tiny, "transformer"),
    Row("MiniLM-like", nets.minilm, "transformer"),
    Row("decoder step", nets.decoder_step, "weights", STATES, kinds=KINDS),
    *(
        Row(f"DynamicQuantizeLSTM {units}", lambda path, units=units: nets.lstm(path, units),
            "dynamic", kinds=("int8",), is_quantized=True)
        for units in (128, 256)
    ),
)  # fmt: skip


@dataclass
class Result:
    """A network in a number format, with the cells of all programs."""

    row: Row
    kind: str
    ours: Cell
    peers: list[Cell]
    single: list[float] = field(default_factory=list[float])
    """Elapsed times of the C with one thread, if `times` are of several threads."""
    predicted_ms: float = math.nan
    bound_ms: float = math.nan

    @property
    def best(self) -> Cell | None:
        """The fastest peer with a correct result."""
        cells = [c for c in self.peers if c.times and c.decibels >= LEAST_DB[self.kind]]
        return min(cells, key=milliseconds, default=None)

    @property
    def ratio(self) -> float:
        return milliseconds(self.best) / milliseconds(self.ours) if self.best else math.nan


def milliseconds(cell: Cell) -> float:
    return statistics.median(cell.times) if cell.times else math.nan


class Comparison:
    """Compares all programs on a network."""

    def __init__(self, programs: Programs, arguments: argparse.Namespace):
        self.programs, self.threads = programs, programs.threads
        self.peers: list[str] = arguments.peers
        self.rounds: int = arguments.rounds
        self.seconds: float = arguments.seconds
        self.is_dry: bool = arguments.prepare
        self.peak: dict[str, float] = {}
        if not self.is_dry:
            rates = peaks(programs.folder)
            tiles = rates["amx"] if programs.isa == "native" else 0.0
            integers = max(rates["int8"], tiles)
            self.peak = {"float": rates["float32"], "int8": integers, "int4": integers}

    def results(self, rows: Sequence[Row], kinds: Sequence[str]) -> Iterator[Result]:
        for row in rows:
            place = self.programs.place(row)
            for kind in row.kinds:
                if kind in kinds:
                    yield self.result(row, kind, place)

    def result(self, row: Row, kind: str, place: Place) -> Result:
        cells = [self.programs.converted(row, kind, peer, place) for peer in self.peers]
        model = place.model
        if row.is_quantized or kind == "int4":
            model = Path(self.programs.converted(row, kind, "onnxruntime", place).form)
        ours = self.programs.compiled(row, kind, place, model)
        result = Result(row, kind, ours, cells)
        if not self.is_dry:
            self.measure(result, place)
        return result

    def measure(self, result: Result, place: Place) -> None:
        key = "process" if self.threads == 1 else "wall"
        ours = result.ours
        if not ours.reason:
            output = self.programs.c_output(ours, place)
            ours.decibels = agreement(place.reference, [output])
            self.limits(result)
        with ExitStack() as stack:
            talks = [(c, t) for c in result.peers if (t := self.started(stack, c, place))]
            for _ in range(self.rounds):
                if not ours.reason:
                    found = self.programs.c_time(ours, self.seconds, self.threads)
                    ours.times.append(found[key])
                    if self.threads > 1:
                        single = self.programs.c_time(ours, self.seconds, 1)
                        result.single.append(single["wall"])
                for cell, talk in talks:
                    cell.times.append(talk(f"run {self.seconds}")[key])

    def started(self, stack: ExitStack, cell: Cell, place: Place) -> Talk | None:
        """Start the process of a runtime, and compare its output."""
        if cell.reason:
            return None
        file = place.folder / f"{cell.program}.npz"
        try:
            talk = stack.enter_context(self.programs.served(cell.program, cell.form, place.data))
            cell.details = str(talk("")["details"])
            talk(f"outputs {file}")
        except Failed as error:
            cell.reason = str(error)
            return None
        with np.load(file) as arrays:
            cell.decibels = agreement(place.reference, list(arrays.values()))
        if math.isnan(cell.decibels):
            cell.reason = "no output has the size of the first output, or a value is no number"
            return None
        return talk

    def limits(self, result: Result) -> None:
        """Add the predicted time and the bound, both for one thread."""
        report = json.loads((Path(result.ours.form) / "report.json").read_text())["totals"]
        result.predicted_ms = report.get("latency_us", math.nan) / 1e3
        loads = float(run(self.reader(), str(report["weight_bytes"]))) / 1e3
        result.bound_ms = max(report["macs"] / self.peak[result.kind] / 1e6, loads)

    def reader(self) -> Path:
        program = self.programs.folder / "recurrent_bound"
        if not program.exists():
            run("cc", "-O2", "-march=native", HERE / "recurrent_bound.c", "-o", program)
        return program


def number(value: float) -> str:
    """Return three significant digits, or "" for nan."""
    if math.isnan(value):
        return ""
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:.{max(0, digits)}f}"


def decibels(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.0f}"


def cells_of(result: Result, peers: Sequence[str]) -> list[str]:
    """Return the cells of a line of the table, in the order of `header`."""
    ours, best = result.ours, result.best
    line = [result.row.name, result.kind, number(milliseconds(ours))]
    if result.single:
        line.append(f"{statistics.median(result.single) / milliseconds(ours):.2f}")
    else:
        line += [decibels(ours.decibels), number(result.predicted_ms), number(result.bound_ms)]
    for peer in peers:
        (cell,) = (c for c in result.peers if c.program == peer)
        time = number(milliseconds(cell))
        more = "" if result.single else f" ({decibels(cell.decibels)})"
        line.append(f"{time}{more}" if time else "-")
    line += [PEERS[best.program], f"{result.ratio:.2f}"] if best else ["", ""]
    return line


def header(peers: Sequence[str], threads: int) -> list[str]:
    more, unit = (["speed-up"], "") if threads > 1 else (["dB", "predicted", "bound"], " (dB)")
    return ["network", "type", "C, ms", *more, *(f"{PEERS[p]}{unit}" for p in peers),
            "best peer", "peer / C"]  # fmt: skip


def wrapped(text: str) -> str:
    """Wrap lines as the pages of the project do."""
    lines = [
        fill(line, 120, subsequent_indent="  " * line.startswith("- "), break_on_hyphens=False)
        for line in text.splitlines()
    ]
    return "\n".join(lines)


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def reasons(results: Sequence[Result]) -> list[str]:
    """Return a line for each program and reason, with the networks or, if many, their number."""
    found: dict[tuple[str, str], list[str]] = {}
    for result in results:
        for cell in (result.ours, *result.peers):
            if cell.reason:
                key = PEERS.get(cell.program, cell.program), cell.reason.split(". ")[0]
                found.setdefault(key, []).append(f"{result.row.name} {result.kind}")
    return [
        f"- {name}: {reason} ({', '.join(rows) if len(rows) <= 2 else f'{len(rows)} networks'})"
        for (name, reason), rows in found.items()
    ]


def title(comparison: Comparison) -> str:
    programs, peak = comparison.programs, comparison.peak
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    versions = map(programs.versions, comparison.peers)
    compiler = run("cc", "--version").splitlines()[0]
    unit = "processor time" if programs.threads == 1 else "elapsed time"
    return (
        f"{cpu[1] if cpu else 'this processor'}, --isa {programs.isa}, {programs.threads} "
        f"thread(s), {unit} in ms, median of {comparison.rounds} rounds. Peak of a core: "
        f"{peak['int8']:.0f} int8 and {peak['float']:.0f} float GMAC/s.\n"
        f"{compiler}; {', '.join(filter(None, versions))}."
    )


def replace_in_page(page: Path, threads: int, text: str) -> None:
    content = page.read_text()
    start, end = f"<!-- peers {threads} -->\n", "<!-- end -->"
    before, found, rest = content.partition(start)
    if not found or end not in rest:
        sys.exit(f"error: {page} has no lines '{start.strip()}' and '{end}'")
    page.write_text(before + found + "\n" + text + "\n\n" + end + rest.partition(end)[2])


def arguments_of() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", type=Path, default=Path(sys.executable),
                        help="the Python of the peers (default: this one)")  # fmt: skip
    parser.add_argument("--litert", type=Path, help="the Python of LiteRT and onnx2tf")
    parser.add_argument("--only", default="", help="networks that match a regular expression")
    parser.add_argument("--kind", choices=KINDS, help="only this type")
    parser.add_argument("--peers", default=",".join(PEERS), help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--isa", choices=("vnni", "native"), default="native")
    parser.add_argument("--board", help="the board file of this computer")
    parser.add_argument("--budget", metavar="SHARE", help="of ceras-compile, for int8")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a program in a round")
    parser.add_argument("--folder", type=Path, help="keep models and programs here")
    parser.add_argument("--prepare", action="store_true", help="measure nothing")
    parser.add_argument("--csv", type=Path, help="write the cells of the table")
    parser.add_argument("--markdown", type=Path, help="replace the table of a page")
    arguments = parser.parse_args()
    arguments.peers = arguments.peers.split(",")
    for peer in arguments.peers:
        if peer not in PEERS:
            parser.error(f"--peers: '{peer}' is none of {', '.join(PEERS)}")
    return arguments


def main() -> None:
    arguments = arguments_of()
    rows = [row for row in ROWS if re.search(arguments.only, row.name, re.IGNORECASE)]
    kinds = [arguments.kind] if arguments.kind else KINDS
    pythons = {peer: arguments.python.absolute() for peer in PEERS}
    pythons["litert"] = arguments.litert.absolute() if arguments.litert else None
    with tempfile.TemporaryDirectory(prefix="ceras-peers-") as name:
        folder: Path = (arguments.folder or Path(name)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        threads, isa, board = arguments.threads, arguments.isa, arguments.board
        programs = Programs(folder, pythons, threads, isa, board, arguments.budget)
        if not programs.versions("onnxruntime"):
            sys.exit(f"error: {arguments.python} has no package onnxruntime: see --help")
        comparison = Comparison(programs, arguments)
        head = header(comparison.peers, comparison.threads)
        results: list[Result] = []
        for result in comparison.results(rows, kinds):
            results.append(result)
            line = cells_of(result, comparison.peers)
            print(f"{line[0]}: {', '.join(filter(None, line[1:]))}", flush=True)
            for cell in result.peers:
                if cell.details:
                    print(f"    {PEERS[cell.program]}: {cell.details}", flush=True)
        lines = [cells_of(result, comparison.peers) for result in results]
        missing = "\n".join(reasons(results))
        if comparison.is_dry:
            print(missing)
            return
        parts = (wrapped(title(comparison)), markdown(head, lines), wrapped(missing))
        text = "\n\n".join(parts).rstrip()
    print(text)
    if arguments.csv:
        with open(arguments.csv, "w", newline="") as stream:
            csv.writer(stream).writerows([head, *lines])
    if arguments.markdown:
        replace_in_page(arguments.markdown, comparison.threads, text)


if __name__ == "__main__":
    main()
