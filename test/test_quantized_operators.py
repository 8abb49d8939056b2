"""
Test operators on integers, as ONNX and ONNX Runtime define them.

The difference from ONNX Runtime is at most one unit. The interpreter, C and the nnet engine compute
equal integers.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from xdsl.utils.hints import isa

from ceras_ir.backends.c.target import CTarget
from ceras_ir.command.output_files import write_artefacts
from ceras_ir.frontends.onnx.emission.folding import Evaluator
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.build import build, open_folder
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages
from ceras_ir.targets.registry import find_target

Array = NDArray[np.generic]
TYPES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int32": TensorProto.INT32}

onnxruntime = pytest.importorskip("onnxruntime")


class Case:
    """A model of one operator, with initializers for all operands but the data inputs."""

    def __init__(self, operator: str, domain: str = "", **attributes: object):
        self.operator, self.domain, self.attributes = operator, domain, attributes
        self.names: list[str] = []
        self.constants: list[onnx.TensorProto] = []
        self.data: dict[str, Array] = {}

    def constant(self, value: object, dtype: str) -> "Case":
        self.names.append(f"c{len(self.names)}")
        array = np.asarray(value, dtype)
        self.constants.append(numpy_helper.from_array(array, self.names[-1]))
        return self

    def scale(self, scale: object, point: object, dtype: str) -> "Case":
        """Add a scale and a zero point."""
        return self.constant(scale, "float32").constant(point, dtype)

    def input(self, array: Array) -> "Case":
        self.names.append(f"x{len(self.names)}")
        self.data[self.names[-1]] = array
        return self

    def model(self, dtype: str) -> onnx.ModelProto:
        node = helper.make_node(self.operator, self.names, ["y"], "node", domain=self.domain)
        node.attribute.extend(
            helper.make_attribute(name, value) for name, value in self.attributes.items()
        )
        graph = helper.make_graph(
            [node],
            "case",
            [
                helper.make_tensor_value_info(name, TYPES[array.dtype.name], array.shape)
                for name, array in self.data.items()
            ],
            [helper.make_tensor_value_info("y", TYPES[dtype], None)],
            self.constants,
        )
        opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def spread(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Draw integers of the full range, with the extremes."""
    info = np.iinfo(dtype)
    generator = np.random.default_rng(seed)
    array = generator.integers(info.min, info.max + 1, shape).astype(dtype)
    flat = array.reshape(-1)
    flat[:2] = info.min, info.max
    return array


def cases() -> Iterator[tuple[str, Case, str]]:
    microsoft = "com.microsoft"
    for dtype, points in (("int8", (-128, 3, 7)), ("uint8", (0, 131, 128))):
        x, w = spread((1, 3, 6, 5), dtype, 1), spread((4, 3, 3, 3), dtype, 2)
        bias = np.array([3, -70000, 12345, 2**20], np.int32)
        conv = Case("QLinearConv", pads=[1, 1, 0, 1], strides=[2, 1]).input(x)
        conv.scale(0.021, points[1], dtype).constant(w, dtype)
        per_channel = np.array([0.01, 0.002, 0.0301, 0.5], np.float32)
        middle = [0 if dtype == "int8" else 128] * 4
        conv.scale(per_channel, middle, dtype).scale(0.11, points[1], dtype)
        yield f"conv_{dtype}", conv.constant(bias, "int32"), dtype
        product = Case("QLinearMatMul").input(spread((5, 7), dtype, 3))
        product.scale(0.02, points[2], dtype).constant(spread((7, 3), dtype, 4), dtype)
        product.scale(0.013, points[1], dtype).scale(0.031, points[1], dtype)
        yield f"matmul_{dtype}", product, dtype
        for operator in ("QLinearAdd", "QLinearMul"):
            binary = Case(operator, microsoft).input(spread((2, 300), dtype, 5))
            binary.scale(0.05, points[1], dtype).input(spread((2, 300), dtype, 6))
            binary.scale(0.013, points[2], dtype)
            yield f"{operator}_{dtype}", binary.scale(0.11, points[0], dtype), dtype
        for operator, attributes in (
            ("QLinearSigmoid", {}),
            ("QLinearLeakyRelu", {"alpha": 0.1}),
            ("QLinearGlobalAveragePool", {}),
            ("QLinearAveragePool", {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}),
        ):
            unary = Case(operator, microsoft, **attributes).input(spread((1, 3, 5, 4), dtype, 7))
            unary.scale(0.043, points[1], dtype)
            yield f"{operator}_{dtype}", unary.scale(0.037, points[2], dtype), dtype
        average = Case(
            "QLinearAveragePool", microsoft, kernel_shape=[3, 3], pads=[0, 1, 1, 0],
            strides=[1, 2], ceil_mode=1, count_include_pad=1,
        )  # fmt: skip
        average.input(spread((1, 3, 8, 7), dtype, 10)).scale(0.043, points[1], dtype)
        yield f"average_of_padding_{dtype}", average.scale(0.031, points[2], dtype), dtype
        gemm = Case("QGemm", microsoft, alpha=0.3, transB=1).input(spread((5, 7), dtype, 11))
        gemm.scale(0.02, points[1], dtype).constant(spread((4, 7), dtype, 12), dtype)
        gemm.scale(per_channel, middle, dtype).constant([900, -70000, 3, 12345], "int32")
        yield f"gemm_{dtype}", gemm.scale(0.6, points[2], dtype), dtype
        resized = Case("Resize", mode="linear", coordinate_transformation_mode="half_pixel")
        resized.input(spread((1, 2, 5, 4), dtype, 13)).constant([], "float32")
        yield f"resize_{dtype}", resized.constant([1, 1, 2, 1.5], "float32"), dtype
        copied = Case("Resize", mode="nearest", coordinate_transformation_mode="asymmetric")
        copied.input(spread((1, 2, 5, 4), dtype, 14)).constant([], "float32")
        yield f"copied_{dtype}", copied.constant([1, 1, 2, 1.5], "float32"), dtype
        concat = Case("QLinearConcat", microsoft, axis=1).scale(0.07, points[2], dtype)
        concat.input(spread((2, 3), dtype, 8)).scale(0.07, points[2], dtype)
        concat.input(spread((2, 40), dtype, 9)).scale(0.031, points[1], dtype)
        yield f"concat_{dtype}", concat, dtype
        whole = Case("ConvInteger", pads=[1, 1, 1, 1]).input(x).constant(w, dtype)
        yield f"conv_integer_{dtype}", whole.constant(points[1], dtype), "int32"
        product = Case("MatMulInteger").input(spread((5, 7), dtype, 3))
        product.constant(spread((7, 3), dtype, 4), dtype).constant(points[2], dtype)
        yield f"matmul_integer_{dtype}", product.constant(points[1], dtype), "int32"


