"""The FPGA's array multiplies two activations: the CPU packs the second before each run."""

import struct
import subprocess
from pathlib import Path

import numpy as np
import onnx_models as om
import pytest
from backends.nnet.drawn import function_tables
from backends.nnet.networks import agree, resealed, written
from graph_networks import Network, random_array
from onnx_random import random_network
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, i16
from xdsl.ir import SSAValue

from ceras_ir.backends.nnet.board import load_board
from ceras_ir.backends.nnet.engine import NnetModel, Rtl, build
from ceras_ir.backends.nnet.placement import cost_of
from ceras_ir.backends.nnet.reader import read
from ceras_ir.backends.nnet.rules import FPGA, why_not
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import shape_of
from ceras_ir.dialects.mem import CPU
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.driver.compile import main as compile_model
from ceras_ir.driver.verify.tool import main as verify
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.native import has_verilator
from ceras_ir.transforms.memory.liveness import steps
from ceras_ir.transforms.rebuilding import rebuild_linear

pytestmark = pytest.mark.slow

INT8, SHIFTED = UniformType(0.5), UniformType(0.5, -128)
TENSOR_BYTES, LAYER_BYTES, BLOCKS, TENSORS, LAYERS = 64, 64, 3, 2, 6


def product(
    net: Network,
    x: SSAValue,
    weights: SSAValue,
    requant: RequantAttr,
    residual: SSAValue | None = None,
) -> SSAValue:
    # The residual shift of each channel follows the right shift of the sum.
    shifts = [3 + net - min(requant.net_shifts) for net in requant.net_shifts]
    if len(shifts) == 1:
        shifts *= shape_of(weights)[0]
    op = graph.MatmulOp(
        x, weights, None, residual, result_element=INT8, requant=requant,
        residual_shift=None if residual is None else shifts,
    )  # fmt: skip
    assert why_not(op) is None
    return net.add(op, FPGA)


def attention(heads: int = 2, tokens: int = 19, width: int = 5) -> ModuleOp:
    """Return attention heads: Q K^T and P V in int8, without the operations between them."""
    shape = (tokens, width)
    net = Network([(shape, element) for element in (SHIFTED, INT8, INT8) for _ in range(heads)])
    results: list[SSAValue] = []
    for head in range(heads):
        q, k, v = net.inputs[head::heads]
        scores = product(net, q, k, RequantAttr(6))
        turned = net.add(graph.TransposeOp(v, (1, 0)), FPGA)
        results.append(product(net, scores, turned, RequantAttr(7, rounding=Rounding.HALF_EVEN)))
    return net.module(*results)


@pytest.mark.parametrize("seed", range(6))
def test_random_shapes(seed: int):
    """
    Check ties, both bounds of the range, zero points, residuals, and per-channel shifts and tables.
    """
    rng = np.random.default_rng(seed)

    def pick(*choices: int) -> int:
        return int(rng.choice(choices))

    shapes = [
        (pick(1, 2, 15, 16, 17, 33, 260), pick(1, 3, 16, 31, 48, 260), pick(1, 7, 16, 33, 64, 530))
        for _ in range(6)
    ]
    points = [UniformType(0.5, pick(-128, 0, 5, 127)) for _ in shapes]
    arguments = [((m, k), point) for (m, _, k), point in zip(shapes, points, strict=True)]
    arguments += [((n, k), INT8) for _, n, k in shapes] + [((m, n), SHIFTED) for m, n, _ in shapes]
    net = Network(arguments)
    results: list[SSAValue] = []
    for i, (_, n, _) in enumerate(shapes):
        x, weights, residual = net.inputs[i :: len(shapes)]
        mode = Rounding.HALF_UP if pick(0, 1) else Rounding.HALF_EVEN
        channels = [1 << pick(0, 1, 5, 9) for _ in range(n)]
        requant = RequantAttr(
            pick(9, 11, 14), multiplier=channels if pick(0, 1) else 1, rounding=mode,
            zero_point=pick(0, -7),
        )  # fmt: skip
        requant = requant if pick(0, 1, 2) else RequantAttr(0, multiplier=pick(1, 8))
        y = product(net, x, weights, requant, residual=residual if pick(0, 1) else None)
        if pick(0, 1):
            table = function_tables(rng, 3, None)
            rows = graph.integers(rng.integers(0, 3, n).tolist())
            op = y.owner
            assert isinstance(op, graph.MatmulOp)
            new = rebuild_linear(op, {"table": table, "rows": rows})
            op.detach()
            op.drop_all_references()
            y = net.add(new, FPGA)
        results.append(y)
    agree(net.module(*results))


def test_a_value_times_itself():
    """The array reads the rows of the value, and the CPU packs them."""
    net = Network([((21, 37), INT8)])
    (x,) = net.inputs
    agree(net.module(product(net, x, x, RequantAttr(8))))


