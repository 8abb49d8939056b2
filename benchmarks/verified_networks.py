"""
Run `ceras-verify` on each network of some folders, and write the page docs/networks.md.

    python benchmarks/verified_networks.py FOLDER|MODEL.onnx... [-o docs/networks.md]
                                           [--samples 2] [--only NAME] [--targets c,nnet,vta]

`NAME.npz` next to `NAME.onnx` has the inputs, and `NAME.cal.npz` the calibration data. Without the
second file, the first is used for both; without both, samples are synthetic. Float networks also
run in ONNX Runtime on the first input, and in float in the interpreter and in C.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from network_pages import models, samples_of, table
from numpy.typing import NDArray

from ceras_ir.data.array_archive import save_arrays
from ceras_ir.pipeline.parsing import read_network

BIN = Path(sys.executable).parent
SQNR = re.compile(r"signal to noise (\S+) dB")
Floats: TypeAlias = NDArray[np.float32]
QUANTIZED = {"QuantizeLinear", "DequantizeLinear"}

PAGE = """\
<!-- Written by benchmarks/verified_networks.py. -->

# Verified networks

`python benchmarks/verified_networks.py FOLDER -o docs/networks.md` writes this page. Each network
is compiled for targets c, nnet and vta. `ceras-verify` runs and compares all levels: the quantized
graph, the placed graph, memory, and the files of the target.

- *inputs*: the number of samples that are compared.
- *calibrated on*: *separate* data, *its own* inputs, or *synthetic* samples. *Q/DQ* networks are
  quantized models. They keep their scales on c and nnet; vta rounds them to powers of two.
