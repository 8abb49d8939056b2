"""The FPGA side as a project of its own: it compiles without a warning and gives these bytes."""

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from backends.nnet.drawn import function_tables
from backends.nnet.networks import SANITIZERS, Network, random_array
from xdsl.dialects.builtin import f32, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ceras_ir.backends.nnet.engine import compiler
from ceras_ir.backends.nnet.hls_package import FOLDER, RECORD, emit
from ceras_ir.backends.nnet.rules import FPGA
from ceras_ir.command.output_folder import write_artefacts
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Pool, Resize, element_of, integers, shape_of
from ceras_ir.dialects.mem import block_of
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.driver.compile.tool import main
from ceras_ir.support.diagnostics import InputError
from ceras_ir.transforms.rebuilding import rebuild_linear

pytestmark = pytest.mark.slow

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
INT8, INT32 = UniformType(0.5), UniformType(0.25, storage=i32)
SOURCES = (
    "fpga_linear.cpp", "fpga_circuits.cpp", "fpga_depthwise.cpp", "fpga_movement.cpp",
    "network.cpp", "top.cpp", "testbench.cpp",
)  # fmt: skip
WARNINGS = ("-std=c++17", "-Wall", "-Wextra", "-Werror")


def tables_and_boxes(net: Network, x: SSAValue) -> list[SSAValue]:
    """Function tables, alone and behind a convolution, and each box of the mover."""
    rng, rows = np.random.default_rng(1), tuple(i % 3 for i in range(20))
    floats = graph.LookupOp(x, function_tables(rng, 3, f32), f32, rows)
    weights = net.constant(random_array((20, 1, 1, 20), INT8, 8), INT8)
    plain = graph.Conv2dOp(x, weights, result_element=INT8, requant=RequantAttr(8))
    epilogue = {"table": function_tables(rng, 3, None), "rows": integers(rows)}
    a, b = net.add(floats, FPGA), net.add(rebuild_linear(plain, epilogue), FPGA)
    plain.drop_all_references()
    c = net.add(graph.SliceOp(a, (0, 8, 1, 0), (2, 4, 3, 20), (1, -2, 3, 1)), FPGA)
    d = net.add(graph.TransposeOp(b, (0, 3, 2, 1)), FPGA)
    e = net.add(graph.ResizeOp(Resize.NEAREST, b, (18, 33), (2.0, 3.0)), FPGA)
    f = net.add(graph.ConcatOp([a, a], 1), FPGA)
    taps = net.constant(random_array((20, 3, 3, 1), INT8, 9), INT8)
    g = graph.Conv2dOp(
        b, taps, result_element=INT8, padding=(1,) * 4, groups=20, requant=RequantAttr(7)
    )
    return [net.add(graph.ReshapeOp(c, (24, 20)), FPGA), d, e, f, net.add(g, FPGA)]


