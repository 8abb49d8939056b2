"""
Compare int8 networks in C, with and without tiles of AMX, with ONNX Runtime and OpenVINO on a
single thread: the minimum processor time of a run in milliseconds, programs in turn.

    python benchmarks/amx.py MODEL.onnx DATA.npz [--rounds 3] [--python PYTHON]

Peers run the QDQ form of `c_host_peers.py`. PYTHON is an interpreter with `openvino` and
`onnxruntime`, by default this one.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from c_host_peers import feeds, only_input, quantize

from ceras_ir.data.array_archive import load_arrays

BIN = Path(sys.executable).parent
FLAGS = "CFLAGS=-O3 -march=native"
SECONDS = 2

PEERS = """
import sys, time
import numpy as np
peer, model, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
if peer == "ONNX Runtime":
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    feed = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs()}
    run = lambda: session.run(None, feed)
else:
    import openvino
    options = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    compiled = openvino.Core().compile_model(model, "CPU", options)
    request = compiled.create_infer_request()
    for i, value in enumerate(compiled.inputs):
        request.set_input_tensor(i, openvino.Tensor(np.zeros(tuple(value.shape), np.float32)))
    run = request.infer
times, end = [], time.time() + seconds
while time.time() < end or len(times) < 10:
    start = time.process_time()
    run()
    times.append(time.process_time() - start)
print(min(times) * 1e3)
"""


def printed(*command: str | Path, folder: Path | None = None) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder, qdq = Path(made), Path(made) / "qdq.onnx"
        name, _ = only_input(given.model)
        quantize(given.model, qdq, feeds(given.model, name, load_arrays(given.data)[name]))
        builds = {"AMX": FLAGS, "vectors": f"{FLAGS} -DMODEL_AMX=0"}
        for build, flags in builds.items():
            command = [BIN / "ceras-compile", given.model, "-o", folder / build, "--target", "c"]
            printed(*command, "--calibrate", given.data, "--recipe", "none")
            printed("make", "-C", folder / build, flags, "model_bench")
        best = dict.fromkeys([*builds, "ONNX Runtime", "OpenVINO"], float("inf"))
        for _ in range(given.rounds):
            for label, known in best.items():
                if label in builds:
                    text = printed("./model_bench", "50", folder=folder / label)
                    taken = float(json.loads(text)["min_ms"])
                else:
                    taken = float(printed(given.python, "-c", PEERS, label, qdq, str(SECONDS)))
                best[label] = min(known, taken)
    print(", ".join(f"{label} {taken:.3f} ms" for label, taken in best.items()))


if __name__ == "__main__":
    main()
