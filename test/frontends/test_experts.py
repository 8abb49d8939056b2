"""Compare mixtures of experts with ONNX Runtime."""

import numpy as np
import onnx
import pytest
from onnx_compare import agree
from onnx_models import Array, Attribute, model, node

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
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


def gated(operands: str, **attributes: Attribute) -> onnx.ModelProto:
    """Return a model of 4 experts with the gate `swiglu` on rows of 8 elements."""
    is_fused = "swiglu_fusion" in attributes
    shapes = {"w1": (4, 12 if is_fused else 6, 8), "w2": (4, 8, 6), "w3": (4, 6, 8)}
    weights = {name: real(*shape) for name, shape in shapes.items() if name in operands}
    for name in ("b1", "b2", "b3"):
        if name in operands:
            weights[name] = real(*shapes[f"w{name[1]}"][:2])
    made = node("MoE", operands, "y", k=2, activation_type="swiglu", **attributes)
    made.domain = "com.microsoft"
    made.input[:] = ["" if name == "-" else name for name in operands.split()]
    inputs = {"x": (5, 8), "r": (5, 4)}
    domains = {"com.microsoft": 1}
    return model([made], inputs, ["y"], weights, opset=18, infer=False, domains=domains)


GATE = {"activation_alpha": 1.7, "activation_beta": 1.0, "swiglu_limit": 0.5}


@pytest.mark.parametrize("attributes", [{}, GATE])
def test_interleaved_gates(attributes: dict[str, Attribute]) -> None:
    proto = gated("x r w1 b1 w2 b2", swiglu_fusion=1, **attributes)
    agree(proto, {"x": real(5, 8), "r": real(5, 4)})


@pytest.mark.parametrize("attributes", [{}, GATE])
@pytest.mark.parametrize(
    "operands", ["x r w1 b1 w2 b2", "x r w1 - w2 - w3", "x r w1 b1 w2 b2 w3 b3"]
)
def test_other_gates(operands: str, attributes: dict[str, float]) -> None:
    """Gates that ONNX Runtime computes only on GPUs equal the formula of its documentation."""
    fusion = {} if "w3" in operands else {"swiglu_fusion": 2}
    proto = gated(operands, **attributes, **fusion)
    c = {t.name: onnx.numpy_helper.to_array(t).astype(np.float64) for t in proto.graph.initializer}
    x, r = real(5, 8), real(5, 4)
    found = run(import_model(proto), {"x": x, "r": r})["y"]
    shares = np.exp(r) / np.exp(r).sum(1, keepdims=True)
    limit, wanted = attributes.get("swiglu_limit", np.inf), np.zeros((5, 8))
    for i, e in [(row, expert) for row in range(5) for expert in np.argsort(-r[row])[:2]]:
        h = x[i] @ c["w1"][e].T + (c["b1"][e] if "b1" in c else 0)
        g, v = (h[:6], h[6:]) if fusion else (h, x[i] @ c["w3"][e].T)
        v = v + (c["b3"][e] if "b3" in c else 0)
        g, v = np.minimum(g, limit), np.clip(v, -limit, limit)
        gate = g / (1 + np.exp(-attributes.get("activation_alpha", 1.0) * g))
        inner = gate * (v + attributes.get("activation_beta", 0.0))
        wanted[i] += shares[i, e] * (inner @ c["w2"][e].T + (c["b2"][e] if "b2" in c else 0))
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (mixture(operands="x r w1 b1 w2 b2 w3"), "only swiglu has a third layer"),
        (mixture(activation_type="tanh"), "experts must have relu, gelu, silu, identity or swiglu"),
        (mixture(activation_type="swiglu"), "'swiglu_fusion' is 0, with 6 outputs of fc1"),
        (gated("x r w1 - w2", swiglu_fusion=1, swiglu_limit=0.0), "'swiglu_limit' must be"),
        (mixture(use_sparse_mixer=1), "use_sparse_mixer=1"),
        (mixture(k=5), r"attribute 'k' must be in \[1, 4\], got 5"),
    ],
)
def test_refused(proto: onnx.ModelProto, text: str) -> None:
    with pytest.raises((InputError, UnsupportedError), match=text):
        import_model(proto)