def every_circuit(folder: Path) -> Path:
    """
    A project with each circuit, residuals, zero points, shifts by channel, columns of wider values,
    and the CPU in between.
    """
    net = Network([((2, 9, 11, 20), UniformType(0.5, -128))])
    (x,) = net.inputs

    def convolve(x: SSAValue, size: int, point: int, residual: SSAValue | None = None) -> SSAValue:
        weights = net.constant(random_array((20, size, size, 20), INT8, size), INT8)
        bias = net.constant(np.arange(-10, 10, dtype=np.int32) * 99, INT32)
        requant = RequantAttr(10, zero_point=point)
        if size == 3:
            by_channel = [1 << i % 13 for i in range(20)]
            mode = Rounding.HALF_EVEN
            requant = RequantAttr(11, multiplier=by_channel, rounding=mode, zero_point=point)
        op = graph.Conv2dOp(
            x, weights, bias, residual, result_element=UniformType(0.5, point),
            padding=(size // 2,) * 4, requant=requant,
            residual_shift=None if residual is None else 4,
        )  # fmt: skip
        return net.add(op, FPGA)

    to_even = RequantAttr(2, rounding=Rounding.HALF_EVEN, zero_point=-60)
    a = convolve(convolve(x, 1, 127, x), 5, 0)
    b = net.add(graph.RequantizeOp(a, UniformType(0.5, 33), RequantAttr(1)))
    c = convolve(b, 3, 33, a)
    sums = UniformType(0.5, -60)
    d = net.add(
        graph.BinaryOp(Binary.ADD, b, c, result_element=sums, shifts=(0, 3), requant=to_even), FPGA
    )
    e = net.add(graph.Pool2dOp(Pool.MAX, d, (3, 3), result_element=sums, strides=(2, 2)), FPGA)
    mean = RequantAttr(20, multiplier=(1 << 20) // 20)
    f = net.add(graph.Pool2dOp(Pool.AVERAGE, e, (4, 5), result_element=INT8, requant=mean), FPGA)
    flat = net.add(graph.ReshapeOp(f, (2, 20)))
    weights = net.constant(random_array((33, 20), INT8, 7), INT8)
    shifted = RequantAttr(8, multiplier=[1 << i % 17 for i in range(33)])
    g = graph.MatmulOp(flat, weights, result_element=INT8, requant=shifted)
    # Both lie in the columns of this one.
    joined = net.add(graph.ConcatOp([b, c], 3), FPGA)
    module = net.module(net.add(g, FPGA), joined, *tables_and_boxes(net, x), strategy="slices")
    assert all((block := block_of(v)) is not None and block.pitch.data == 40 for v in (b, c))
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    (argument,) = function.body.block.args
    sample = {"input0": random_array(shape_of(argument), element_of(argument), 1)}
    write_artefacts(folder, emit(module, sample))
    return folder / FOLDER


def run_bench(project: Path, flags: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    command = [*compiler(), *WARNINGS, *flags, *SOURCES, "-o", "bench"]
    subprocess.run(command, cwd=project, check=True)
    return subprocess.run(
        ["./bench", "."], cwd=project, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "flags",
    [SANITIZERS, pytest.param(("-D__SYNTHESIS__", "-Wno-unknown-pragmas"), marks=pytest.mark.slow)],
    ids=["sanitized", "as synthesized"],
)
def test_every_circuit_gives_the_bytes_of_the_interpreter(tmp_path: Path, flags: Sequence[str]):
    done = run_bench(every_circuit(tmp_path), flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("16 steps equal, ")


def test_a_wrong_byte_is_found(tmp_path: Path):
    project = every_circuit(tmp_path)
    golden = project / "golden.bin"
    data = bytearray(golden.read_bytes())
    at = 0
    while True:
        is_step, number, _, rows, width, _ = struct.unpack_from(RECORD, data, at)
        at += struct.calcsize(RECORD)
        if is_step and number == 2:
            break
        at += rows * width
    data[at + 5] ^= 1
    golden.write_bytes(data)
    done = run_bench(project)
    assert done.returncode == 1
    assert "step 2 'graph.conv2d' differs at 5: got " in done.stderr


def test_a_compiled_network_makes_its_project(tmp_path: Path):
    data = str(DIGITS / "digits_calibration.npz")
    command = [str(DIGITS / "digits.onnx"), "--target", "nnet", "--calibrate", data, "--emit-hls"]
    assert main([*command, "-o", str(tmp_path)]) == 0
    done = subprocess.run(
        ["make", "test", f"CXX={' '.join(compiler())}"],
        cwd=tmp_path / FOLDER, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "8 steps equal, " in done.stdout


def test_other_targets_and_networks_without_a_circuit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    model = str(DIGITS / "digits.onnx")
    assert main([model, "--target", "c", "--emit-hls", "-o", str(tmp_path / "c")]) == 2
    assert "--emit-hls is for target nnet, not c" in capsys.readouterr().err
    net = Network([((2, 3), INT8)])
    module = net.module(net.add(graph.RequantizeOp(net.inputs[0], INT8, RequantAttr(1))))
    with pytest.raises(InputError, match="no operation of the network runs on the FPGA"):
        emit(module, {"input0": np.zeros((2, 3), np.int8)})
