"""
Compare TensorFlow Lite networks that are converted to TOSA text with the kernels of both formats.

    python -m venv tosa; tosa/bin/pip install tosa-tools tosa-converter-for-tflite
    python benchmarks/tosa_converted.py tosa

Each network of `test/tflite_cases.py` is converted by `tosa-converter-for-tflite` and imported. The
results of the interpreter are compared with the stored results of TensorFlow Lite's reference
kernels. If they differ, because the converter expresses an operator differently, they are compared
with the TOSA reference model. Integers must be equal, floats within 1e-5 of the largest result. The
exit status is 1 if a network differs from the reference model.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from runpy import run_path

import numpy as np
from numpy.typing import NDArray

TEST = Path(__file__).parents[1] / "test"
sys.path.insert(0, str(TEST))

from tflite_cases import CASES, GOLDEN_FILE, SAMPLES, inputs_of  # noqa: E402

from ceras_ir.frontends.tosa import import_file  # noqa: E402
from ceras_ir.interpreters.network import run  # noqa: E402
from ceras_ir.network.function import input_names, main_function  # noqa: E402
from ceras_ir.support.diagnostics import InputError  # noqa: E402

Array = NDArray[np.generic]

TOLERANCE = 1e-5

results: Callable[[Path, str, Mapping[str, Array]], list[Array]] = run_path(
    str(TEST / "frontends" / "tosa" / "golden.py")
)["results"]
"""Runs a text in the reference model."""


def agree(found: Sequence[Array], expected: Sequence[Array]) -> bool:
    """Return whether integers are equal and floats are within the tolerance."""
    for a, b in zip(found, expected, strict=True):
        limit = TOLERANCE * max(1.0, float(np.abs(b).max())) if b.dtype.kind == "f" else 0.0
        if (np.abs(a.astype(np.float64) - b.astype(np.float64)) > limit).any():
            return False
    return True


def outcome(name: str, environment: Path, folder: Path) -> str:
    """Return the result of the comparison of a network, in words."""
    model = CASES[name]()
    source, text = folder / "network.tflite", folder / "network.tosa.mlir"
    source.write_bytes(model.data())
    converter = environment / "bin" / "tosa-converter-for-tflite"
    command = [str(converter), str(source), "--text", "-o", str(text)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return "not converted"
    if "= tfl." in text.read_text() or '= "tfl.' in text.read_text():
        return "converted in part"
    try:
        module = import_file(str(text))
    except InputError as error:
        return f"refused: {str(error).splitlines()[0]}"
    golden, arrays = np.load(GOLDEN_FILE), list(inputs_of(name, model).values())
    names = input_names(main_function(module))
    verdict = "equal to TensorFlow Lite"
    for sample in range(SAMPLES):
        inputs = dict(zip(names, [array[sample] for array in arrays], strict=True))
        found = list(run(module, inputs).values())
        expected = [golden[f"{name}|{model.tensors[o].name}"][sample] for o in model.outputs]
        if agree(found, expected):
            continue
        try:
            reference = results(environment, text.read_text(), inputs)
        except ValueError:
            return "without a result that TOSA defines"
        if not agree(found, reference):
            return "wrong"
        verdict = "equal to the TOSA reference model"
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("environment", type=Path, help="a folder with the packages")
    environment = parser.parse_args().environment
    counts = Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for name in CASES:
            verdict = outcome(name, environment, Path(folder))
            counts[verdict.partition(":")[0]] += 1
            if not verdict.startswith("equal to TensorFlow"):
                print(f"{name:28} {verdict}")
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