- *interpreter* and *C*: the maximum difference of the float network from ONNX Runtime, divided by
  the maximum output. Above 1e-3, outputs are probabilities near 0, for which the [sigmoid of ONNX
  Runtime](functions.md#difference-from-onnx-runtime) is inexact.
  [quantized-import.md](quantized-import.md) compares Q/DQ networks.
- *dB*: the signal-to-noise ratio of int8 compared with float at the outputs, with default options.
  Ratios near 100 dB belong to classifiers with a softmax, whose outputs for two samples hardly
  vary; see [quantization.md](quantization.md#signal-to-noise-ratio).
- *c*, *nnet*, *vta*: *exact* means that each element of each output is equal at all levels.

[quantization.md](quantization.md) has the accuracy of int8, and
[tried-networks.md](tried-networks.md) more networks, with times.

"""
COLUMNS = ("network", "inputs", "calibrated on", "interpreter", "C", "dB")


@dataclass
class Row:
    """The results of a network."""

    name: str
    compared: str
    calibrated: str
    floats: list[str]
    sqnr: str = "-"
    verdicts: list[str] = field(default_factory=list[str])
    reasons: list[str] = field(default_factory=list[str])

    def cells(self, targets: Sequence[str]) -> dict[str, str]:
        """Return the value of each column."""
        values = (self.name, self.compared, self.calibrated, *self.floats, self.sqnr)
        return dict(zip((*COLUMNS, *targets), (*values, *self.verdicts), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", metavar="FOLDER|MODEL.onnx")
    parser.add_argument("-o", dest="output", type=Path, help="write the page")
    parser.add_argument("--samples", type=int, default=2, help="inputs compared (default: 2)")
    parser.add_argument("--only", help="only networks whose name contains this")
    parser.add_argument("--targets", default="c,nnet,vta", help="default: %(default)s")
    arguments = parser.parse_args()
    targets = str(arguments.targets).split(",")
    rows: list[Row] = []
    for path in models(arguments.paths):
        if arguments.only and arguments.only not in path.stem:
            continue
        rows.append(verified(path, targets, arguments.samples))
        print(*rows[-1].cells(targets).values(), *rows[-1].reasons, sep=", ", flush=True)
        if arguments.output:
            # Write after each network, because a long run may be interrupted.
            arguments.output.write_text(page(rows, targets), encoding="utf-8")
    exact = sum(all(v == "exact" for v in row.verdicts) for row in rows)
    print(f"{exact} of {len(rows)} exact on {arguments.targets}")


def page(rows: Sequence[Row], targets: Sequence[str]) -> str:
    ordered = sorted(rows, key=lambda row: row.name)
    usual = ("inputs", "calibrated on", *targets)
    text = PAGE + table([row.cells(targets) for row in ordered], usual)
    reasons = [reason for row in rows for reason in row.reasons]
    return text + ("\n## Refused\n\n" + "".join(reasons) if reasons else "")


def verified(path: Path, targets: Sequence[str], samples: int) -> Row:
    inputs, calibration = path.with_suffix(".npz"), path.with_suffix(".cal.npz")
    options = ["--samples", str(samples)]
    if inputs.exists():
        options += ["--inputs", str(inputs)]
    if (taken := calibration if calibration.exists() else inputs).exists():
        options += ["--calibrate", str(taken)]
    model = onnx.load_model_from_string(path.read_bytes())
    is_quantized = not QUANTIZED.isdisjoint(node.op_type for node in model.graph.node)
    own = "its own" if inputs.exists() else "synthetic"
    calibrated = "Q/DQ" if is_quantized else "separate" if calibration.exists() else own
    floats = ["-", "-"] if is_quantized else list(float_differences(path))
    row = Row(path.stem, str(samples) if inputs.exists() else "1", calibrated, floats)
    done = verify(path, targets, options)
    if done.returncode == 0:
        row.verdicts = ["exact"] * len(targets)
        row.sqnr = sqnr(done.stdout)
        return row
    for target in targets:
        alone = verify(path, [target], options)
        row.verdicts.append(verdict(alone))
        if alone.returncode:
            lines = (alone.stderr if alone.returncode != 1 else alone.stdout).strip().splitlines()
            row.reasons.append(f"- {path.stem}, {target}: {reason(path, lines)}\n")
        elif row.sqnr == "-":
            row.sqnr = sqnr(alone.stdout)
    return row


def verify(
    path: Path, targets: Sequence[str], options: Sequence[str]
) -> "subprocess.CompletedProcess[str]":
    command = [str(BIN / "ceras-verify"), str(path), "--targets", ",".join(targets), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def verdict(done: "subprocess.CompletedProcess[str]") -> str:
    return {0: "exact", 1: "DIFFERS", 3: "refused"}.get(done.returncode, "FAILED")


def reason(path: Path, lines: Sequence[str]) -> str:
    """Return the first line about an error, without the folder of the file."""
    wrong = [line for line in lines if "differs" in line or "error:" in line]
    return (wrong or lines or ["no message"])[0].replace(str(path), path.name)


def sqnr(text: str) -> str:
    found = SQNR.search(text)
    return "-" if found is None or found[1] == "inf" else found[1]


def float_differences(path: Path) -> Iterator[str]:
    """Yield the differences of the interpreter and of C from ONNX Runtime, on a single input."""
    ort: Any = import_module("onnxruntime")  # As Any, because it has no type stubs.
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (arrays,) = samples_of(path, read_network(str(path)), 1)
    names: list[str] = [value.name for value in session.get_outputs()]
    want: dict[str, Floats] = dict(zip(names, session.run(names, arrays), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "in.npz", Path(folder) / "out.npz"
        save_arrays(str(source), arrays)
        for target in ("interp", "c"):
            command = [str(BIN / "ceras-run"), str(path), "--inputs", str(source)]
            command += ["--outputs", str(result), "--target", target, "--quantize", "none"]
            if subprocess.run(command, capture_output=True, check=False).returncode:
                yield "refused"
                continue
            with np.load(result) as got:
                off = [float(np.abs(got[n] - w).max() / np.abs(w).max()) for n, w in want.items()]
            yield f"{max(off):.1e}"


if __name__ == "__main__":
    main()
