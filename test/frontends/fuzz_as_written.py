"""
Compare random quantized networks, value by value, with the model as it is written.

    python test/frontends/fuzz_as_written.py [--count 1000] [--first 0] [--c-every 4]

Alternately, networks have QLinear operations or Q/DQ. Half of the latter have some values in 16
bits. A value may differ by a step if a requantization replaces three float operations
(`driver/verify/as_written.py`). C must compute the bits of the interpreter. Other differences are
printed, and the exit status is 1. `--count` counts networks; seeds that the generator drops are
skipped.
"""

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from pathlib import Path
from time import monotonic

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import onnx
from onnx import numpy_helper
from onnx_compare import SHARED
from onnx_models import Array
from qdq_widths import widened

from ceras_ir.backends.c.target import CTarget
from ceras_ir.driver.run import main as run_main
from ceras_ir.driver.verify.as_written import AsWritten, StepDifferences
from ceras_ir.frontends.onnx import import_model
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages
from ceras_ir.support.diagnostics import InputError, UnsupportedError

GENERATOR = SHARED / "tools" / "fuzz_models.py"
MAX_UNKNOWN_SHARE = 0.25
"""The maximum share of the values of a network that cannot be compared."""


@dataclass(frozen=True)
class Network:
    """A model and the inputs, in memory and in a folder."""

    folder: Path
    model: onnx.ModelProto
    inputs: dict[str, Array]


def generate(seed: int, work: Path) -> Network | None:
    """Return the network of a seed, if the generator does not drop it."""
    if str(GENERATOR.parent) not in sys.path:
        sys.path.append(str(GENERATOR.parent))
    kind = "qdq" if seed % 2 else "qop"
    if not str(import_module(GENERATOR.stem).one(seed, work, 14, kind)).startswith("ok"):
        return None
    folder = work / f"s{seed:06d}"
    model = onnx.load_model_from_string((folder / "model.onnx").read_bytes())
    if seed % 4 == 1:
        model = widened(model, seed)
        (folder / "model.onnx").write_bytes(model.SerializeToString())
    with np.load(folder / "in.npz") as arrays:
        return Network(folder, model, {name: arrays[name] for name in arrays.files})


def is_wide(model: onnx.ModelProto) -> bool:
    """Return whether a zero point has 16 bits."""
    points = (numpy_helper.to_array(tensor) for tensor in model.graph.initializer)
    return any(point.dtype.name in ("int16", "uint16") for point in points)


def compare_as_written(network: Network) -> StepDifferences | None:
    """Return all quantized values, by the rules of Q, DQ and the floats between them."""
    try:
        module = import_model(network.model)
        fused, *rest = front_stages(BuildOptions(CTarget()).resolved(module))
        run_stages(load_context(), module, [fused])
        written = module.clone()
        run_stages(load_context(), module, rest)
    except UnsupportedError:
        return None
    comparison = AsWritten(written, module)
    comparison.compare(network.inputs)
    return comparison.found


def unexplained(found: StepDifferences) -> str:
    """Return the differences that roundings do not explain."""
    if found.wrong is not None:
        return found.wrong
    if found.unknown > MAX_UNKNOWN_SHARE * found.values:
        return f"{found.unknown} values have no counterpart, {found.values} have one"
    return ""


def difference_in_c(network: Network) -> str | None:
    """Return the differences between C and the interpreter, unless C refuses the network."""
    outputs: dict[str, dict[str, Array]] = {}
    for target in ("interp", "c"):
        file = network.folder / f"{target}.npz"
        ends = ["--inputs", str(network.folder / "in.npz"), "--outputs", str(file)]
        status = run_main([str(network.folder / "model.onnx"), *ends, "--target", target])
        if status not in (0, 3) or file.exists() != (status == 0):
            return f"{target} ends with status {status}"
        if status:
            return None
        with np.load(file) as arrays:
            outputs[target] = {name: arrays[name] for name in arrays.files}
    for name, expected in outputs["interp"].items():
        got = outputs["c"][name]
        if got.dtype != expected.dtype or got.tobytes() != expected.tobytes():
            off = np.abs(got.astype(np.float64) - expected.astype(np.float64))
            return f"output '{name}': {np.count_nonzero(off)} elements in C differ, by {off.max()}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--c-every", type=int, default=4)
    arguments = parser.parse_args()
    counts, total, start, last = Counter[str](), StepDifferences(), monotonic(), -1
    for seed in count(arguments.first):
        if counts["networks"] == arguments.count:
            break
        last = seed
        with tempfile.TemporaryDirectory(prefix="ceras-written-") as name:
            network = generate(seed, Path(name))
            if network is None:
                counts["dropped"] += 1
                continue
            counts["networks"] += 1
            counts["wide"] += is_wide(network.model)
            try:
                found = compare_as_written(network)
                said = "" if found is None else unexplained(found)
                counts["refused"] += found is None
            except InputError as error:
                found, said = None, f"is taken for invalid: {error}"
            if found is not None:
                for field in ("values", "unknown", "elements", "differing"):
                    setattr(total, field, getattr(total, field) + getattr(found, field))
            if not said and found is not None and counts["networks"] % arguments.c_every == 0:
                in_c = difference_in_c(network)
                counts["in C"] += in_c is not None
                said = in_c or ""
            if said:
                counts["unexplained"] += 1
                print(f"seed {seed}: {said}", flush=True)
            if counts["networks"] % 50 == 0:
                print(f"{counts['networks']} networks", file=sys.stderr, flush=True)
    print(
        f"{counts['networks']} networks of seeds {arguments.first} to {last}, {counts['wide']} "
        f"with 16-bit values, {counts['refused']} refused, {counts['in C']} in C too: {total}\n"
        f"{total.differing} of {total.elements} elements are one step off\n"
        f"{counts['unexplained']} unexplained, in {monotonic() - start:.0f} s"
    )
    return 1 if counts["unexplained"] else 0


if __name__ == "__main__":
    sys.exit(main())
