"""
Check the number of files of `ceras_ir` that an addition changes.

A function of one argument changes three files, listed here. An ONNX operator composed of existing
operations changes one file, and an operation with C and nnet changes five.

A copy of the package gets ONNX's Shrink, and then imports, runs, exports and compiles it; Asinh,
which it imports and runs; and `graph.shift`, which it verifies.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from slow_cases import slow

import ceras_ir

DECLARATION = '''
    SHRINK = "shrink", Facts(OnnxOperator("Shrink", 9, (0.0, 0.5)), ("bias", "lambd"))
    """`x + p0` where `x < -p1`, `x - p0` where `x > p1`, else 0"""

'''
MEANING = """        case Function.SHRINK:
            outside = np.where(x > p[1], x - p[0], np.float32(0))
            return np.where(x < -p[1], x + p[0], outside)
"""
TEXT = """static float shrink_f32(float x, float bias, float lambd)
{
  return x < -lambd ? x + bias : x > lambd ? x - bias : 0.0f;
}
"""
PATCH: dict[str, tuple[str, ...]] = {
    "dialects/graph/attributes.py": ("\n\n@irdl_attr_definition\n", DECLARATION),
    "interpreters/float_functions.py": ("        case Function.GELU_TANH:\n", MEANING),
    "interpreters/runtime/shrink_f32.c": ("", TEXT),
}
"""Map a file to pairs of an anchor and the text to insert before it; the last file is new."""

USE = """
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from xdsl.context import Context

import ceras_ir
from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.runner import CModel
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters import network
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass

assert Path(ceras_ir.__file__).is_relative_to(Path.cwd()), ceras_ir.__file__
x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 40]) for n in "xy")
node = helper.make_node("Shrink", ["x"], ["y"], "shrunk", bias=0.25, lambd=1.0)
graph = helper.make_graph([node], "made", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
inputs = {"x": np.linspace(-3, 3, 80, dtype=np.float32).reshape(2, 40)}
expected = ReferenceEvaluator(model).run(None, inputs)[0]


def same(got):
    np.testing.assert_array_equal(got["y"], expected)


module = import_model(model)
main = network.main_function(module)
assert "<shrink, 0.25, 1.0>" in str(module), module
same(network.run(module, inputs))
if sys.argv[1] == "c":
    AllocateBlocksPass().apply(Context(), module)
    flags = ("-O1", "-Wall", "-Wextra", "-Werror")
    ends = network_inputs(main), network_outputs(main)
    same(CModel(emit(module, COptions()), *ends, flags=flags).run(inputs))
elif sys.argv[1] == "onnx":
    from ceras_ir.backends.onnx.export import export_model

    again = ReferenceEvaluator(export_model(module, "made", exact=True))
    same({"y": again.run(None, inputs)[0]})
else:
    from ceras_ir.backends.nnet.engine import NnetModel
    from ceras_ir.backends.nnet.writer import emit as write

    AllocateBlocksPass(strategy="colouring", io=True).apply(Context(), module)
    (artefact,) = write(module)
    with open("model.nnet", "wb") as stream:
        artefact.write(stream)
    same(NnetModel(Path("model.nnet")).run(inputs))
"""

OPERATOR: dict[str, tuple[str, ...]] = {
    "frontends/onnx/operators/hyperbolic.py": (
        "",
        """'''Functions of hyperbolas.'''

from ceras_ir.dialects.graph import Function
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import operator
from ceras_ir.frontends.onnx.emission.values import Value
from ceras_ir.frontends.onnx.model.node import Node


@operator("com.microsoft::Asinh")
def asinh(node: Node, emitter: Emitter) -> Value:
    x = emitter.value(0)
    root = emitter.unary(Function.SQRT, emitter.add(emitter.mul(x, x), emitter.number(1.0)))
    return emitter.unary(Function.LOG, emitter.add(x, root))
""",
    )
}
USE_OPERATOR = """
import numpy as np
from onnx import TensorProto, helper

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run

x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [9]) for n in "xy")
node = helper.make_node("Asinh", ["x"], ["y"], domain="com.microsoft")
graph = helper.make_graph([node], "made", [x], [y])
inputs = {"x": np.linspace(0, 4, 9, dtype=np.float32)}
opsets = [helper.make_opsetid(name, version) for name, version in (("", 17), ("com.microsoft", 1))]
model = helper.make_model(graph, opset_imports=opsets)
got = run(import_model(model), inputs)["y"]
np.testing.assert_allclose(got, np.arcsinh(inputs["x"]), rtol=1e-5)
"""

OPERATION: dict[str, tuple[str, ...]] = {
    "dialects/graph/elementwise.py": (
        "from xdsl.ir import",
        "from xdsl.dialects.builtin import Float32Type, FloatAttr\n",
        "@irdl_op_definition\nclass SoftmaxOp(",
        """@irdl_op_definition
