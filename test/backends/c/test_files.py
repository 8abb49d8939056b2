"""Test the files: deterministic, warning-free, checked inputs and outputs, usable by `make`."""

import io
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from c_harness import check, compiled, constant, make_network, place, random_inputs
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
    TensorType,
    f32,
    i8,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from ceras_ir.backends.c import emitter
from ceras_ir.backends.c.constants import literal
from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.names import comment, identifiers
from ceras_ir.backends.c.runner import CModel
from ceras_ir.dialects import graph, mem
from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters import network
from ceras_ir.network.artefacts import Artefact, TensorInfo, network_inputs, network_outputs
from ceras_ir.support.diagnostics import InputError, UnsupportedError

pytestmark = pytest.mark.slow

RELU = FunctionAttr(Function.RELU)
Q = UniformType(0.5)
TABLE = DenseIntOrFPElementsAttr(
    TensorType(i8, (256,)), BytesAttr(np.arange(256).astype(np.int8).tobytes())
)


def small_network(seed: int = 0) -> ModuleOp:
    """
    Return a network that quantizes, convolves, reshapes in place and classifies, with a float and a
    quantized output.
    """
    rng = np.random.default_rng(seed)

    def build(x: SSAValue) -> list[SSAValue]:
        weights = rng.integers(-128, 128, (8, 3, 3, 4)).astype(np.int8)
        how = RequantAttr(9)
        stored = graph.QuantizeOp(x, Q).result
        y = graph.Conv2dOp(
            stored, constant(weights, Q), result_element=Q, requant=how, padding=(1, 1, 1, 1)
        ).result
        flat = graph.ReshapeOp(y, (1, 200)).result
        real = graph.DequantizeOp(flat).result
        matrix = constant(rng.normal(size=(10, 200)).astype(np.float32))
        scores = graph.MatmulOp(real, matrix, result_element=f32).result
        return [graph.SoftmaxOp(scores, 1).result, graph.LookupOp(y, TABLE, Q).result]

    return make_network([(f32, (1, 5, 5, 4))], build)


def named(name: str) -> NameLoc:
    """Return the location of an operation that originates from this node."""
    return NameLoc(StringAttr(name), UNKNOWN_LOC)


def contents(files: Sequence[Artefact]) -> dict[str, bytes]:
    result: dict[str, bytes] = {}
    for artefact in files:
        artefact.write(stream := io.BytesIO())
        result[artefact.path] = stream.getvalue()
    return result


def write(directory: Path, files: Sequence[Artefact]) -> None:
    for name, data in contents(files).items():
        (directory / name).write_bytes(data)


def make(directory: Path, *variables: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "-C", str(directory), *variables]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_weights_are_written_once():
    """
    Kernels share the stored weights, except those of AVX2 without dot products, which have them in
    another order; biases have variants.
    """
    text = contents(emit(place(small_network())))["model_weights.c"].decode("ascii")
    ordered = re.sub(r"^#if !MODEL_QUADS$.*?^#endif$", "", text, flags=re.DOTALL | re.MULTILINE)
    shared = re.sub(r"^#if MODEL_QUADS$.*?^#endif$", "", text, flags=re.DOTALL | re.MULTILINE)
    for variant in (ordered, shared):
        lines = variant.splitlines()
        weights = [line for line in lines if "const union" in line and "_weights " in line]
        assert weights and len(weights) == len(set(weights))
        assert variant.count("const union") > len(weights)


@pytest.mark.parametrize("weights", ["source", "file", "incbin"])
def test_steps_of_a_loop_share_their_weights(weights: str):
    """
    Layers of the same constant, or of equal constants, store it a single time with its variants.
    """
    stored, rng = np.arange(-32, 32, dtype=np.int8).reshape(8, 8), np.random.default_rng(0)
    real = rng.normal(size=(8, 8)).astype(np.float32)

    def build(x: SSAValue) -> list[SSAValue]:
        kept, matrix = constant(stored, Q), constant(real)
        q = graph.QuantizeOp(x, Q).result
        for w in (kept, kept, constant(stored, Q), constant(-stored, Q)):
            q = graph.MatmulOp(q, w, result_element=Q, requant=RequantAttr(5)).result
        y = graph.DequantizeOp(q).result
        for w in (matrix, matrix):
            y = graph.MatmulOp(y, w, result_element=f32).result
        return [y]

    module = place(make_network([(f32, (3, 8))], build))
    assert weights in ("source", "file", "incbin")
    options = COptions(weights=weights)
    pool = emitter.build(module, options).pool
    names = {c.name for c in pool.constants if c.name.endswith("_weights")}
    assert names == {"layer_1_weights", "layer_4_weights", "layer_6_weights"}
    assert len({copy.name for copy, _ in pool.copies if copy.name.endswith("_weights")}) == 3
    check(module, tolerance=1e-4, options=options)


