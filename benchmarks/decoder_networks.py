"""
Build decoders of a token with caches of keys and values of a fixed size, with random weights.

The forms are those that exporters write: a sliding window (a concatenation without the first row),
an indexed copy (ScatterND), and a selection of the row at the position (Where).
"""

from typing import Literal

import numpy as np
from length_networks import FLOATS, INTEGERS, Network
from onnx import ModelProto

Form = Literal["window", "scatter", "where"]
FORMS: tuple[Form, ...] = ("window", "scatter", "where")

WORDS = 40
LARGE = {"layers": 8, "width": 512, "heads": 8, "rows": 256, "words": 4096}
"""Sizes with 27 M weights and caches of 8.4 MB in float."""


def states(layers: int = 1) -> dict[str, str]:
    """Return the input and the output of each cache, for `--state`."""
    return {f"{q}{layer}": f"new_{q}{layer}" for layer in range(layers) for q in ("keys", "values")}


def decoder(
    form: Form,
    layers: int = 1,
    width: int = 32,
    heads: int = 2,
    rows: int = 8,
    words: int = WORDS,
    seed: int = 0,
) -> ModelProto:
    """
    Return a decoder with the input `token`, and the input `mask` [1, 1, 1, rows] that is added to
    scores (form `window`) or `position` of the row to write (other forms).
    """
    net, size = Network(seed), width // heads
    cache = FLOATS, (1, heads, rows, size)
    net.tensor("of_heads", [1, 1, heads, size])
    net.tensor("of_rows", [1, 1, width])
    net.tensor("scale", size**-0.5, np.float32)
    for name, number in {"half": 0.5, "root": 2**-0.5, "unit": 1.0}.items():
        net.tensor(name, number, np.float32)
    if form == "window":
        for name, number in {"first": 1, "end": rows + 1, "axis": 2}.items():
            net.tensor(name, [number])
    else:
        net.tensor("every", np.arange(rows).reshape(1, 1, 1, rows))
        net.tensor("shown", 0.0, np.float32)
        net.tensor("hidden", -1e9, np.float32)
        net.add("LessOrEqual", "every position", "seen")
        net.add("Where", "seen shown hidden", "mask")
        net.tensor("index_shape", [1, 1])
        net.tensor("column", np.arange(rows).reshape(1, 1, rows, 1))
        if form == "where":
            net.add("Equal", "column position", "here")
        else:
            net.add("Reshape", "position index_shape", "index")
    net.weights("table", words, width)
    x = net.add("Gather", "table token", "word")
    for i in range(layers):
        x = _layer(net, form, i, x, (width, heads))
    _norm(net, x, "last", width)
    net.add("MatMul", f"last {net.weights('head', width, words)}", "logits")
    inputs: dict[str, tuple[int, tuple[int | str, ...]]] = {"token": (INTEGERS, (1, 1))}
    if form == "window":
        inputs["mask"] = FLOATS, (1, 1, 1, rows)
    else:
        inputs["position"] = INTEGERS, (1,)
    pairs = states(layers)
    return net.model(
        inputs | dict.fromkeys(pairs, cache),
        {"logits": (1, 1, words)} | dict.fromkeys(pairs.values(), cache[1]),
    )


def _norm(net: Network, x: str, name: str, width: int) -> str:
    net.tensor(f"{name}_scale", np.ones(width), np.float32)
    net.tensor(f"{name}_bias", np.zeros(width), np.float32)
    return net.add("LayerNormalization", f"{x} {name}_scale {name}_bias", name, axis=-1)


def _layer(net: Network, form: Form, i: int, x: str, sizes: tuple[int, int]) -> str:
    width, _ = sizes
    h = _norm(net, x, f"norm{i}", width)
    for q in "qkv":
        net.add("MatMul", f"{h} {net.weights(f'w{q}{i}', width, width)}", f"{q}_row{i}")
        net.add("Reshape", f"{q}_row{i} of_heads", f"{q}_split{i}")
        net.add("Transpose", f"{q}_split{i}", f"{q}{i}", perm=[0, 2, 1, 3])
    for q, past in (("k", f"keys{i}"), ("v", f"values{i}")):
        match form:
            case "window":
                net.add("Concat", f"{past} {q}{i}", f"longer_{past}", axis=2)
                net.add("Slice", f"longer_{past} first end axis", f"new_{past}")
            case "scatter":
                net.add("Transpose", past, f"{past}_turned", perm=[2, 0, 1, 3])
                net.add("Transpose", f"{q}{i}", f"{q}{i}_turned", perm=[2, 0, 1, 3])
                net.add("ScatterND", f"{past}_turned index {q}{i}_turned", f"{past}_put")
                net.add("Transpose", f"{past}_put", f"new_{past}", perm=[1, 2, 0, 3])
            case "where":
                net.add("Where", f"here {q}{i} {past}", f"new_{past}")
    net.add("Transpose", f"new_keys{i}", f"turned{i}", perm=[0, 1, 3, 2])
    net.add("MatMul", f"q{i} turned{i}", f"dots{i}")
    net.add("Mul", f"dots{i} scale", f"scores{i}")
    net.add("Add", f"scores{i} mask", f"masked{i}")
    net.add("Softmax", f"masked{i}", f"shares{i}", axis=-1)
    net.add("MatMul", f"shares{i} new_values{i}", f"context{i}")
    net.add("Transpose", f"context{i}", f"joined{i}", perm=[0, 2, 1, 3])
    net.add("Reshape", f"joined{i} of_rows", f"rows{i}")
    net.add("MatMul", f"rows{i} {net.weights(f'wo{i}', width, width)}", f"mixed{i}")
    x = net.add("Add", f"{x} mixed{i}", f"sum{i}")
    h = _norm(net, x, f"inner{i}", width)
    net.add("MatMul", f"{h} {net.weights(f'up{i}', width, 4 * width)}", f"wide{i}")
    net.add("Mul", f"wide{i} root", f"scaled{i}")
    net.add("Erf", f"scaled{i}", f"erf{i}")
    net.add("Add", f"erf{i} unit", f"raised{i}")
    net.add("Mul", f"wide{i} raised{i}", f"double{i}")
    net.add("Mul", f"double{i} half", f"gelu{i}")
    net.add("MatMul", f"gelu{i} {net.weights(f'down{i}', 4 * width, width)}", f"narrow{i}")
    return net.add("Add", f"{x} narrow{i}", f"out{i}")


def steps(form: Form, count: int, rows: int = 8, words: int = WORDS) -> list[dict[str, np.ndarray]]:
    """Return `count` steps of a sequence; positions continue from 0 after the last row."""
    random = np.random.default_rng(7)
    found: list[dict[str, np.ndarray]] = []
    for i in range(count):
        step: dict[str, np.ndarray] = {"token": random.integers(0, words, (1, 1))}
        if form == "window":
            hidden = np.arange(rows) < rows - 1 - i
            step["mask"] = np.where(hidden, -1e9, 0).astype(np.float32).reshape(1, 1, 1, rows)
        else:
            step["position"] = np.array([i % rows])
        found.append(step)
    return found