class ShiftOp(InputOperation):
    '''`input + by`, element by element, in float32.'''

    name = "graph.shift"

    T: ClassVar = VarConstraint("T", base(TensorType))

    input = operand_def(T)
    by = prop_def(FloatAttr[Float32Type])
    result = result_def(T)

    traits = traits_def(Elementwise(), MayOverwrite())
    assembly_format = "$input attr-dict `:` type($input)"


""",
    ),
    "interpreters/graph.py": (
        "    @impl(graph.ReshapeOp)",
        """    @impl(graph.elementwise.ShiftOp)
    def shift(
        self, interpreter: Interpreter, op: graph.elementwise.ShiftOp, args: PythonValues
    ):
        return (args[0] + np.float32(op.by.value.data),)

""",
    ),
    "backends/c/elementwise.py": (
        "@prints(graph.SoftmaxOp)",
        """@prints(graph.elementwise.ShiftOp)
def shift(layer: Layer, op: graph.elementwise.ShiftOp) -> None:
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    body = [f"{y}[i] = {x}[i] + {float_literal(op.by.value.data)};"]
    layer.loop("i", prod(shape_of(op.result)), body)


""",
    ),
    "backends/nnet/elementwise_layers.py": (
        "from ceras_ir.backends.nnet.file import",
        "from ceras_ir.backends.nnet.encoding import float_word\n",
        "record_as(SOFTMAX",
        """SHIFT = Kind(32, "shift", _check_floats, words=1, same_shape=True, in_place=True)
record_as(SHIFT, graph.elementwise.ShiftOp, lambda op: [float_word(op.by.value.data)])
""",
    ),
    "backends/nnet/runtime/cpu_elementwise.cpp": (
        "const Operation OPERATIONS[] = {\n",
        """void shift(const Layer& layer, Scratch&) {
  const float by = as_float(layer.attributes[0]);
  each_run(layer, [&](int64_t from, int64_t to, int64_t, int64_t count) {
    const float* in = layer.input().floats() + from;
    float* out = layer.output().float_target() + to;
    for (int64_t i = 0; i < count; ++i) out[i] = in[i] + by;
  });
}

""",
        "    {17, 1, ANY,",
        "    {32, 1, 1, SAME_SHAPE, check_floats, always<shift>, in_place},\n",
    ),
}
SHIFT = """
func.func @main(%x: tensor<3x5xf32> {graph.name = "x"}) -> (tensor<3x5xf32> {graph.name = "y"}) {
  %s = graph.shift %x {by = 1.5 : f32} : tensor<3x5xf32>
  %r = graph.unary <relu> %s : tensor<3x5xf32>
  func.return %r : tensor<3x5xf32>
}
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with a package that has the function and the operator."""
    folder = tmp_path_factory.mktemp("copy")
    package = folder / "ceras_ir"
    shutil.copytree(Path(ceras_ir.__file__).parent, package)
    for name, edits in (*PATCH.items(), *OPERATOR.items(), *OPERATION.items()):
        path = package / name
        text = path.read_text(encoding="utf-8") if edits[0] else ""
        assert path.exists() == bool(edits[0])
        for behind, addition in zip(edits[::2], edits[1::2], strict=True):
            assert behind in text
            text = text.replace(behind, addition + behind, 1) if behind else addition
        path.write_text(text)
    return folder


def run(folder: Path, code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("target", ["c", slow("onnx"), slow("nnet")])
def test_a_new_function_takes_three_files(copy: Path, target: str):
    assert len(PATCH) == 3
    run(copy, USE, target)


@pytest.mark.slow
def test_a_new_operator_takes_one_file(copy: Path):
    assert len(OPERATOR) == 1
    run(copy, USE_OPERATOR)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "quantize"), [("c", "none"), slow("nnet", "int8")])
def test_a_new_operation_takes_five_files(copy: Path, target: str, quantize: str):
    assert len(OPERATION) == 5
    (copy / "shift.mlir").write_text(SHIFT)
    command = "from ceras_ir.driver.verify.tool import main; raise SystemExit(main())"
    out = run(copy, command, "shift.mlir", "--quantize", quantize, "--targets", target)
    assert f"{target}: machine" in out and "differs" not in out, out
