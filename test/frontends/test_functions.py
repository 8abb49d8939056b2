"""Test functions that models define: attributes, defaults, operator sets, nested calls."""

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import parser
from onnx_models import run_onnxruntime

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import InputError, UnsupportedError

X = np.array([[-1, -2, 0.5, -0.25]], np.float32)

Array = npt.NDArray[np.float32]


def written(
    graph: str, *functions: str, opset: int = 18, function_opset: int = 18
) -> onnx.ModelProto:
    """Build a model from x to y, in the text form of ONNX; functions have no headers."""
    header = f'<domain: "local", opset_import: ["": {function_opset}, "local": 1]>'
    text = (
        f'<ir_version: 10, opset_import: ["": {opset}, "local": 1]>\n'
        f"main (float[1, 4] x) => (float[1, 4] y) {{ {graph} }}\n"
    )
    return parser.parse_model(text + "\n".join(f"{header} {function}" for function in functions))


def leaky(slope: float, x: Array = X) -> Array:
    return np.where(x < 0, np.float32(slope) * x, x).astype(np.float32)


LEAKY = "leaky <alpha: float = 0.25> (a) => (b) { b = LeakyRelu <alpha: float = @alpha> (a) }"

BRANCH = """
branch <alpha: float = 0.5> (a, c) => (b) {
    b = If (c) <
        then_branch = one () => (float[1, 4] r) {
            y = LeakyRelu <alpha: float = @alpha> (a)
            r = Neg (y)
        },
        else_branch = other () => (float[1, 4] r) { r = Identity (a) }
    >
}
"""