def test_each_run_packs_again(tmp_path: Path):
    """Each sample in a process has separate weights."""
    module = attention()
    path = tmp_path / "model.nnet"
    path.write_bytes(written(module))
    arguments = main_function(module).body.block.args
    samples = {
        f"input{i}": random_array((3, *shape_of(value)), INT8, i)
        for i, value in enumerate(arguments)
    }
    together = NnetModel(path).run_samples(samples)
    for i in range(3):
        alone = NnetModel(path).run({name: array[i] for name, array in samples.items()})
        for name, array in alone.items():
            np.testing.assert_array_equal(together[name][i], array)


def test_the_cpu_reads_what_it_packs(tmp_path: Path):
    """A packed value of the FPGA crosses to the CPU, and a packed value of the CPU does not."""
    net = Network([((4, 8), INT8), ((6, 8), INT8)])
    x, y = net.inputs
    scores = product(net, x, y, RequantAttr(6))
    made = net.add(graph.ReshapeOp(scores, (3, 8)), FPGA)
    result = product(net, x, made, RequantAttr(6))
    path, data = tmp_path / "model.nnet", tmp_path / "in.bin"
    path.write_bytes(written(net.module(result)))
    data.write_bytes(bytes(80))
    command = [str(build()), str(path), str(data), "/dev/null", "--transfers"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    file = read(path.read_bytes())
    inputs, packed = file.layers[0].operands, file.layers[2].operands[1]
    lines = [
        f"layer {layer} on {side} reads [{start}, {start + size}) from the other side"
        for layer, side, tensor, size in [
            (0, "fpga", inputs[0], 32),
            (2, "cpu", packed, 24),
            (3, "cpu", file.layers[2].result, 12),
        ]
        for start in [file.tensors[tensor].offset]
    ]
    assert text.splitlines() == lines


def test_packing_costs_time():
    """
    The cost of packing contains the bytes that the CPU reads and writes, and the transfer to the
    FPGA.
    """
    board = load_board("ceras_zcu104")
    module = attention(1, 197, 64)
    op = next(op for op in steps(main_function(module)) if isinstance(op, graph.MatmulOp))
    net = Network([((197, 64), SHIFTED)])
    weights = net.constant(random_array((197, 64), INT8), INT8)
    other = graph.MatmulOp(net.inputs[0], weights, result_element=INT8, requant=RequantAttr(6))
    net.add(other, FPGA)
    costs = [cost_of(layer, board, admitted=True).accelerator for layer in (op, other)]
    assert costs[0] is not None and costs[1] is not None
    packed = 208 * (8 + 64)
    moved = (197 * 64 + packed) / board.cpu_bytes_per_us
    crossing = board.bus_latency_us + packed / board.bus_bytes_per_us
    assert costs[0] - costs[1] == pytest.approx(moved + crossing)


def section(data: bytes, number: int) -> int:
    """Return the position of the first byte of a section."""
    return struct.unpack_from("<Q", data, 32 + 24 * (number - 1) + 8)[0]


def refusal(path: Path, data: bytes, at: int, new: bytes) -> str:
    """Return the message of the engine for a file with replaced bytes."""
    path.write_bytes(resealed(data, at, new))
    done = subprocess.run(
        [str(build()), str(path), "/dev/null", "/dev/null"], capture_output=True, text=True
    )
    assert done.returncode == 1
    return done.stderr


def on_the_cpu(weights: UniformType, *, convolves: bool = False) -> bytes:
    shapes = ((1, 4, 4, 6), (5, 3, 3, 6)) if convolves else ((4, 6), (5, 6))
    net = Network([(shapes[0], INT8), (shapes[1], weights)])
    kind = graph.Conv2dOp if convolves else graph.MatmulOp
    op = kind(*net.inputs, result_element=INT8, requant=RequantAttr(6))
    return written(net.module(net.add(op, CPU)))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (on_the_cpu(INT8, convolves=True), "requires constant weights of a convolution"),
        (on_the_cpu(UniformType(0.5, 3)), "requires weights without zero point"),
        (
            on_the_cpu(UniformType(0.5, 128, storage=IntegerType(8, Signedness.UNSIGNED))),
            "the FPGA requires int8",
        ),
    ],
)
def test_a_file_that_gives_the_array_what_it_does_not_take(
    tmp_path: Path, data: bytes, reason: str
):
    assert reason in refusal(tmp_path / "m.nnet", data, section(data, LAYERS) + 2, b"\1")


