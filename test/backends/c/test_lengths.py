"""
Test programs of several lengths: at each length, the results are those of ONNX Runtime and, bit for
bit, those of the program of this length alone. All other lengths are refused.
"""

import ctypes
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from length_networks import NETWORKS, samples
from onnx import helper
from onnx_compare import compare
from onnx_models import Array, model, node, run_onnxruntime
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.runner import LIBRARY_FLAGS, CModel, compiler
from ceras_ir.backends.c.target import CTarget
from ceras_ir.data.array_archive import save_arrays
from ceras_ir.dialects.graph import ConstantOp
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function
from ceras_ir.network.length_table import LengthTable
from ceras_ir.network.lengths import Lengths, lengths_of, parse_shapes
from ceras_ir.pipeline.build import Build, build, build_target
from ceras_ir.pipeline.lengths import (
    LengthModules,
    build_lengths,
    quantize_lengths,
    read_lengths,
    table_of,
)
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import UnsupportedError

LENGTHS = (8, 24, 40)
BAD_LENGTH = 4
FLOAT = BuildOptions(CTarget(), "none")


def chosen(pattern: str, values: tuple[int, ...] = LENGTHS) -> Lengths:
    name, _, shape = pattern.partition("=")
    text = ",".join(shape.format(value) for value in values)
    found = lengths_of({name: parse_shapes(text)})
    assert found is not None
    return found


def networks(name: str, folder: Path, values: tuple[int, ...] = LENGTHS) -> LengthModules:
    make, pattern = NETWORKS[name]
    path = folder / "model.onnx"
    path.write_bytes(make().SerializeToString())
    return networks_of(path, pattern, values)


def networks_of(path: Path, pattern: str, values: tuple[int, ...] = LENGTHS) -> LengthModules:
    lengths = chosen(pattern, values)
    return read_lengths(lambda shapes: read_network(str(path), shapes=shapes), lengths)


def program(built: Build, flags: tuple[str, ...] = ("-O1",)) -> CModel:
    main = main_function(built.module)
    tensors = network_inputs(main), network_outputs(main)
    table = LengthTable.from_manifest(built.emission.manifest, *tensors)
    return CModel(built.emission.artefacts, *tensors, lengths=table, flags=flags)


def inputs_at(module: ModuleOp, seed: int) -> dict[str, Array]:
    infos = network_inputs(main_function(module))
    drawn = samples({t.name: (t.dtype, t.shape) for t in infos}, 1, seed)
    return {t.name: drawn[t.name].reshape(t.shape) for t in infos}


