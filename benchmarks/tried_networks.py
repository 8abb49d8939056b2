"""
What becomes of networks as they are shipped, as the page docs/tried-networks.md.

    python benchmarks/tried_networks.py FOLDER|MODEL.onnx... [--installed] [-o PAGE.md]

Every network is taken as it is: imported, compared with ONNX Runtime in float, quantized on made-up
inputs, verified against the interpreter, compiled and timed beside ONNX Runtime, in process CPU
time on one thread, rounds of both in turns. `--installed` adds the models that installed packages
bring along. What is absent, refused or takes too long is a line with the reason.
"""

import argparse
import json
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ceras_ir.data.synthetic_samples import synthetic_samples
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.reading import read_network
from ceras_ir.support.diagnostics import InputError

BIN = Path(sys.executable).parent
ROUNDS = 5
SECONDS = 300
"""Of one command."""

PAGE = """\
<!-- Written by benchmarks/tried_networks.py. -->

# Networks that were tried

Networks as they are shipped or exported, without options. Times are milliseconds of process CPU
time on one thread; in brackets how many times as fast as ONNX Runtime in float.
[networks.md](networks.md) has networks with real inputs on all targets.

- *error*: the largest difference of the float network in the interpreter from ONNX Runtime,
  relative to the largest output.
- *int8*: the share of multiplications that are done in integers.
- *dB*: signal to noise of int8 against float on made-up inputs, which also calibrated.
- *exact*: whether C has the interpreter's integers.

| network | import | error | int8 | dB | exact | ONNX Runtime | C, float | C, int8 |
|---|---|---|---|---|---|---|---|---|
"""


@dataclass
class Row:
    """What is known of one network."""

    name: str
    imported: str = "yes"
    error: str = "-"
    share: str = "-"
    noise: str = "-"
    exact: str = "-"
    runtime: str = "-"
    floats: str = "-"
    integers: str = "-"

    def markdown(self) -> str:
        return f"| {' | '.join(vars(self).values())} |\n"


def models(paths: Sequence[str], installed: bool) -> Iterator[Path]:
    """The files that are named, in folders or alone, and those of installed packages."""
    for path in map(Path, paths):
        yield from sorted(path.glob("*.onnx")) if path.is_dir() else [path]
    if installed:
        folder = Path(sysconfig.get_paths()["purelib"])
        found = folder.rglob("*.onnx")
        # Those of the onnx package are cases of single operators.
        yield from sorted(path for path in found if "onnx" not in path.relative_to(folder).parts[0])


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command; one that takes too long ends with status 124."""
    command = [str(BIN / name), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"more than {SECONDS} s")


def first_line(text: str) -> str:
    """What a command says first, short and without what ends a cell."""
    lines = [line for line in text.splitlines() if "error:" in line] or text.splitlines() or ["?"]
    return lines[0].partition("error: ")[2].replace("|", "/")[:110] or lines[0][:110]


def session_of(path: Path) -> Any:
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def difference(expected: NDArray[Any], actual: NDArray[Any]) -> float:
    a, b = (np.asarray(array, np.float64) for array in (expected, actual))
    return float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-9)) if a.size else 0.0


def tried(path: Path) -> Row:
    """Everything about one network, as far as it gets."""
    row = Row(path.stem)
    if not path.is_file():
        row.imported = "absent"
        return row
    try:
        module = read_network(str(path))
    except InputError as error:
        row.imported = f"refused: {first_line(str(error))}"
        return row
    (sample,) = synthetic_samples(main_function(module), 1, 1)
    names: list[str] = []
    try:
        session = session_of(path)
        names = [output.name for output in session.get_outputs()]
        expected = dict(zip(names, session.run(names, sample), strict=True))
    except Exception as error:
        session, expected = None, {}
        row.runtime = f"refused: {first_line(str(error))}"
    if expected:
        found = run(module, sample)
        row.error = f"{max(difference(expected[n], found[n]) for n in names):.1e}"
    said = tool("ceras-verify", str(path), "--targets", "c", "--samples", "2")
    noise = re.search(r"signal to noise (\S+) dB", said.stdout)
    row.noise = noise[1] if noise else "-"
    machine = [line for line in said.stdout.splitlines() if line.startswith("c: machine")]
    good = said.returncode == 0 and machine and machine[0].endswith("exact")
    row.exact = "exact" if good else first_line(said.stderr or said.stdout)
    with tempfile.TemporaryDirectory() as work:
        folders = {kind: Path(work) / kind for kind in ("none", "int8")}
        for kind, folder in folders.items():
            options = ["--target", "c", "--quantize", kind, "-o", str(folder)]
            if tool("ceras-compile", str(path), *options).returncode == 0:
                subprocess.run(["make", "-s", "-C", str(folder)], check=False, timeout=SECONDS)
        if (report := folders["int8"] / "report.json").is_file():
            layers = json.loads(report.read_text())["layers"]
            total = sum(layer["macs"] for layer in layers)
            whole = sum(layer["macs"] for layer in layers if "bits" in layer)
            row.share = f"{100 * whole / total:.0f}%" if total else "-"
        times = timed(folders, session, sample)
    if (base := times.get("runtime")) is not None:
        row.runtime = f"{base:.2f}"
    for kind, name in (("none", "floats"), ("int8", "integers")):
        if (mine := times.get(kind)) is not None:
            ratio = f" ({base / mine:.1f})" if base else ""
            setattr(row, name, f"{mine:.2f}{ratio}")
    return row


def timed(folders: dict[str, Path], session: Any, sample: dict[str, Any]) -> dict[str, float]:
    """Medians of the rounds of all that runs, in milliseconds."""
    rounds: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        if session is not None:
            session.run(None, sample)
            runs, start = 0, time.process_time()
            while runs < 3 or time.process_time() - start < 0.1:
                session.run(None, sample)
                runs += 1
            rounds.setdefault("runtime", []).append((time.process_time() - start) * 1e3 / runs)
        for kind, folder in folders.items():
            if (program := folder / "model_bench").is_file():
                said = subprocess.run(
                    [str(program), "5"], cwd=folder, capture_output=True, text=True, check=False
                )
                if said.returncode == 0:
                    rounds.setdefault(kind, []).append(json.loads(said.stdout)["median_ms"])
    return {kind: float(np.median(values)) for kind, values in rounds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*")
    parser.add_argument("--installed", action="store_true")
    parser.add_argument("-o", default=Path("docs/tried-networks.md"), type=Path)
    arguments = parser.parse_args()
    rows: list[str] = []
    for path in models(arguments.models, arguments.installed):
        rows.append(tried(path).markdown())
        print(rows[-1], end="", flush=True)
        # After each: a run of hours may end early.
        arguments.o.write_text(PAGE + "".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
