"""
Random networks with states, control flow, recurrent layers and attention, ten steps each: the
interpreter against ONNX Runtime, whose caller hands states back, and C against the interpreter, in
float and, exactly, in integers.

    python test/fuzz_states.py [NETWORKS] [FIRST]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx_models as om
from streaming_random import random_streaming

from ceras_ir.driver.run.tool import main as ceras_run


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

    shapes = {name: om.value_shape(model, name) for name in states}
    kept = {name: np.zeros([int(d) for d in shape], np.float32) for name, shape in shapes.items()}
    expected: list[om.Array] = []
    for x in steps:
        results = om.run_onnxruntime(model, {"x": x, **kept})
        kept = {name: results[result] for name, result in states.items()}
        expected.append(results["y"])
    reference = np.concatenate(expected)
    for options in ((), ("--target", "c")):
        if not np.allclose(run(*options), reference, rtol=1e-4, atol=1e-5):
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
