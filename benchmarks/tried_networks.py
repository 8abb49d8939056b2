"""
Try published networks without options, and write the page docs/tried-networks.md.

    python benchmarks/tried_networks.py FOLDER|MODEL.onnx... [--installed]
        [--large FOLDER|MODEL.onnx...] [-o PAGE.md]

Each network is imported, compared with ONNX Runtime in float, quantized on 16 samples of NAME.npz
next to it (or synthetic samples), evaluated on 8 other samples, verified against the interpreter,
compiled, and timed alternately with ONNX Runtime in float and int8 (static, per channel, same
samples), in processor time on a single thread. `--installed` adds the models of installed
packages; models of `--large` use fewer samples. A network that is missing, refused or too slow has
a line with the reason.
"""

import argparse
import json
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from network_pages import models, samples_of, table
from numpy.typing import NDArray

from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.report import PRODUCTS
from ceras_ir.support.diagnostics import InputError
from ceras_ir.transforms.quantization.analysis.output_noise import ratio_of

BIN = Path(sys.executable).parent
ROUNDS = 5
SECONDS = 300
"""The time limit of a command."""
LARGE = 1e-4
"""The difference from ONNX Runtime above which ONNX's reference implementation is also run."""
CALIBRATE, JUDGE = 16, 8
"""The number of samples for each purpose."""
FEW = 4, 2
"""The number of samples for networks that need minutes for more."""

PAGE = """\
<!-- Written by benchmarks/tried_networks.py. -->

# Networks with times

`python benchmarks/tried_networks.py FOLDER` writes this page. Networks are published files or
exports with default options; networks with random weights represent a topology.
[networks.md](networks.md) has networks with real inputs on all targets.

- *import*: whether the importer accepts the model.
- *error*: the maximum difference of the float network in the interpreter from ONNX Runtime, divided
  by the maximum output. If it is above 1e-4, parentheses have the difference from ONNX's reference
  evaluator.
- *int8*: the share of multiplications in integers.
- *dB*: the signal-to-noise ratio of int8 at the outputs, on 8 samples after 16 calibration samples.
  Parentheses have the int8 network of ONNX Runtime (static, per channel) with the same samples;
  inf: no difference from float.
- *exact*: the targets, of c and nnet, that compute the integers of the interpreter.
- The last four columns are times: milliseconds of processor time on a single thread, measured in
  alternating rounds. *its int8* is the int8 network of ONNX Runtime. Parentheses have the speed
  relative to ONNX Runtime in float, then relative to its int8.

"""
COLUMNS = (
    *("network", "import", "error", "int8", "dB", "exact", "ONNX Runtime", "its int8"),
    *("C, float", "C, int8"),
)
USUAL = ("import", "int8", "exact")
"""Columns that are equal for most networks."""


@dataclass
class Row:
    """The results for a network."""

    name: str
    imported: str = "yes"
    error: str = "-"
    share: str = "-"
    noise: str = "-"
    exact: str = "-"
    runtime: str = "-"
    peer: str = "-"
    floats: str = "-"
    integers: str = "-"

    def cells(self) -> dict[str, str]:
        """Return the value of each column."""
        return dict(zip(COLUMNS, vars(self).values(), strict=True))


def installed_models() -> Iterator[Path]:
    """Yield the models that installed packages contain."""
    folder = Path(sysconfig.get_paths()["purelib"])
    found = folder.rglob("*.onnx")
    # The models of the onnx package are cases of single operators.
    yield from sorted(path for path in found if "onnx" not in path.relative_to(folder).parts[0])


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command, and return status 124 after a timeout."""
    command = [str(BIN / name), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"more than {SECONDS} s")


def first_line(text: str) -> str:
    """Return the first error or line of an output, shortened and without table separators."""
    lines = [line for line in text.splitlines() if "error:" in line] or text.splitlines() or ["?"]
    return lines[0].partition("error: ")[2].replace("|", "/")[:110] or lines[0][:110]


def session_of(path: Path) -> Any:
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def given_to(session: Any, sample: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return a sample with the types that ONNX Runtime requires, in half precision if necessary."""
    halves = {i.name for i in session.get_inputs() if i.type == "tensor(float16)"}
    return {n: a.astype(np.float16) if n in halves else a for n, a in sample.items()}


