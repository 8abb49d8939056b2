"""Compare fused operators of ONNX Runtime's optimizer with ONNX Runtime."""

import numpy as np
import onnx
import pytest
from onnx_compare import agree
from onnx_models import Array, Attribute, model, node

from ceras_ir.frontends.onnx import import_model
from ceras_ir.support.diagnostics import UnsupportedError

RNG = np.random.default_rng(0)
DOMAIN = "com.microsoft"
TENSORS: dict[str, Array] = {
    "w": RNG.normal(size=(4, 3, 2, 2)).astype(np.float32),
    "b": RNG.normal(size=4).astype(np.float32),
    "point": RNG.normal(size=(3, 3, 1, 1)).astype(np.float32),
    "three": RNG.normal(size=3).astype(np.float32),
    "m": RNG.normal(size=(4, 5)).astype(np.float32),
}


def microsoft(
    op: str,
    operands: str,
    results: str = "y",
    /,
    *shape: int,
    domain: str = DOMAIN,
    **attributes: Attribute,
) -> onnx.ModelProto:
    """Build a node of ONNX Runtime's domain, with inputs `x` and `z` and constants."""
    fused = node(op, operands, results, **attributes)
    fused.domain = domain
    inputs = {name: shape for name in ("x", "z") if name in operands.split()}
    used = {name: array for name, array in TENSORS.items() if name in operands.split()}
    fused.output[:] = ["" if name == "-" else name for name in fused.output]
    named = [name for name in results.split() if name != "-"]
    proto = model([fused], inputs, named, used, infer=False, domains={DOMAIN: 1})
    for value in proto.graph.output:
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return proto


IMAGE, ROWS = (1, 3, 5, 6), (2, 3, 4)
CASES = {
    "conv and relu": microsoft("FusedConv", "x w b", "y", *IMAGE, activation="Relu"),
    "conv and clip": microsoft(
        "FusedConv", "x w", "y", *IMAGE, activation="Clip", activation_params=[-0.5, 0.75]
    ),
    "conv, sum and sigmoid": microsoft(
        "FusedConv", "x point three z", "y", *IMAGE, activation="Sigmoid"
    ),
    "matmul": microsoft("FusedMatMul", "x m", "y", *ROWS, alpha=0.5),
    "matmul transposed": microsoft("FusedMatMul", "x z", "y", *ROWS, transB=1, alpha=0.5),
    **{
        f"matmul of batches in between {flags}": microsoft(
            "FusedMatMul", "x z", "y", 3, 2, 5, 3, domain=DOMAIN, **dict.fromkeys(flags, 1)
        )
        for flags in (
            ["transBatchA", "transBatchB", "transB"],
            ["transBatchA", "transBatchB", "transA"],
        )
    },
    "gemm and leaky": microsoft(
        "FusedGemm", "x m", "y", 3, 4, activation="LeakyRelu", activation_alpha=0.25
    ),
    "gemm and elu": microsoft(
        "FusedGemm", "x m", "y", 3, 4, activation="Elu", activation_alpha=0.5
    ),
    "gemm and softplus": microsoft("FusedGemm", "x m", "y", 3, 4, activation="Softplus"),
    "gelu": microsoft("Gelu", "x", "y", *ROWS),
    "gelu of a sum": microsoft("BiasGelu", "x b", "y", *ROWS),
    "fast gelu of a sum": microsoft("FastGelu", "x b", "y", *ROWS),
    "quick gelu": microsoft("QuickGelu", "x", "y", *ROWS, alpha=1.5),
    "layer norm": microsoft("SkipLayerNormalization", "x z b b b", "y - - s", *ROWS),
    "root mean square": microsoft("SkipSimplifiedLayerNormalization", "x z b", "y", *ROWS),
    "root mean square alone": microsoft(
        "SimplifiedLayerNormalization", "x b", "y", *ROWS, domain=""
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_as_onnx_runtime(name: str) -> None:
    agree(CASES[name])


def test_others_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="before ONNX Runtime optimized it"):
        import_model(microsoft("EmbedLayerNormalization", "x", "y", *ROWS))
