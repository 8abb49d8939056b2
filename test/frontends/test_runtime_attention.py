"""Compare attention operators of ONNX Runtime's domain with ONNX Runtime."""

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx_compare import agree
from onnx_models import Array, Attribute, node

from ceras_ir.frontends.onnx import import_model
from ceras_ir.support.diagnostics import UnsupportedError

RNG = np.random.default_rng(0)


def real(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def whole(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


class Case:
    """A node, the operands by name, and results; operands in `constant` are no inputs."""

    def __init__(
        self,
        op: str,
        operands: str,
        results: str,
        arrays: Mapping[str, Array],
        constant: str = "",
        outputs: str = "",
        attributes: dict[str, Attribute] | None = None,
    ):
        names = ["" if name == "-" else name for name in operands.split()]
        made_of = node(op, operands, results, **(attributes or {}))
        made_of.domain = "com.microsoft"
        made_of.input[:] = names
        self.inputs = {n: arrays[n] for n in names if n and n not in constant.split()}
        kept = [numpy_helper.from_array(arrays[n], n) for n in constant.split()]
        kind = helper.np_dtype_to_tensor_dtype
        made = helper.make_tensor_value_info
        graph = helper.make_graph(
            [made_of],
            "g",
            [made(n, kind(a.dtype), a.shape) for n, a in self.inputs.items()],
            [made(n, onnx.TensorProto.FLOAT, None) for n in (outputs or results).split()],
            kept,
        )
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
        self.model = helper.make_model(graph, opset_imports=opsets, ir_version=9)


ANGLES = np.outer(np.arange(16), 1 / 10 ** np.arange(0, 1, 0.125))
COS, SIN = np.cos(ANGLES).astype(np.float32), np.sin(ANGLES).astype(np.float32)


def rotary(operands: Array, positions: Array, **attributes: Attribute) -> Case:
    return Case(
        *("RotaryEmbedding", "x p c s", "y"),
        {"x": operands, "p": positions, "c": COS, "s": SIN},
        constant="c s",
        attributes=attributes,
    )


def grouped(
    steps: int,
    past: int,
    end: int,
    total: int,
    constant: str = "n",
    batch: int = 1,
    **attributes: Attribute,
) -> Case:
    """Use four heads of queries on two of keys, 16 elements each, and a buffer of `past` keys."""
    rotated = " c s" if attributes.get("do_rotary") else ""
    return Case(
        *("GroupQueryAttention", f"q k v pk pv e n{rotated}", "y ok ov"),
        {
            "q": real(batch, steps, 64),
            "k": real(batch, steps, 32),
            "v": real(batch, steps, 32),
            "pk": real(batch, 2, past, 16),
            "pv": real(batch, 2, past, 16),
            "e": whole(*[end] * batch),
            "n": whole(total),
            "c": COS,
            "s": SIN,
        },
        constant=f"{constant}{rotated}",
        # Elements after the last key are undefined in the runtime.
        outputs="y" if end + 1 < total else "",
        attributes={"num_heads": 4, "kv_num_heads": 2, **attributes},
    )


def prompt(**attributes: Attribute) -> Case:
    """Use packed queries, keys and values, without a past."""
    return Case(
        *("GroupQueryAttention", "q - - - - e n c s", "y ok ov"),
        {"q": real(2, 5, 128), "e": whole(4, 4), "n": whole(5), "c": COS, "s": SIN},
        constant="e n c s",
        attributes={"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, **attributes},
    )


def heads(operands: str, results: str = "y") -> Case:
    arrays: dict[str, Array] = {
        "q": real(2, 3, 8),
        "k": real(2, 5, 8),
        "v": real(2, 5, 12),
        "b": real(28),
        "pk": real(2, 2, 4, 4),
        "a": real(1, 2, 3, 5),
        "ek": real(2, 2, 5, 4),
        "tb": real(24),
        "m1": whole(3, 5),
        "m2": RNG.integers(0, 2, (2, 5)).astype(np.int32),
        "m3": RNG.integers(0, 2, (2, 3, 5)).astype(np.int32),
    }
    return Case("MultiHeadAttention", operands, results, attributes={"num_heads": 2}, arrays=arrays)


def joined(operands: str, results: str = "y", **attributes: Attribute) -> Case:
    return Case(
        *("Attention", operands, results),
        {
            "x": real(2, 3, 6),
            "w": real(6, 24),
            "b": real(24),
            "m1": whole(2, 3),
            "m2": np.array([[1, 0, 1], [1, 1, 1]], np.int32),
            "p": real(2, 2, 2, 4, 4),
            "a": real(2, 2, 3, 3),
        },
        constant="w b",
        attributes={"num_heads": 2, **attributes},
    )


CASES = {
    "rotary": rotary(real(2, 3, 5, 16), RNG.integers(0, 16, (2, 5))),
    "rotary of rows": rotary(real(2, 5, 48), np.array([3])),
    "rotary of neighbours": rotary(real(1, 5, 48), np.arange(5)[None], interleaved=1),
    "rotary of a part": rotary(real(1, 5, 60), np.array([2]), num_heads=3, rotary_embedding_dim=16),
    "prompt": prompt(),
    "prompt, windowed and capped": prompt(local_window_size=2, softcap=0.5, scale=0.7),
    "one step": grouped(1, 6, 6, 7, do_rotary=1),
    "one step of which less is known": grouped(1, 6, 3, 7, do_rotary=1, rotary_interleaved=1),
    "one step in a buffer of a fixed size": grouped(1, 6, 3, 6, do_rotary=1),
    "some steps": grouped(3, 6, 8, 9, do_rotary=1),
    "some steps, windowed": grouped(3, 6, 8, 9, local_window_size=4),
    "known steps": grouped(3, 6, 8, 9, constant="e n", do_rotary=1, local_window_size=4),
    "no position is turned": grouped(1, 6, 6, 7, constant="e n"),
    "heads": heads("q k v b"),
    "heads of a part": heads("q k v - m1"),
    "heads, masked": heads("q k v - m2"),
    "heads, masked for each query": heads("q k v - m3"),
    "heads, biased": heads("q k v b - a"),
    "heads of an encoder": heads("q ek ek"),
    "heads of an encoder, biased": heads("q ek ek tb"),
    "heads with a past": heads("q k k - - - pk pk", "y ok ov"),
    "joined": joined("x w b"),
    "joined, of a part": joined("x w b m1"),
    "joined, masked and causal": joined("x w b m2", unidirectional=1),
    "joined, with a past": joined("x w b - p", "y o", unidirectional=1),
    "joined, biased": joined("x w - - - a", scale=0.3),
    "joined, values of another size": joined("x w b", qkv_hidden_sizes=[6, 6, 12]),
}


@pytest.mark.parametrize("name", CASES)
def test_as_onnx_runtime(name: str):
    agree(CASES[name].model, CASES[name].inputs)


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (prompt(smooth_softmax=1), "sinks are given"),
        (grouped(1, 6, 6, 7, batch=2), "2 sequences .* with a batch of 1, or with a symbolic"),
        (joined("x w b", do_rotary=1), "rotated positions"),
        (heads("q k"), "packed queries, keys and values"),
    ],
)
def test_refused(case: Case, text: str):
    with pytest.raises(UnsupportedError, match=text):
        import_model(case.model)
