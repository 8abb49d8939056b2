"""
Compare the processor time of quantization with that of ONNX Runtime's static quantization.

    python benchmarks/quantization_time.py [--rounds 3] [--only NAME,...] [--model M.onnx A.npz]

A row per network has the processor seconds of both programs, and the median of the ratios of
rounds. A round runs both programs one after the other on 64 samples. Each is a whole process on a
single core, with start-up and child processes: import, fusion and `quantize` for target c with
default options, and `quantize_static` (MinMax, scales of weights per channel) of the network that
`quant_pre_process` has fused, which is not counted. Modules of both programs have bytecode.
Networks have the real topology, seeded weights and normal inputs. The enhancer has states: ONNX
Runtime gets 64 frames with the states before them, and ours a sequence of 512 frames, from which it
selects 64.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
from compile_time import keep_bytecode, measure
from networks import ds_cnn, mobilenet_v2, resnet8
from onnx_runtime import runtime_module
from timed_networks import STATES, enhancer, recognizer, vision_transformer
from yolox import yolox

from ceras_ir.data.samples import Array

SAMPLES, STRIDE = 64, 8
LIMITS = {"convolutions": 4.0, "recurrent or many layers": 8.0}


def yolox_nano(path: Path) -> None:
    yolox(path, nano=True)


NETWORKS: Mapping[str, tuple[Callable[[Path], None], str]] = {
    "ResNet-8": (resnet8, "convolutions"),
    "keyword spotter": (ds_cnn, "convolutions"),
    "MobileNetV2": (mobilenet_v2, "convolutions"),
    "YOLOX-Nano": (yolox_nano, "convolutions"),
    "ViT-tiny": (vision_transformer, "recurrent or many layers"),
    "GRU enhancer": (enhancer, "recurrent or many layers"),
    "LSTM recognizer": (recognizer, "recurrent or many layers"),
}


def write_samples(model: Path, ours: Path, theirs: Path) -> None:
    """Write normal inputs for both programs. A network with states needs those before each step."""
    shapes = {
        value.name: [extent.dim_value for extent in value.type.tensor_type.shape.dim]
        for value in onnx.ModelProto.FromString(model.read_bytes()).graph.input
    }
    random, states = np.random.default_rng(0), [name for name in shapes if name in STATES]
    count = SAMPLES * STRIDE if states else SAMPLES
    inputs = {
        name: random.standard_normal((count, *shape[1:]), np.float32)
        for name, shape in shapes.items()
        if name not in states
    }
    np.savez(ours, allow_pickle=False, **inputs)
    if states:
        inputs = _with_states(model, inputs, {name: shapes[name] for name in states})
    selected = {name: array[:: count // SAMPLES] for name, array in inputs.items()}
    np.savez(theirs, allow_pickle=False, **selected)


def _with_states(
    model: Path, inputs: Mapping[str, Array], states: Mapping[str, list[int]]
) -> dict[str, Array]:
    session = runtime_module().InferenceSession(str(model))
    names = [output.name for output in session.get_outputs()]
    known: dict[str, Array] = {name: np.zeros(shape, np.float32) for name, shape in states.items()}
    steps: list[dict[str, Array]] = []
    for n in range(SAMPLES * STRIDE):
        steps.append({**{name: array[n : n + 1] for name, array in inputs.items()}, **known})
        results = dict(zip(names, session.run(None, steps[-1]), strict=True))
        known = {name: results[STATES[name]] for name in states}
    return {name: np.concatenate([step[name] for step in steps]) for name in steps[0]}


def row(name: str, model: Path, ours: Path, theirs: Path, folder: Path, rounds: int) -> list[str]:
    """Return the cells of a network."""
    fused = folder / "fused.onnx"
    prepared = runtime_module("onnxruntime.quantization.shape_inference").quant_pre_process
    prepared(str(model), str(fused), skip_symbolic_shape=True)
    is_input = {value.name for value in onnx.ModelProto.FromString(model.read_bytes()).graph.input}
    states = [f"{state}={result}" for state, result in STATES.items() if state in is_input]
    script = [sys.executable, Path(__file__).with_name("quantization_process.py")]
    mine, other = [*script, "ours", model, ours, *states], [*script, "runtime", fused, theirs]
    if not Path(os.environ["PYTHONPYCACHEPREFIX"]).exists():
        for command in (mine, other):
            measure(command, 1)  # Writes bytecode.
    pairs = [(measure(mine, 1)[1], measure(other, 1)[1]) for _ in range(rounds)]
    ratio = statistics.median(a / b for a, b in pairs)
    seconds = [f"{statistics.median(each):.2f}" for each in zip(*pairs, strict=True)]
    kind = NETWORKS[name][1] if name in NETWORKS else ""
    limit = f"{LIMITS[kind]:.0f}" if kind else ""
    return [name, *seconds, f"{ratio:.1f}", limit]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="names of networks, separated by commas")
    parser.add_argument("--model", nargs=2, metavar=("M.onnx", "A.npz"), help="only this network")
    arguments = parser.parse_args()
    # Threads that wait would count as processor time.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print("| network | ours, s | ONNX Runtime, s | ratio | limit |\n|---|---|---|---|---|")
    chosen = arguments.only.split(",") if arguments.only else list(NETWORKS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keep_bytecode(folder / "bytecode")
        ours, theirs = folder / "ours.npz", folder / "theirs.npz"
        if arguments.model:
            model, samples = map(Path, arguments.model)
            cells = [row(model.stem, model, samples, samples, folder, arguments.rounds)]
            print(f"| {' | '.join(cells[0])} |")
            return
        for network in chosen:
            model = folder / "model.onnx"
            NETWORKS[network][0](model)
            write_samples(model, ours, theirs)
            cells = row(network, model, ours, theirs, folder, arguments.rounds)
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
