"""
Random networks with states, control flow, recurrent layers and attention, ten steps each: the
interpreter against ONNX Runtime, whose caller hands states back, and C against the interpreter, in
float and, exactly, in integers. What differs more in float must differ so in ONNX Runtime itself
if an input is another one by its last bit: some of these networks are chaotic.

    python test/fuzz_states.py [NETWORKS] [FIRST]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnx_models as om
from streaming_random import random_streaming

from ceras_ir.driver.run.tool import main as ceras_run

GAIN = 10
"""A network rounds in many places, and its inputs are varied in one."""


def in_runtime(model: onnx.ModelProto, states: dict[str, str], steps: om.Array) -> om.Array:
    """What ONNX Runtime makes of the steps, one after the other."""
    shapes = {name: om.value_shape(model, name) for name in states}
    kept = {name: np.zeros([int(d) for d in shape], np.float32) for name, shape in shapes.items()}
    found: list[om.Array] = []
    for x in steps:
        results = om.run_onnxruntime(model, {"x": x, **kept})
        kept = {name: results[result] for name, result in states.items()}
        found.append(results["y"])
    return np.concatenate(found)


def judge(seed: int, folder: Path) -> str | None:
    """What is wrong with a network, if anything."""
    model, states, steps = random_streaming(seed)
    path, data = folder / "model.onnx", folder / "in.npz"
    path.write_bytes(model.SerializeToString())
    np.savez(data, x=steps[:, 0])

    def run(*options: str) -> om.Array:
        out = folder / "out.npz"
        flags = [text for pair in states.items() for text in ("--state", "=".join(pair))]
        files = [str(path), "--inputs", str(data), "--outputs", str(out)]
        status = ceras_run([*files, *flags, *options])
        assert status == 0, f"seed {seed}: status {status} {options}"
        with np.load(out) as found:
            return found["y"]

    reference = in_runtime(model, states, steps)
    for options in ((), ("--target", "c")):
        found = run(*options)
        if np.allclose(found, reference, rtol=1e-4, atol=1e-5):
            continue
        varied = np.abs(in_runtime(model, states, np.nextafter(steps, np.inf)) - reference)
        sensitivity = GAIN * np.maximum.accumulate(varied.max(1, keepdims=True))
        if (np.abs(found - reference) > 1e-5 + 1e-4 * np.abs(reference) + sensitivity).any():
            return f"seed {seed}: float {options} differs from ONNX Runtime"
    whole = ("--quantize", "int8", "--calibrate", str(data))
    if not np.array_equal(run(*whole), run(*whole, "--target", "c")):
        return f"seed {seed}: integers in C differ from the interpreter's"
    return None


def main() -> int:
    numbers = [int(text) for text in sys.argv[1:]]
    count, first = (*numbers, *(100, 0)[len(numbers) :])
    wrong = 0
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as name:
            if (text := judge(seed, Path(name))) is not None:
                print(text, flush=True)
                wrong += 1
    print(f"{count} networks, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
