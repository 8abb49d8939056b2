"""
What additions cost in files of `ceras_ir`: a function of one argument three, listed here, and an
ONNX operator made of what is there one.

A copy of the package gets ONNX's Shrink, and then imports, runs, exports and compiles it; and
Asinh, which it imports and runs.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
PATCH = {
    "dialects/graph/attributes.py": ("\n\n@irdl_attr_definition\n", DECLARATION),
    "interpreters/float_functions.py": ("        case Function.GELU_TANH:\n", MEANING),
    "interpreters/runtime/shrink_f32.c": ("", TEXT),
}
"""File -> the text before which the function's own stands there; the last file is new."""

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
from ceras_ir.backends.c.options import COptions
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
    from ceras_ir.backends.nnet.runner import NnetModel
    from ceras_ir.backends.nnet.writer import emit as write

    AllocateBlocksPass(strategy="colouring", io=True).apply(Context(), module)
    (artefact,) = write(module)
    with open("model.nnet", "wb") as stream:
        artefact.write(stream)
    same(NnetModel(Path("model.nnet")).run(inputs))
"""

OPERATOR = {
    "frontends/onnx/operators/hyperbolic.py": (
        "",
        """'''Functions of hyperbolas.'''

from ceras_ir.dialects.graph import Function
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import operator
from ceras_ir.frontends.onnx.values import Value


@operator("Asinh")
def asinh(node: Node, emitter: Emitter) -> Value:
    c, x = Composer(emitter), emitter.value(0)
    root = c.unary(Function.SQRT, c.add(c.mul(x, x), c.number(1.0)))
    return c.unary(Function.LOG, c.add(x, root))
""",
    )
}
USE_OPERATOR = """
import numpy as np
from onnx import TensorProto, helper

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run

x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [9]) for n in "xy")
graph = helper.make_graph([helper.make_node("Asinh", ["x"], ["y"])], "made", [x], [y])
inputs = {"x": np.linspace(0, 4, 9, dtype=np.float32)}
got = run(import_model(helper.make_model(graph)), inputs)["y"]
np.testing.assert_allclose(got, np.arcsinh(inputs["x"]), rtol=1e-5)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package that has the function and the operator."""
    folder = tmp_path_factory.mktemp("copy")
    package = folder / "ceras_ir"
    shutil.copytree(Path(ceras_ir.__file__).parent, package, ignore=shutil.ignore_patterns("*.pyc"))
    for name, (behind, text) in (PATCH | OPERATOR).items():
        path = package / name
        old = path.read_text(encoding="utf-8") if behind else behind
        assert path.exists() == bool(behind) and (not behind or behind in old)
        path.write_text(text + old if not behind else old.replace(behind, text + behind, 1))
    return folder


def run(folder: Path, code: str, *arguments: str) -> None:
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("target", ["c", "onnx", pytest.param("nnet", marks=pytest.mark.slow)])
def test_a_new_function_takes_three_files(copy: Path, target: str):
    assert len(PATCH) == 3
    run(copy, USE, target)


def test_a_new_operator_takes_one_file(copy: Path):
    assert len(OPERATOR) == 1
    run(copy, USE_OPERATOR)