def greatest(
    names: Sequence[str], wanted: Sequence[NDArray[Any]], found: Mapping[str, NDArray[Any]]
) -> float:
    """Return the largest difference of all outputs."""
    return max(difference(value, found[n]) for n, value in zip(names, wanted, strict=True))


def difference(expected: NDArray[Any], actual: NDArray[Any]) -> float:
    a, b = (np.asarray(array, np.float64) for array in (expected, actual))
    return float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-9)) if a.size else 0.0


def stacked(samples: Sequence[dict[str, NDArray[Any]]], path: Path) -> str:
    """Write a file of samples for commands."""
    arrays = {
        name: np.stack([s[name][0] if s[name].shape[:1] == (1,) else s[name] for s in samples])
        for name in samples[0]
    }
    np.savez(path, **arrays)  # pyright: ignore[reportArgumentType]
    return str(path)


def quantized_by_runtime(
    path: Path, samples: Sequence[dict[str, NDArray[Any]]], work: Path
) -> Any | None:
    """
    Return a session of the int8 network of ONNX Runtime: static, symmetric weights per channel.
    """
    tools: Any = import_module("onnxruntime.quantization")
    shapes: Any = import_module("onnxruntime.quantization.shape_inference")

    class Reader(tools.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(samples)

        def get_next(self) -> dict[str, NDArray[Any]] | None:
            return next(self.left, None)

    prepared, target = work / "prepared.onnx", work / "quantized.onnx"
    try:
        shapes.quant_pre_process(str(path), str(prepared), skip_symbolic_shape=True)
        tools.quantize_static(
            str(prepared),
            str(target),
            Reader(),
            quant_format=tools.QuantFormat.QDQ,
            activation_type=tools.QuantType.QInt8,
            weight_type=tools.QuantType.QInt8,
            per_channel=True,
        )
        return session_of(target)
    except Exception as error:
        print(f"{path.stem}: ONNX Runtime's int8: {first_line(str(error))}", file=sys.stderr)
        return None


def decibels(
    session: Any, expected: Sequence[Sequence[NDArray[Any]]], samples: Sequence[dict[str, Any]]
) -> float:
    """Return the signal-to-noise ratio of the outputs of a session."""
    found = [session.run(None, given_to(session, sample)) for sample in samples]
    wanted, actual = ([dict(enumerated(each)) for each in run] for run in (expected, found))
    return ratio_of(wanted, actual)


def enumerated(arrays: Sequence[NDArray[Any]]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield arrays with their positions as names."""
    for i, array in enumerate(arrays):
        yield str(i), array


def share_of(report: Path) -> str:
    """Return the share of multiplications in integers."""
    layers = json.loads(report.read_text())["layers"]
    total = sum(layer["macs"] for layer in layers)
    whole = sum(x["macs"] for x in layers if "bits" in x or x.get("form") == PRODUCTS)
    return f"{100 * whole / total:.0f}%" if total else "-"


def tried(path: Path, calibrate_on: int, judge_on: int) -> Row:
    """Measure a network, up to the first step that fails."""
    row = Row(path.stem)
    if (calibrate_on, judge_on) != (CALIBRATE, JUDGE):
        row.name += f" ({calibrate_on} samples calibrate, {judge_on} judge)"
    if not path.is_file():
        row.imported = "absent"
        return row
    try:
        module = read_network(str(path))
    except InputError as error:
        row.imported = f"refused: {first_line(str(error))}"
        return row
    samples = samples_of(path, module, calibrate_on + judge_on)
    given, others = samples[:calibrate_on], samples[calibrate_on:]
    session: Any = None
    wanted: list[list[NDArray[Any]]] = []
    try:
        session = session_of(path)
        wanted = [session.run(None, given_to(session, sample)) for sample in others]
    except Exception as error:
        row.runtime = f"refused: {first_line(str(error))}"
    if wanted:
        found = run(module, others[0])
        names = [output.name for output in session.get_outputs()]
        error = greatest(names, wanted[0], found)
        row.error = f"{error:.1e}"
        if error > LARGE:
            reference: Any = import_module("onnx.reference")
            evaluator = reference.ReferenceEvaluator(str(path))
            referred = evaluator.run(names, given_to(session, others[0]))
            row.error += f" ({greatest(names, referred, found):.1e})"
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        calibrate = ["--calibrate", stacked(given, work / "calibrate.npz")]
        judge = ["--inputs", stacked(others, work / "judge.npz")]
        exact: list[str] = []
        for target in ("c", "nnet"):
            said = tool("ceras-verify", str(path), "--targets", target, *calibrate, *judge)
            noise = re.search(r"signal to noise (\S+) dB", said.stdout)
            if noise and row.noise == "-":
                row.noise = noise[1]
            lines = [x for x in said.stdout.splitlines() if x.startswith(f"{target}: machine")]
            if said.returncode == 0 and lines and lines[0].endswith("exact"):
                exact.append(target)
            else:
                reason = first_line(said.stderr or said.stdout)
                exact.append(f"not {target}: {reason}")
        row.exact = ", ".join(exact)
        sessions = {"runtime": session} if wanted else {}
        if wanted and (peer := quantized_by_runtime(path, given, work)) is not None:
            row.noise += f" ({decibels(peer, wanted, others):.1f})"
            sessions["peer"] = peer
        folders = {kind: work / kind for kind in ("none", "int8")}
        for kind, folder in folders.items():
            options = ["--target", "c", "--quantize", kind, "-o", str(folder)]
            options += calibrate if kind == "int8" else []
            if tool("ceras-compile", str(path), *options).returncode == 0:
                subprocess.run(["make", "-s", "-C", str(folder)], check=False, timeout=SECONDS)
        if (report := folders["int8"] / "report.json").is_file():
            row.share = share_of(report)
        times = timed(folders, sessions, others[0])
    for kind, name in (("runtime", "runtime"), ("peer", "peer")):
        if (base := times.get(kind)) is not None:
            setattr(row, name, f"{base:.2f}")
    for kind, name, bases in (
        ("none", "floats", ("runtime",)),
        ("int8", "integers", ("runtime", "peer")),
    ):
        if (mine := times.get(kind)) is not None:
            ratios = ", ".join(f"{times[b] / mine:.1f}" for b in bases if b in times)
            setattr(row, name, f"{mine:.2f} ({ratios})" if ratios else f"{mine:.2f}")
    return row


def timed(
    folders: dict[str, Path], sessions: dict[str, Any], sample: dict[str, Any]
) -> dict[str, float]:
    """Return the medians of the rounds of all programs, in milliseconds."""
    rounds: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for kind, session in sessions.items():
            given = given_to(session, sample)
            session.run(None, given)
            runs, start = 0, time.process_time()
            while runs < 3 or time.process_time() - start < 0.1:
                session.run(None, given)
                runs += 1
            rounds.setdefault(kind, []).append((time.process_time() - start) * 1e3 / runs)
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
    parser.add_argument("--large", nargs="*", default=[])
    parser.add_argument("-o", default=Path("docs/tried-networks.md"), type=Path)
    arguments = parser.parse_args()
    rows: dict[str, dict[str, str]] = {}
    named = [*models(arguments.models), *(installed_models() if arguments.installed else ())]
    chosen = [(path, (CALIBRATE, JUDGE)) for path in named]
    chosen += [(path, FEW) for path in models(arguments.large)]
    for path, counts in chosen:
        row = tried(path, *counts)
        rows[row.name] = row.cells()
        print(*rows[row.name].values(), sep=", ", flush=True)
        # Write after each network, because a long run may be interrupted.
        ordered = [rows[name] for name in sorted(rows)]
        arguments.o.write_text(PAGE + table(ordered, USUAL), encoding="utf-8")


if __name__ == "__main__":
    main()
