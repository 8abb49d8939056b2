"""
Compare the circuit of a sparse network with the tables of S5.

The figures are zeros of each layer, lanes, cycles per frame in Verilator and by the model,
resources of the circuit, and the accuracy of trained networks.

    python benchmarks/sparse_fcn.py [--size 180 240] [--dsp 344] [--ram18 250] [--no-run] [--yosys]
        [--models dense.onnx sparse.onnx ... --test DIR]

The weights of the circuit are random. As in S5, all filters of a layer have the same number of
nonzero weights. Cycles depend on this number and not on the values. Accuracy is that of the given
models, which are trained as in `docs/retraining.md`, on a folder with `images` and `labels`; it
needs torch.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnx
from networks import Builder
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.dataflow.board import load_board
from ceras_ir.backends.dataflow.circuit import CIRCUIT_FUNCTION, Circuit, circuit_of
from ceras_ir.backends.dataflow.convolution_cycles import lane_cycles
from ceras_ir.backends.dataflow.cycles import model
from ceras_ir.backends.dataflow.emit import CircuitSimulator, project_files
from ceras_ir.backends.dataflow.resources import Resources, estimate, synthesize, total
from ceras_ir.backends.dataflow.target import DataflowTarget
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions, all_stages, run_stages

# Filters, window, stride, padding, share of zeros, and whether 3x3 maxima with stride 2 follow.
LAYERS = (
    (64, 11, 4, 2, 0.942, True),
    (64, 5, 1, 2, 0.941, True),
    (128, 3, 1, 1, 0.941, False),
    (128, 3, 1, 1, 0.940, False),
    (128, 3, 1, 1, 0.940, False),
    (128, 1, 1, 0, 0.805, False),
    (11, 1, 1, 0, 0.758, False),
)
PAPER_CYCLES = 2_466_675
"""The cycles of S5 at 180x240, estimated by Vivado HLS (Table 6)."""
PAPER_ZEROS = (21_888, 96_320, 69_376, 138_624, 138_624, 13_184, 1_067)
"""The zeros of each layer in Table 1 of S5; Table 3 has the lanes."""
PAPER_LANES = (240, 29, 15, 15, 15, 15, 15)
PAPER_RESOURCES = {
    (90, 120): (211, 537, 48_204),
    (135, 180): (301, 1_130, 65_243),
    (180, 240): (338, 1_807, 79_445),
}
"""DSP, RAM18 and LUT by the image size, Table 5 of S5."""
PAPER_ACCURACY = "45.04% dense, 44.90% at 93.6% zeros, 40.53% without soft targets, at 360x480"
PAPER_SIZES = {(90, 120): 0.2923, (135, 180): 0.3591, (180, 240): 0.4079}
"""Mean IoU of the sparse network of S5 by the image size."""


def prune_filters(weights: NDArray[np.float64], zeros: float) -> NDArray[np.float64]:
    """Set the same number of weights in each filter to zero: those of the smallest magnitude."""
    rows = weights.reshape(len(weights), -1).copy()
    count = round(rows.shape[1] * zeros)
    smallest = np.argsort(np.abs(rows), axis=1, kind="stable")[:, :count]
    np.put_along_axis(rows, smallest, 0.0, axis=1)
    return rows.reshape(weights.shape)


def sparse_fcn(height: int, width: int, seed: int = 0) -> onnx.ModelProto:
    """Return the network of S5 with batch norm folded, up to the resize."""
    net = Builder(seed)
    value, channels = "image", 3
    for n, (filters, kernel, stride, pad, zeros, pooled) in enumerate(LAYERS):
        weights = prune_filters(net.rng.normal(size=(filters, channels, kernel, kernel)), zeros)
        weights *= np.sqrt(2 * filters / np.count_nonzero(weights))
        value = net.node(
            "Conv",
            f"conv{n}",
            [
                value,
                net.constant(f"weights{n}", weights),
                net.constant(f"bias{n}", net.rng.normal(size=filters, scale=0.1)),
            ],
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad] * 4,
        )
        channels = filters
        if n < len(LAYERS) - 1:
            value = net.node("Relu", f"relu{n}", [value])
        if pooled:
            windows = {"kernel_shape": [3, 3], "strides": [2, 2]}
            value = net.node("MaxPool", f"pool{n}", [value], **windows)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, height, width])
    scores = helper.make_tensor_value_info(value, TensorProto.FLOAT, None)
    graph = helper.make_graph(net.nodes, "sparse_fcn", [image], [scores], net.initializers)
    opset = helper.make_opsetid("", 13)
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[opset], ir_version=8)
    )


def compile_circuit(network: onnx.ModelProto, target: DataflowTarget) -> tuple[Circuit, ModuleOp]:
    """
    Return the circuit of a network that is quantized on synthetic samples, and the module with the
    circuit.
    """
    with tempfile.TemporaryDirectory() as work:
        path = Path(work) / "network.onnx"
        path.write_bytes(network.SerializeToString())
        module = read_network(str(path))
        run_stages(load_context(), module, all_stages(BuildOptions(target)))
    return circuit_of(module, load_board(target.board)), module


def measure(
    circuit: Circuit, module: ModuleOp, folder: Path, port_bytes: int, frames: int
) -> tuple[int, int]:
    """Return latency and cycles per frame in Verilator. The results must equal the interpreter."""
    source, result = circuit.pipeline.source.feature, circuit.pipeline.results[0].feature
    simulator = CircuitSimulator(folder, source, [result], port_bytes)
    shape = (frames, source.rows, source.columns, source.channels)
    x = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    run, interpreter = simulator.run(x), interpreter_of(module)
    for frame, found in zip(x, run.results[0], strict=True):
        expected = np.empty((1, *found.shape), np.int8)
        interpreter.call_op(CIRCUIT_FUNCTION, (frame[np.newaxis], expected))
        assert np.array_equal(found, expected[0]), "the circuit differs from the interpreter"
    print(f"{frames} frames exact against the interpreter")
    return run.end_cycles[0], run.cycles_per_frame


def print_zeros(network: onnx.ModelProto) -> None:
    """Print Table 1 of S5: zeros of each layer."""
    print("| layer | weights | zeros | | paper |")
    print(f"|{'---|' * 5}")
    arrays = [numpy_helper.to_array(i) for i in network.graph.initializer]
    layers = [array for array in arrays if array.ndim == 4]
    sums = np.zeros(3, np.int64)
    for n, (array, paper) in enumerate(zip(layers, PAPER_ZEROS, strict=True)):
        found = np.array([array.size, np.count_nonzero(array == 0), paper])
        sums += found
        print_share(f"conv{n}", found)
    print_share("all", sums)


def print_share(name: str, found: NDArray[np.int64]) -> None:
    """Print a row: weights, zeros here and zeros of the paper, with shares."""
    size, zeros, paper = (int(v) for v in found)
    print(f"| {name} | {size:,} | {zeros:,} | {zeros / size:.1%} | {paper:,} {paper / size:.1%} |")


def print_accuracy(models: list[str], folder: str) -> None:
    """Print Table 4 and the last row of Table 5 of S5: mean IoU and pixels of trained networks."""
    from trained_scores import score_of

    print("| model | size | mean IoU | paper at this size | pixels right |")
    print(f"|{'---|' * 5}")
    for path in models:
        height, width, overlap, pixels = score_of(path, folder)
        paper = PAPER_SIZES.get((height, width))
        beside = "" if paper is None else f"{paper:.2%}"
        print(f"| {path} | {height}x{width} | {overlap:.2%} | {beside} | {pixels:.2%} |")
    print(f"paper: {PAPER_ACCURACY}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, nargs=2, default=[180, 240])
    parser.add_argument("--board", default="zcu102")
    parser.add_argument("--dsp", type=int, default=344)
    parser.add_argument("--ram18", type=int, default=250)
    parser.add_argument("--frames", type=int, default=4)
    parser.add_argument("--no-run", action="store_true", help="model only, without Verilator")
    parser.add_argument("--yosys", action="store_true", help="count resources by yosys too")
    parser.add_argument("--models", nargs="+", metavar="M.onnx", help="trained networks to judge")
    parser.add_argument("--test", metavar="DIR", help="with images and labels, to judge them on")
    args = parser.parse_args()
    if args.models:
        if args.test is None:
            parser.error("--models are judged on --test")
        print_accuracy(args.models, args.test)
        return
    network = sparse_fcn(*args.size)
    print_zeros(network)
    target = DataflowTarget(board=args.board, dsp=args.dsp, ram18=args.ram18)
    board = load_board(args.board)
    circuit, module = compile_circuit(network, target)
    parts = estimate(circuit.pipeline, circuit.plan, board.fabric)
    print("| layer | rows x filters | weights | products | cycles | DSP | RAM18 | LUT |")
    print(f"|{'---|' * 8}")
    for block, part in parts.items():
        planned = circuit.plan.convolutions.get(block)
        cells = [block.name, *[""] * 4]
        if planned is not None:
            lanes = planned.lanes
            cells[1:3] = [f"{lanes.rows} x {lanes.filters}", lanes.encoding.value]
            cells[3:5] = [str(planned.lane_count), f"{lane_cycles(planned):,}"]
        cells += [str(part.dsp), str(part.ram18), f"{part.lut:,}"]
        print(f"| {' | '.join(cells)} |")
    timing = model(circuit.pipeline, circuit.plan, board.port_bytes)
    print_resources("estimated", total(parts))
    print(f"model: {timing.per_frame:,} cycles per frame, latency {timing.latency:,}")
    per_frame = timing.per_frame
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        for name, text in project_files(circuit, board).items():
            (folder / name).write_text(text)
        if not args.no_run:
            latency, per_frame = measure(circuit, module, folder, board.port_bytes, args.frames)
            print(f"Verilator: {per_frame:,} cycles per frame, latency {latency:,}")
        if args.yosys:
            print_resources("yosys", synthesize(folder, board.family))
    print(
        f"lanes busy with non-zeros: {circuit.plan.busy_share(per_frame):.1%}; "
        f"{board.clock_mhz * 1e6 / per_frame:,.0f} frames per second at {board.clock_mhz} MHz"
    )
    print(f"paper, lanes of each convolution: {', '.join(map(str, PAPER_LANES))}")
    if (paper := PAPER_RESOURCES.get((args.size[0], args.size[1]))) is not None:
        print_resources("paper", Resources(*paper))
    if args.size == [180, 240]:
        print(f"paper: {PAPER_CYCLES:,} cycles, {PAPER_CYCLES / per_frame:.1f} times as many")


def print_resources(title: str, found: Resources) -> None:
    """Print a line of counts."""
    print(f"{title}: {found.dsp} DSP, {found.ram18} RAM18, {found.lut:,} LUT")


if __name__ == "__main__":
    main()