VALID: dict[str, tuple[onnx.ModelProto, Array]] = {
    "default": (written("y = local.leaky (x)", LEAKY), leaky(0.25)),
    "given": (written("y = local.leaky <alpha = 0.5> (x)", LEAKY), leaky(0.5)),
    "default of an axis": (
        written(
            "y = local.f (x)",
            "f <axis: int = 0> (a) => (b) { b = Softmax <axis: int = @axis> (a) }",
        ),
        np.ones((1, 4), np.float32),
    ),
    "default that is a constant": (
        written(
            "y = local.f (x)",
            "f <k: float = -0.25> (a) => (b) { c = Constant <value_float: float = @k> ()"
            " b = Mul (a, c) }",
        ),
        X * np.float32(-0.25),
    ),
    "no default and not given": (
        written(
            "y = local.f (x)", "f <alpha> (a) => (b) { b = LeakyRelu <alpha: float = @alpha> (a) }"
        ),
        leaky(0.01),
    ),
    "attribute handed on": (
        written(
            "y = local.outer <beta = 0.5> (x)",
            "outer <beta: float = 0.125> (a) => (b) { b = local.leaky <alpha: float = @beta> (a) }",
            LEAKY,
        ),
        leaky(0.5),
    ),
    "attribute handed on that is not given": (
        written(
            "y = local.outer (x)",
            "outer <beta> (a) => (b) { b = local.leaky <alpha: float = @beta> (a) }",
            LEAKY,
        ),
        leaky(0.25),
    ),
    "attribute in a branch": (
        written("c = Constant <value = bool {1}> () y = local.branch (x, c)", BRANCH),
        -leaky(0.5),
    ),
    "call in a branch": (
        written(
            "c = Constant <value = bool {1}> () y = If (c) <"
            "then_branch = one () => (float[1, 4] b) { b = local.leaky (x) },"
            "else_branch = other () => (float[1, 4] r) { r = Neg (x) }>",
            LEAKY,
        ),
        leaky(0.25),
    ),
    "names that the caller has too": (
        written(
            "a = Neg (x) b = local.f (a) y = Add (b, a)",
            "f (x) => (y) { a = Abs (x) b = Neg (a) y = Add (b, b) }",
        ),
        -2 * np.abs(X) - X,
    ),
    "two calls": (
        written("t = local.leaky (x) y = local.leaky <alpha = 0.5> (t)", LEAKY),
        leaky(0.5, leaky(0.25)),
    ),
    "omitted operand": (
        written("y = local.f (x)", "f (a, low, high) => (b) { b = Clip (a, low, high) }"),
        X,
    ),
    "operand in the middle omitted": (
        written(
            "k = Constant <value = float {0}> () y = local.f (x, , k)",
            "f (a, low, high) => (b) { b = Clip (a, low, high) }",
        ),
        np.minimum(X, 0),
    ),
    "older operator set": (written("y = local.leaky (x)", LEAKY, function_opset=17), leaky(0.25)),
    "newer operator set": (
        written("y = local.leaky (x)", LEAKY, opset=16, function_opset=20),
        leaky(0.25),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VALID)
def test_a_call_computes_the_body(name: str) -> None:
    proto, expected = VALID[name]
    assert (run_onnxruntime(proto, {"x": X})["y"] == expected).all()
    assert (run(import_model(proto), {"x": X})["y"] == expected).all()


def test_an_input_that_is_an_output() -> None:
    proto = written("y = local.f (x)", "f (a) => (a) { }")
    assert (run(import_model(proto), {"x": X})["y"] == X).all()


def test_overloads() -> None:
    proto = written(
        "y = local.f (x)", "f (a) => (b) { b = Neg (a) }", "f (a) => (b) { b = Abs (a) }"
    )
    proto.functions[0].overload, proto.functions[1].overload = "one", "two"
    with pytest.raises(InputError, match=r"overload '' of the function, .* only 'one', 'two'"):
        import_model(proto)
    proto.graph.node[0].overload = "two"
    assert (run(import_model(proto), {"x": X})["y"] == np.abs(X)).all()


def test_a_standard_operator_has_precedence() -> None:
    proto = written("y = Relu (x)", "f (a) => (b) { b = Relu (a) }")
    proto.functions[0].domain, proto.functions[0].name = "ai.onnx", "Relu"
    assert (run_onnxruntime(proto, {"x": X})["y"] == np.maximum(X, 0)).all()
    assert (run(import_model(proto), {"x": X})["y"] == np.maximum(X, 0)).all()


WRONG: dict[str, tuple[onnx.ModelProto, str]] = {
    "too many operands": (
        written("y = local.leaky (x, x)", LEAKY),
        "has 2 operands and 1 results, the function has 1 and 1",
    ),
    "too many results": (
        written("y, z = local.leaky (x)", LEAKY),
        "has 1 operands and 2 results, the function has 1 and 1",
    ),
    "type of an attribute": (
        written("y = local.leaky <alpha = 1> (x)", LEAKY),
        "attribute 'alpha' is of type FLOAT, but 'alpha' of the function is INT",
    ),
    "name of the caller": (
        written("t = Neg (x) y = local.f (x)", "f (a) => (b) { b = Add (a, t) }"),
        "uses 'y/t', which no node or input of the model defines",
    ),
    "two functions": (written("y = local.leaky (x)", LEAKY, LEAKY), "'local::leaky' twice"),
    "recursion in a branch": (
        written(
            "c = Constant <value = bool {1}> () y = local.f (x, c)",
            "f (a, c) => (b) { b = If (c) <"
            "then_branch = one () => (float[1, 4] r) { r = local.f (a, c) },"
            "else_branch = other () => (float[1, 4] r) { r = Neg (a) }> }",
        ),
        "the function calls itself",
    ),
    "two inputs": (
        written("y = local.f (x, x)", "f (a, a) => (b) { b = Neg (a) }"),
        "two inputs of the function have the same name",
    ),
    "reference outside a function": (
        written("y = LeakyRelu <alpha: float = @beta> (x)"),
        "attribute 'alpha' refers to attribute 'beta' of a function, but the node is in the graph",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call(name: str) -> None:
    proto, message = WRONG[name]
    with pytest.raises(InputError) as info:
        import_model(proto)
    assert info.value.exit_status == 1 and message in str(info.value)


def test_a_function_that_imports_no_operator_set() -> None:
    proto = written("y = local.leaky (x)", LEAKY)
    del proto.functions[0].opset_import[0]
    with pytest.raises(InputError, match="imports no version of the operator set"):
        import_model(proto)


def test_an_operator_set_with_another_meaning() -> None:
    """Softmax of opset 12 flattens the operand. ONNX Runtime ignores the opset of the function."""
    proto = written("y = local.f (x)", "f (a) => (b) { b = Softmax (a) }", function_opset=12)
    with pytest.raises(UnsupportedError) as info:
        import_model(proto)
    assert str(info.value) == (
        "node 'y' (local::f): error: unsupported local::f: the function imports version 12 of the "
        "operator set ai.onnx, the model version 18, and Softmax differs between them; export the "
        "function with version 18"
    )


def test_calls_that_multiply() -> None:
    doubling = [
        f"f{i} (a) => (b) {{ t = local.f{i + 1} (a) b = local.f{i + 1} (t) }}" for i in range(30)
    ]
    proto = written("y = local.f0 (x)", *doubling, "f30 (a) => (b) { b = Neg (a) }")
    with pytest.raises(InputError, match="expand to 1073741824 nodes, at most 1048576"):
        import_model(proto)