def test_the_second_operand_lies_in_its_block(tmp_path: Path):
    """The position and size are checked before the CPU packs the operand."""
    net = Network([((4, 6), INT8), ((5, 6), INT8)])
    x, weights = net.inputs
    data = written(net.module(product(net, x, weights, RequantAttr(6))))
    file = read(data)
    number = file.layers[0].operands[1]
    tensor = section(data, TENSORS) + TENSOR_BYTES * number
    block = section(data, BLOCKS) + 24 * struct.unpack_from("<I", data, tensor + 16)[0]
    cases = [
        (tensor + 24, struct.pack("<Q", 1 << 40), "the tensor is not inside the block"),
        (tensor + 24, struct.pack("<Q", file.tensors[number].offset + 1), "not inside the block"),
        (tensor + 32, struct.pack("<I", 1 << 20), "the tensor is not inside the block"),
        (tensor + 32, struct.pack("<I", 4), "the shapes do not fit a matrix product"),
        (tensor + 36, struct.pack("<I", 5), "the shapes do not fit a matrix product"),
        (tensor + 20, struct.pack("<I", 8), "the tensor is not inside the block"),
        (tensor + 16, struct.pack("<I", 99), "the block does not exist"),
        (tensor + 16, struct.pack("<I", 0xFFFFFFFF), "the block does not exist"),
        (tensor + 4, b"\3", "the tensor is not inside the block"),
        (block + 16, struct.pack("<Q", 29), "the tensor is not inside the block"),
        (section(data, LAYERS) + 12, struct.pack("<I", 1), "number of operands"),
    ]
    for at, new, reason in cases:
        assert reason in refusal(tmp_path / "m.nnet", data, at, new), (at, new)
        with pytest.raises(InputError):
            read(resealed(data, at, new))


def test_the_result_does_not_lie_over_it(tmp_path: Path):
    net = Network([((4, 6), INT8), ((6, 6), INT8)])
    x, weights = net.inputs
    data = written(net.module(product(net, x, weights, RequantAttr(6))))
    file = read(data)
    tensors = section(data, TENSORS)
    second, result = (
        tensors + TENSOR_BYTES * number
        for number in (file.layers[0].operands[1], file.layers[0].result)
    )
    moved = data[second + 16 : second + 32]  # Block, pitch and offset.
    path = tmp_path / "m.nnet"
    assert "the result overlaps an operand" in refusal(path, data, result + 16, moved)


def test_wide_activations_stay_on_the_cpu():
    net = Network([((4, 6), UniformType(0.5, storage=i16)), ((5, 6), INT8)])
    op = graph.MatmulOp(*net.inputs, result_element=INT8, requant=RequantAttr(6))
    assert "the FPGA computes on int8 with a per-tensor scale" in (why_not(op) or "")


def transformer_heads() -> bytes:
    """Return two heads of 19 tokens as exporters write them: a single product for all heads."""
    rng = np.random.default_rng(4)
    nodes = [
        *(om.node("MatMul", f"x w{name}", name) for name in "qkv"),
        *(om.node("Reshape", f"{name} split", f"{name}h") for name in "qkv"),
        om.node("Transpose", "qh", "qt", perm=[0, 2, 1, 3]),
        om.node("Transpose", "kh", "kt", perm=[0, 2, 3, 1]),
        om.node("Transpose", "vh", "vt", perm=[0, 2, 1, 3]),
        om.node("MatMul", "qt kt", "s"),
        om.node("Softmax", "s", "p", axis=-1),
        om.node("MatMul", "p vt", "o"),
        om.node("Transpose", "o", "ot", perm=[0, 2, 1, 3]),
        om.node("Reshape", "ot joined", "y"),
    ]
    tensors = {f"w{n}": rng.uniform(-1, 1, (10, 10)).astype(np.float32) for n in "qkv"}
    shapes = {"split": np.array([1, 19, 2, 5]), "joined": np.array([1, 19, 10])}
    return om.model(nodes, {"x": (1, 19, 10)}, ["y"], tensors | shapes).SerializeToString()


def test_heads_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Both products of both heads run on the array, and all levels give equal integers."""
    path, data, folder = tmp_path / "m.onnx", tmp_path / "c.npz", tmp_path / "out"
    path.write_bytes(transformer_heads())
    samples = np.random.default_rng(2).uniform(-1, 1, (40, 19, 10)).astype(np.float32)
    np.savez(data, allow_pickle=False, x=samples)
    calibrated = [str(path), "--calibrate", str(data), "--budget", "0"]
    assert verify([*calibrated, "--targets", "nnet"]) == 0
    assert "nnet: machine                    exact" in capsys.readouterr().out
    assert compile_model([*calibrated, "--target", "nnet", "-o", str(folder)]) == 0
    file = read((folder / "model.nnet").read_bytes())
    products = [layer for layer in file.layers if layer.kind.name == "matmul"]
    computed = [p for p in products if file.tensors[p.operands[1]].location == "arena"]
    assert len(computed) == 4 and all(layer.device == "fpga" for layer in computed)
    if not has_verilator():
        return
    inputs = {"x": samples[:2, None]}
    expected = NnetModel(folder).run_samples(inputs)
    model = NnetModel(folder, rtl=Rtl())
    np.testing.assert_array_equal(model.run_samples(inputs)["y"], expected["y"])
    assert not any(model.refused)


@pytest.mark.parametrize("seed", [2, 4])
def test_random_networks_with_attention(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    network = random_network(seed, steps=3, kinds=("attention", "convolution"))
    (path := tmp_path / "m.onnx").write_bytes(network.SerializeToString())
    assert any(node.op_type == "Softmax" for node in network.graph.node)
    assert verify([str(path), "--quantize", "int8", "--targets", "nnet"]) == 0
    assert "nnet: machine                    exact" in capsys.readouterr().out