def test_output_is_deterministic():
    module = place(small_network())
    first, again = contents(emit(module)), contents(emit(place(small_network())))
    assert first == again
    assert first == contents(emit(module))


@pytest.mark.parametrize("weights", ["source", "file", "incbin"])
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_make_builds_a_program(tmp_path: Path, cc: str, weights: str):
    """The program converts raw tensors to raw tensors, clean under both sanitizers."""
    if shutil.which(cc) is None:
        pytest.skip(f"{cc} is not installed")
    module = place(small_network())
    assert weights in ("source", "file", "incbin")
    write(tmp_path, emit(module, COptions(weights=weights)))
    built = make(
        tmp_path, f"CC={cc}", "CFLAGS=-O1 -fsanitize=undefined,address -fno-sanitize-recover=all"
    )
    assert built.returncode == 0, built.stderr
    inputs = random_inputs(module)
    (tmp_path / "in.bin").write_bytes(inputs["input0"].tobytes())

    def run() -> subprocess.CompletedProcess[str]:
        command = ["./model_run", "in.bin", "out.bin"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    expected = network.run(module, inputs)
    data = (tmp_path / "out.bin").read_bytes()
    scores = np.frombuffer(data[:40], np.float32)
    np.testing.assert_allclose(
        scores, np.asarray(expected["output0"], np.float32).reshape(-1), rtol=1e-4, atol=1e-6
    )
    assert data[40:] == expected["output1"].tobytes()

    (tmp_path / "in.bin").write_bytes(b"short")
    assert run().returncode == 1

    command = ["./model_bench", "3"]
    bench = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    figures = json.loads(bench.stdout)
    assert figures["runs"] == 3
    assert 0 < figures["min_ms"] <= figures["median_ms"]
    assert 0 < figures["wall_min_ms"] <= figures["wall_median_ms"]
    assert figures["macs"] == 5 * 5 * 8 * 9 * 4 + 200 * 10
    assert (
        subprocess.run(
            ["./model_bench"], cwd=tmp_path, stderr=subprocess.DEVNULL, check=False
        ).returncode
        == 2
    )


def test_another_models_weights_are_refused(tmp_path: Path):
    """Wrong contents, a flipped bit and a wrong length are refused on loading."""
    options = COptions(weights="file")
    module = place(small_network())
    check(small_network(), options=options, tolerance=1e-5)
    write(tmp_path, emit(module, options))
    right = (tmp_path / "model.weights").read_bytes()
    other = contents(emit(place(small_network(1)), options))["model.weights"]
    assert make(tmp_path).returncode == 0
    (tmp_path / "in.bin").write_bytes(random_inputs(module)["input0"].tobytes())
    flipped = bytearray(right)
    flipped[-100] ^= 1
    for data, status in ((right, 0), (other, 1), (flipped, 1), (right[:-1], 1), (right + b"x", 1)):
        (tmp_path / "model.weights").write_bytes(data)
        command = ["./model_run", "in.bin", "out.bin"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == status


def test_trace_reports_every_step():
    """A reshape without code is traced under the index in the network."""
    module = place(small_network())
    expected: list[bytes] = []

    def listen(op: object, results: tuple[object, ...]) -> None:
        if not isinstance(op, graph.ConstantOp):
            expected.extend(np.asarray(r).tobytes() for r in results)

    inputs = random_inputs(module)
    network.run(module, inputs, listen)
    seen: list[tuple[int, bytes]] = []
    compiled(module, trace=lambda i, data: seen.append((i, data))).run(inputs)
    assert [i for i, _ in seen] == list(range(7))
    assert [len(data) for _, data in seen] == [len(e) for e in expected[:7]]
    assert [seen[i][1] for i in (0, 1, 2, 3, 6)] == [expected[i] for i in (0, 1, 2, 3, 6)]


def test_results_that_are_not_computed_are_copied():
    """An argument, a constant and a repeated value are copied; unused inputs cause no warning."""
    held = np.arange(6, dtype=np.float32)

    def build(x: SSAValue, unused: SSAValue) -> list[SSAValue]:
        y = graph.UnaryOp(x, RELU).result
        return [x, constant(held), y, y, graph.ReshapeOp(x, (6, 1)).result]

    check(make_network([(f32, (6,)), (f32, (2,))], build))
    check(
        make_network([(f32, (6,)), (f32, (2,))], lambda x, _: [graph.ReshapeOp(x, (3, 2)).result])
    )


def launch_network() -> ModuleOp:
    """
    Return a network that packs, launches and unpacks; weights of the launch are a constant of the
    image.
    """

    def build(x: SSAValue) -> list[SSAValue]:
        packed = mem.PackOp(x, (16,)).result
        weights = constant(np.ones((1, 2, 16), np.int8), Q)
        kind = graph.tensor_type(packed)
        launched = mem.LaunchOp("k", [packed, weights], [kind]).outputs[0]
        return [mem.UnpackOp(launched, graph.tensor_type(x)).result, launched]

    module = make_network([(Q, (2, 5))], build)
    dram = TensorType(Q, (1, 2, 16))
    body = Block([ReturnOp()], arg_types=[dram, dram, dram])
    module.body.block.add_op(FuncOp("k", ([dram, dram, dram], []), Region(body)))
    return module


def test_launches_call_the_user():
    module = place(launch_network(), io=True)
    files = contents(emit(module))
    assert "main.c" not in files
    assert b"int model_launch(int launch, void *arena);" in files["model.h"]
    assert b"model_run(" not in files["model.h"]
    launch = next(
        op for op in network.main_function(module).body.block.ops if isinstance(op, mem.LaunchOp)
    )
    source, target = mem.block_of(launch.inputs[0]), mem.block_of(launch.outputs[0])
    assert source is not None and target is not None
    numbers: list[int] = []

    def negate(number: int, arena: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> None:
        numbers.append(number)
        data = arena[source.offset.data :][:32].view(np.int8)
        arena[target.offset.data :][:32].view(np.int8)[:] = -data

    x = np.arange(-5, 5, dtype=np.int8).reshape(2, 5)
    got = compiled(module, launch=negate).run({"input0": x})
    np.testing.assert_array_equal(got["output0"], -x)
    assert got["output1"].shape == (1, 2, 16) and numbers == [0]

    def fails(number: int, arena: object) -> None:
        raise InputError("the simulator stopped")

    with pytest.raises(InputError, match="the simulator stopped"):
        compiled(module, launch=fails).run({"input0": x})


def test_all_that_is_unsupported_is_reported_at_once():
    def build(x: SSAValue, w: SSAValue) -> list[SSAValue]:
        first = graph.Conv2dOp(x, w, result_element=f32)
        second = graph.Conv2dOp(x, w, result_element=f32)
        first.location, second.location = named("fc1"), named("fc2")
        return [first.result, second.result]

    module = place(make_network([(f32, (1, 2, 2, 3)), (f32, (4, 1, 1, 3))], build))
    with pytest.raises(UnsupportedError) as error:
        emit(module)
    assert [f.node for f in error.value.findings] == ["fc1", "fc2"]
    assert all("unsupported" in f.message and "freeze" in f.message for f in error.value.findings)


def test_elided_constants_are_refused_before_writing():
    module = place(small_network())
    for op in list(network.main_function(module).body.block.ops):
        if isinstance(op, graph.ConstantOp):
            kind = op.value.type
            op.value = DenseResourceAttr.from_params("elided", kind)
    with pytest.raises(InputError, match="elided"):
        emit(module)


def test_a_plan_is_required():
    with pytest.raises(InputError, match="allocate-blocks"):
        emit(small_network())


def test_overlapping_blocks_are_refused():
    def build(x: SSAValue) -> list[SSAValue]:
        y = graph.UnaryOp(graph.UnaryOp(x, RELU).result, RELU).result
        return [graph.UnaryOp(y, RELU).result]

    module = place(make_network([(f32, (8,))], build))
    ops = [op for op in network.main_function(module).body.block.ops if mem.BLOCK in op.attributes]
    for i, op in enumerate(ops):
        op.attributes[mem.BLOCK] = mem.BlockAttr(i, 4 * i, 32)
    with pytest.raises(InputError, match="overlaps an operand"):
        emit(module)


NASTY = '*/ int x; /* \\\n??/ \u00e9\u2603 "quote" %s'


def test_names_cannot_break_the_text():
    module = place(small_network())
    main = network.main_function(module)
    main.arg_attrs = ArrayAttr([DictionaryAttr({"graph.name": StringAttr(NASTY)})])
    main.res_attrs = ArrayAttr(
        [DictionaryAttr({"graph.name": StringAttr(n)}) for n in ("int", "INT")]
    )
    for op in main.body.block.ops:
        op.location = named(NASTY)
    got = compiled(module, options=COptions(title=NASTY)).run(
        {NASTY: np.zeros((1, 5, 5, 4), np.float32)}
    )
    assert list(got) == ["int", "INT"]


def test_identifiers_are_distinct_and_legal():
    names = ["conv1/Relu:0", "conv1.relu.0", "int", "layer_0", "1x", "", "\u00e9", "size_t", "X"]
    assert identifiers(names) == [
        "conv1_relu_0", "conv1_relu_0_2", "t_int", "t_layer_0", "t_1x", "t_", "t__2", "t_size_t",
        "x",
    ]  # fmt: skip
    assert comment("a*/b\\") == "a%2A/b%5C"


def test_literals_spell_every_pair_of_bytes(tmp_path: Path):
    """A compiler parses all 65536 pairs, including trigraphs and octal digits after escapes."""
    pairs = np.arange(1 << 16, dtype=np.uint16).view(np.uint8)
    lines = b"".join(b'"' + literal(pairs[i : i + 1024]) + b'"\n' for i in range(0, 1 << 17, 1024))
    (tmp_path / "f.c").write_bytes(b"const char data[] =\n" + lines + b";\n")
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-o", "f.so"]
    subprocess.run(["cc", *flags, "f.c"], cwd=tmp_path, check=True)
    assert pairs.tobytes() in (tmp_path / "f.so").read_bytes()


def test_the_header_stops_what_cannot_work(tmp_path: Path):
    """A memory limit and a wrong buffer stop compilation; C++ accepts the header too."""
    write(tmp_path, emit(place(small_network())))
    user = '#include "model.h"\nfloat image[100];\nMODEL_CHECK_BUFFER(image, MODEL_INPUT0_SIZE);\n'

    def status(language: str, text: str, *flags: str) -> int:
        command = [
            "cc",
            "-x",
            language,
            "-fsyntax-only",
            "-Wall",
            "-Wextra",
            "-Werror",
            *flags,
            "-",
        ]
        return subprocess.run(
            command, input=text.encode(), cwd=tmp_path, capture_output=True, check=False,
            env={**os.environ, "CPATH": str(tmp_path)},
        ).returncode  # fmt: skip

    for language, standard in (("c", "-std=c99"), ("c", "-std=c11"), ("c++", "-std=c++11")):
        if language == "c++" and shutil.which("g++") is None:
            continue
        assert status(language, user, standard) == 0
        assert status(language, user.replace("100", "99"), standard) != 0
        assert status(language, user, standard, "-DMODEL_ARENA_LIMIT=64") != 0


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CERAS_CC", "no-such-compiler")
    with pytest.raises(InputError, match="no-such-compiler"):
        compiled(place(small_network()))


def test_inputs_are_checked():
    model = compiled(place(small_network()), flags=("-O0",))
    right = np.zeros((1, 5, 5, 4), np.float32)
    for inputs, message in (
        ({}, "missing"),
        ({"input0": right[0]}, "shape"),
        ({"input0": right.astype(np.float64)}, "float64"),
    ):
        with pytest.raises(InputError, match=message):
            model.run(inputs)


def test_a_written_directory_runs(tmp_path: Path):
    """The run does not change the directory."""
    module = place(small_network())
    main, inputs = network.main_function(module), random_inputs(module)
    write(tmp_path, emit(module))
    before = sorted(p.name for p in tmp_path.iterdir())
    got = CModel(tmp_path, network_inputs(main), network_outputs(main)).run(inputs)
    np.testing.assert_array_equal(got["output1"], network.run(module, inputs)["output1"])
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_tensor_info_round_trips():
    for info in (TensorInfo("x", (1, 2), "int8", 0.5, -3), TensorInfo("y", (), "float32")):
        assert TensorInfo.from_json(info.to_json()) == info
    with pytest.raises(InputError):
        TensorInfo.from_json({"name": "x", "shape": [0], "dtype": "int8"})