def assert_equal_bits(got: Mapping[str, Array], want: Mapping[str, Array]) -> None:
    assert list(got) == list(want)
    for name, array in want.items():
        assert got[name].shape == array.shape and got[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("name", NETWORKS)
def test_float(name: str, tmp_path: Path):
    found = networks(name, tmp_path)
    alone = [build(module.clone(), FLOAT) for module in found.modules]
    modules = [module.clone() for module in found.modules]
    built = build_lengths(found, FLOAT)
    whole = program(built)
    for module, one in zip(modules, alone, strict=True):
        arrays = inputs_at(module, 1)
        got = whole.run(arrays)
        assert_equal_bits(got, program(one).run(arrays))
        compare(got, run_onnxruntime(NETWORKS[name][0](), arrays))
        if name in ("tagger", "recognizer"):
            # In vectors, which sum in another order.
            flags = ("-O1", "-march=native")
            native = program(built, flags).run(arrays)
            assert_equal_bits(native, program(one, flags).run(arrays))


@pytest.mark.parametrize("name", NETWORKS)
def test_int8(name: str, tmp_path: Path):
    found = networks(name, tmp_path)
    infos = network_inputs(main_function(found.largest))
    data = samples({t.name: (t.dtype, t.shape) for t in infos}, 32, 0)
    save_arrays(str(tmp_path / "data.npz"), data)
    options = BuildOptions(CTarget(), "int8", calibration=str(tmp_path / "data.npz"))
    quantize_lengths(found, options)
    modules = [module.clone() for module in found.modules]
    constants = [quantized_constants(module) for module in modules]
    assert all(each == constants[0] for each in constants) or name == "front end"
    # The network is quantized already, which the pass leaves unchanged.
    whole = program(build_lengths(found, options))
    floats = networks(name, tmp_path)
    for module, real in zip(modules, floats.modules, strict=True):
        arrays = inputs_at(module, 2)
        got = whole.run(arrays)
        assert_equal_bits(got, program(build_target(module.clone(), options)).run(arrays))
        assert_equal_bits(got, run(module, arrays))
        for output, expected in run(real, arrays).items():
            difference = got[output].astype(np.float64) - expected.astype(np.float64)
            error = float(np.sqrt(np.mean(difference**2)))
            assert error < 0.2 * float(np.abs(expected).max()), output


def quantized_constants(module: ModuleOp) -> list[bytes]:
    ops = main_function(module).body.block.ops
    return [op.digest() for op in ops if isinstance(op, ConstantOp)]


def recurrent(kind: str, by_batch: bool, result: str, layers: int) -> onnx.ModelProto:
    """
    Return bidirectional layers of `kind` with inputs [T, 1, 6], or [1, T, 6] with `by_batch`, and
    a product of the `result` of the last layer: "states", "last" states or "change" of states.
    """
    random, gates = np.random.default_rng(7), {"LSTM": 4, "GRU": 3}[kind]
    tensors: dict[str, Array] = {"steps": np.array([-1, 1, 16]), "rows": np.array([1, -1, 16])}
    nodes = [node("Transpose", "x", "x0", perm=[1, 0, 2])] if by_batch else []
    value, size = "x0" if by_batch else "x", 6
    for i in range(layers):
        for name, width in (("W", size), ("R", 8)):
            array = random.normal(0, 0.3, (2, gates * 8, width))
            tensors[f"{name}{i}"] = array.astype(np.float32)
        given = f"{value} W{i} R{i}", f"y{i} h{i}"
        nodes.append(node(kind, *given, hidden_size=8, direction="bidirectional"))
        nodes.append(node("Transpose", f"y{i}", f"t{i}", perm=[0, 2, 1, 3]))
        nodes.append(node("Reshape", f"t{i} steps", f"x{i + 1}"))
        value, size = f"x{i + 1}", 16
    if result == "last":
        value = f"h{layers - 1}"
    elif result == "change":
        # The bounds of a slice depend on the length, and those of the other slice do not.
        bounds = {"zero": 0, "four": 4, "end": -4, "all": 1 << 40}
        tensors |= {name: np.array([bound]) for name, bound in bounds.items()}
        nodes.append(node("Slice", f"{value} zero end zero", "before"))
        nodes.append(node("Slice", f"{value} four all zero", "after"))
        nodes.append(node("Sub", "after before", "change"))
        value = "change"
    nodes.append(node("Reshape", f"{value} rows", "flat"))
    nodes.append(node("MatMul", "flat v", "y"))
    tensors["v"] = random.normal(0, 0.3, (16, 5)).astype(np.float32)
    inputs = {"x": (1, "T", 6) if by_batch else ("T", 1, 6)}
    return model(nodes, inputs, ["y"], tensors, opset=17)


@pytest.mark.parametrize(
    ("kind", "by_batch", "result", "layers"),
    [
        ("LSTM", True, "states", 1),
        ("LSTM", False, "last", 2),
        ("LSTM", False, "change", 2),
        ("GRU", True, "change", 1),
    ],
)
def test_bidirectional_int8(kind: str, by_batch: bool, result: str, layers: int, tmp_path: Path):
    proto = recurrent(kind, by_batch, result, layers)
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    found = networks_of(path, "x=1x{}x6" if by_batch else "x={}x1x6")
    random, shape = np.random.default_rng(0), network_inputs(main_function(found.largest))[0].shape
    data = random.normal(size=(32, *shape)).astype(np.float32)
    save_arrays(str(tmp_path / "data.npz"), {"x": data})
    options = BuildOptions(CTarget(), "int8", calibration=str(tmp_path / "data.npz"))
    quantize_lengths(found, options)
    modules = [module.clone() for module in found.modules]
    whole = program(build_lengths(found, options))
    for module in modules:
        shape = network_inputs(main_function(module))[0].shape
        arrays: dict[str, Array] = {"x": random.normal(size=shape).astype(np.float32)}
        got = whole.run(arrays)
        assert_equal_bits(got, run(module, arrays))
        want = run_onnxruntime(proto, arrays)["y"]
        assert np.allclose(got["y"], want, atol=0.1 * float(np.abs(want).max()))


def streaming() -> onnx.ModelProto:
    random = np.random.default_rng(5)
    weights = {
        "W": random.normal(0, 0.3, (1, 32, 6)).astype(np.float32),
        "R": random.normal(0, 0.3, (1, 32, 8)).astype(np.float32),
    }
    lstm = node("LSTM", "x W R - - h c", "y hn cn", hidden_size=8)
    inputs = {"x": ("T", 1, 6), "h": (1, 1, 8), "c": (1, 1, 8)}
    return model([lstm], inputs, ["y", "hn", "cn"], weights, opset=17)


@pytest.mark.parametrize("is_int8", [False, True])
def test_states_persist_between_lengths(is_int8: bool, tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(streaming().SerializeToString())
    states = {"h": "hn", "c": "cn"}
    lengths = lengths_of({"x": parse_shapes("4x1x6,8x1x6")})
    assert lengths is not None
    found = read_lengths(
        lambda shapes: read_network(str(path), shapes=shapes, states=states), lengths
    )
    random = np.random.default_rng(0)
    data = {"x": random.normal(size=(32, 8, 1, 6)).astype(np.float32)}
    save_arrays(str(tmp_path / "data.npz"), data)
    calibration = str(tmp_path / "data.npz") if is_int8 else None
    kind = "int8" if is_int8 else "none"
    whole = program(build_lengths(found, BuildOptions(CTarget(), kind, calibration=calibration)))
    kept = dict.fromkeys(states, np.zeros((1, 1, 8), np.float32))
    for count in (4, 8, 8, 4):
        x = random.normal(size=(count, 1, 6)).astype(np.float32)
        want = run_onnxruntime(streaming(), {"x": x, **kept})
        kept = {name: want[result] for name, result in states.items()}
        assert np.allclose(whole.run({"x": x})["y"], want["y"], atol=0.05)


def conditional() -> onnx.ModelProto:
    """Return a network with other operations from length 5."""
    nodes = ("MatMul", "x w", "u"), ("Relu", "u", "t")
    long = helper.make_graph([node(*each) for each in nodes], "long", [], [empty("t")])
    nodes = ("MatMul", "x w", "v"), ("Sigmoid", "v", "s"), ("Add", "s x", "o")
    short = helper.make_graph([node(*each) for each in nodes], "short", [], [empty("o")])
    body = [
        node("Shape", "x", "shape"),
        node("Gather", "shape one", "length"),
        node("Greater", "length four", "big"),
        node("If", "big", "z", then_branch=long, else_branch=short),
        node("MatMul", "z w", "y"),
    ]
    weights = np.random.default_rng(6).normal(0, 0.3, (8, 8)).astype(np.float32)
    tensors = {"w": weights, "one": np.array(1), "four": np.array(4)}
    return model(body, {"x": (1, "N", 8)}, ["y"], tensors, opset=17)


def empty(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)


def test_other_operations_at_other_lengths(tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(conditional().SerializeToString())
    lengths = lengths_of({"x": parse_shapes("1x2x8,1x4x8,1x5x8,1x7x8")})
    assert lengths is not None

    def read() -> LengthModules:
        return read_lengths(lambda shapes: read_network(str(path), shapes=shapes), lengths)

    found = read()
    modules = [module.clone() for module in found.modules]
    whole = program(build_lengths(found, FLOAT))
    for module in modules:
        arrays = inputs_at(module, 4)
        got = whole.run(arrays)
        assert_equal_bits(got, program(build(module.clone(), FLOAT)).run(arrays))
        compare(got, run_onnxruntime(conditional(), arrays))
    with pytest.raises(UnsupportedError, match="other operations at another length"):
        build_lengths(read(), replace(FLOAT, quantize="int8"))


def test_other_lengths_change_no_output(tmp_path: Path):
    whole = program(build_lengths(networks("tagger", tmp_path), FLOAT))
    tokens = np.zeros(64, np.int64)
    for length in (-(1 << 31), -1, 0, 7, 9, 41, (1 << 31) - 1):
        result = np.full(1024, 7.5, np.float32)
        arrays = (whole.arena, tokens, result)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
        before = whole.arena.tobytes()
        assert whole._run(*pointers, ctypes.c_int32(length)) == BAD_LENGTH  # pyright: ignore
        assert (result == 7.5).all() and whole.arena.tobytes() == before


def test_outputs_end_at_the_length(tmp_path: Path):
    whole = program(build_lengths(networks("tagger", tmp_path), FLOAT))
    tokens, result = np.zeros(64, np.int64), np.full(64 * 7, 7.5, np.float32)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (whole.arena, tokens, result)]
    assert whole._run(*pointers, ctypes.c_int32(24)) == 0  # pyright: ignore
    assert (result[24 * 7 :] == 7.5).all() and not (result[: 24 * 7] == 7.5).any()


@pytest.mark.parametrize("weights", ["source", "file"])
def test_the_program(weights: str, tmp_path: Path):
    found = networks("recognizer", tmp_path)
    modules = [module.clone() for module in found.modules]
    target = CTarget(weights="file") if weights == "file" else CTarget()
    folder = tmp_path / "out"
    folder.mkdir()
    build_lengths(found, replace(FLOAT, target=target)).write(folder)
    command = [*compiler(), *LIBRARY_FLAGS, "-O1", "-fsanitize=undefined", "-fno-sanitize-recover"]
    sources = [str(path) for path in folder.glob("*.c") if path.name != "bench.c"]
    subprocess.run([*command, *sources, "-o", str(folder / "run")], check=True)
    subprocess.run([*command, "-c", str(folder / "bench.c"), "-o", "/dev/null"], check=True)
    more = [str(folder / "model.weights")] if weights == "file" else []
    files = [str(tmp_path / "in.bin"), str(tmp_path / "out.bin")]
    for module, length in zip(modules, LENGTHS, strict=True):
        arrays = inputs_at(module, 3)
        (tmp_path / "in.bin").write_bytes(arrays["image"].tobytes())
        subprocess.run([str(folder / "run"), *files, str(length), *more], check=True)
        got = np.fromfile(tmp_path / "out.bin", np.float32)
        want = run(module, arrays)["probabilities"]
        assert np.allclose(got, want.ravel(), atol=1e-6)
    done = subprocess.run(
        [str(folder / "run"), *files, "9", *more], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "not a length of this model" in done.stderr


@pytest.mark.parametrize("name", ["tagger", "recognizer"])
def test_code_of_16_lengths(name: str, tmp_path: Path):
    values = tuple(range(8, 136, 8))
    found = networks(name, tmp_path, values)
    one = build(found.largest.clone(), FLOAT)
    sizes = [code_bytes(each, tmp_path) for each in (one, build_lengths(found, FLOAT))]
    assert sizes[1] < 2 * sizes[0], sizes


def code_bytes(built: Build, folder: Path) -> int:
    for artefact in built.emission.artefacts:
        with open(folder / artefact.path, "wb") as stream:
            artefact.write(stream)
    target = folder / "model.o"
    command = [*compiler(), "-std=c99", "-Os", "-ffp-contract=off"]
    subprocess.run([*command, "-c", str(folder / "model.c"), "-o", str(target)], check=True)
    lines = subprocess.run(["size", target], check=True, capture_output=True, text=True).stdout
    return int(lines.splitlines()[1].split()[0])


def test_the_table_is_checked(tmp_path: Path):
    found = networks("tagger", tmp_path)
    table = table_of(found)
    tensors = table.inputs[-1], table.outputs[-1]
    entry = table.to_json()
    assert LengthTable.from_manifest({"lengths": entry}, *tensors) == table
    wrong_entries: list[object] = [
        3,
        {**entry, "values": [24, 8, 40]},
        {**entry, "values": [8, 24]},
        {**entry, "inputs": None},
        {**entry, "inputs": {"tokens": [[1, 8], [1, 24], [1, 41]]}},
        {**entry, "outputs": {"tags": [[1, 8, 7], [1, -24, 7], [1, 40, 7]]}},
    ]
    for wrong in wrong_entries:
        with pytest.raises(Exception, match="no valid list of lengths"):
            LengthTable.from_manifest({"lengths": wrong}, *tensors)
