"""
Random networks of images with random options of quantization, through `ceras-verify` for c, nnet
and VTA: every level computes the bits of the interpreter, and what is refused is said to be.

    python test/fuzz_options.py [--count 100] [--first 0]
"""

import argparse
import contextlib
import io
import tempfile
from pathlib import Path

import numpy as np
from random_images import random_image_model

from ceras_ir.driver.verify.tool import main


def judge(seed: int, folder: Path, targets: str = "c,nnet,vta") -> str | None:
    """What is wrong with a network, if anything."""
    model, samples, options = random_image_model(seed)
    path, data = folder / "model.onnx", folder / "data.npz"
    path.write_bytes(model.SerializeToString())
    np.savez(data, x=samples)
    arguments = [str(path), "--calibrate", str(data), "--inputs", str(data), "--samples", "2"]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = main([*arguments, *options, "--targets", targets])
    if status in (0, 3):
        return None
    return f"{' '.join(options)}: exit status {status}\n{said.getvalue()}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    for seed in range(arguments.first, arguments.first + arguments.count):
        with tempfile.TemporaryDirectory() as folder:
            if (wrong := judge(seed, Path(folder))) is not None:
                print(f"seed {seed}: {wrong}", flush=True)