CASES = {name: (case, dtype) for name, case, dtype in cases()}
SIGNED_WEIGHTS = {"conv_integer_int8", "matmul_integer_int8"}
"""Cases with signed inputs that ONNX Runtime's CPU kernels lack."""


def reference(path: Path) -> Evaluator:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(str(path))


@pytest.mark.parametrize("name", CASES)
def test_against_onnxruntime(name: str, tmp_path: Path):
    case, dtype = CASES[name]
    path = tmp_path / "model.onnx"
    path.write_bytes(case.model(dtype).SerializeToString())
    module = read_network(str(path))
    run_stages(load_context(), module, front_stages(BuildOptions(CTarget()).resolved(module)))
    actual = run(module, case.data)["y"]
    assert actual.dtype == np.dtype(dtype)
    if name in SIGNED_WEIGHTS:
        results = reference(path).run(None, case.data)
        assert isa(results, list[np.ndarray])
        expected = results[0]
    else:
        (expected,) = onnxruntime.InferenceSession(str(path)).run(None, case.data)
    distance = np.abs(expected.astype(np.int64) - actual.astype(np.int64))
    print(f"{name}: {(distance > 0).sum()} of {distance.size} differ")
    # Sums of integers are exact; all other results are rounded a single time.
    assert distance.max() <= (0 if dtype == "int32" else 1)
    assert (distance > 0).mean() <= 0.02


def test_nothing_is_left_of_an_operation_that_stays_float(tmp_path: Path):
    """Average 6 elements of equal scales: the results have ties, which no reciprocal hits."""
    case = Case("QLinearAveragePool", "com.microsoft", kernel_shape=[2, 3])
    case.input(spread((1, 3, 8, 7), "int8", 15)).scale(0.037, 3, "int8")
    path = tmp_path / "model.onnx"
    path.write_bytes(case.scale(0.037, 3, "int8").model("int8").SerializeToString())
    module = read_network(str(path))
    run_stages(load_context(), module, front_stages(BuildOptions(CTarget()).resolved(module)))
    uses = [use for op in module.walk() for result in op.results for use in result.uses]
    assert uses and all(use.operation.parent is not None for use in uses)


@pytest.mark.slow
@pytest.mark.parametrize("target", ("c", "nnet"))
def test_same_integers_on_targets(target: str, tmp_path: Path):
    for name, (case, dtype) in CASES.items():
        if target == "nnet" and case.operator == "Resize":
            continue  # The engine supports no integers without a scale.
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(case.model(dtype).SerializeToString())
        module = read_network(str(path))
        options = BuildOptions(find_target(target)()).resolved(module)
        reference = module.clone()
        run_stages(load_context(), reference, front_stages(options))
        expected = run(reference, case.data)["y"]
        folder = tmp_path / name
        folder.mkdir()
        write_artefacts(folder, build(module, options).files())
        (actual,) = open_folder(folder).run([case.data])
        assert actual["y"].dtype == expected.dtype, name
        assert np.array_equal(actual["y"], expected), name
