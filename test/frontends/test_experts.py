"""Compare mixtures of experts with ONNX Runtime."""

import numpy as np
import onnx
import pytest
from onnx_compare import agree
from onnx_models import Array, Attribute, model, node

from ceras_ir.frontends.onnx import import_model
from ceras_ir.support.diagnostics import InputError, UnsupportedError

RNG = np.random.default_rng(0)


def real(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def mixture(
    shape: tuple[int, ...] = (5, 8),
    experts: int = 4,
    hidden: int = 6,
    operands: str = "x r w1 b1 w2 b2",
    **attributes: Attribute,
) -> onnx.ModelProto:
    """Return a model of `experts` experts on rows of `shape`."""
    width = shape[-1]
    weights = {
        "w1": real(experts, hidden, width),
        "b1": real(experts, hidden),
        "w2": real(experts, width, hidden),
        "b2": real(experts, width),
        "w3": real(experts, hidden, width),
    }
    made = node("MoE", operands, "y", **attributes)
    made.domain = "com.microsoft"
    made.input[:] = ["" if name == "-" else name for name in operands.split()]
    used = {name: array for name, array in weights.items() if name in operands.split()}
    inputs = {"x": shape, "r": (int(np.prod(shape[:-1])), experts)}
    return model([made], inputs, ["y"], used, opset=18, infer=False, domains={"com.microsoft": 1})


CASES: dict[str, onnx.ModelProto] = {
    "best": mixture(k=1),
    "best of two": mixture(k=2),
    "normalized": mixture(k=3, normalize_routing_weights=1),
    "all": mixture(k=4, normalize_routing_weights=1),
    "sequences": mixture((2, 3, 8), k=2),
    "without biases": mixture(operands="x r w1 - w2", k=2),
    **{kind: mixture(k=2, activation_type=kind) for kind in ("gelu", "silu", "identity")},
}


@pytest.mark.parametrize("name", CASES)
def test_as_onnx_runtime(name: str) -> None:
    proto = CASES[name]
    shapes = {
        each.name: [d.dim_value for d in each.type.tensor_type.shape.dim]
        for each in proto.graph.input
    }
    agree(proto, {name: real(*shapes[name]) for name in ("x", "r")})


def test_equal_scores_select_the_last_experts() -> None:
    agree(CASES["best of two"], {"x": real(5, 8), "r": np.zeros((5, 4), np.float32)})


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (mixture(operands="x r w1 b1 w2 b2 w3"), "experts have two layers with relu"),
        (mixture(activation_type="swiglu"), "experts have two layers with relu"),
        (mixture(use_sparse_mixer=1), "use_sparse_mixer=1"),
        (mixture(k=5), r"attribute 'k' must be in \[1, 4\], got 5"),
    ],
)
def test_refused(proto: onnx.ModelProto, text: str) -> None:
    with pytest.raises((InputError, UnsupportedError), match=text):
        import_model(proto)
