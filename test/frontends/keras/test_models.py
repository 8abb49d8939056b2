"""Keras models are loaded without a file, by the exporter of their backend."""

import os
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from onnx_models import model, node

import ceras_ir as ceras
from ceras_ir.frontends.exporters import exporter_of
from ceras_ir.frontends.keras import KerasExporter, name_layers

MODULES = {"model": "keras.src.models.model", "layer": "torch.nn.modules.module"}


def network(**members: object) -> object:
    """Return an object of a class of Keras, which is a PyTorch module in Keras on PyTorch."""
    layer = type("Module", (), {"__module__": MODULES["layer"]})
    model = type("Model", (layer,), {"__module__": MODULES["model"]} | members)
    return type("Mine", (model,), {"__module__": "__main__"})()


def tensor(name: str, *shape: int | None) -> SimpleNamespace:
    return SimpleNamespace(name=name, shape=shape, dtype="float32")


def test_the_class_selects_the_exporter() -> None:
    assert isinstance(exporter_of(network()), KerasExporter)


def test_shapes_that_are_not_fixed_are_refused() -> None:
    with pytest.raises(ceras.UsageError, match="without declared inputs needs example inputs"):
        ceras.load(network(inputs=None))
    with pytest.raises(ceras.UsageError, match=r"input 'image' of shape \[None, None, 3\]"):
        ceras.load(network(inputs=[tensor("image", None, None, 3)]))


def test_names_of_layers() -> None:
    """
    Weights may be reshaped. A node with weights of two layers, of none, or with weights that two
    layers have, keeps its name.
    """
    nodes = [
        node("Transpose", "w0", "turned"),
        node("Conv", "x turned", "b"),
        node("Mul", "b w1", "d"),
        node("Add", "d w2", "e"),
        node("Relu", "e", "f"),
        node("Sum", "f w1 turned", "g"),
        node("Add", "g w3", "y"),
    ]
    values = [np.full((1, 1, 1, 1), 2.0), np.full(1, 3.0), np.full(1, 4.0), np.full(1, 5.0)]
    arrays = [value.astype(np.float32) for value in values]
    weights = {f"w{i}": array for i, array in enumerate(arrays)}
    proto = model(nodes, {"x": (1, 1, 4, 4)}, ["y"], weights)
    paths = ["a/kernel", "net/c/scale", "net/c/offset", "a/bias", "b/bias"]
    variables = [
        SimpleNamespace(path=path, numpy=lambda array=array: array)
        for path, array in zip(paths, [*arrays, arrays[3]], strict=True)
    ]
    before = [each.name for each in proto.graph.node]
    name_layers(proto, SimpleNamespace(variables=variables))
    expected = [before[0], "a", "net/c/Mul", "net/c/Add", *before[4:]]
    assert [each.name for each in proto.graph.node] == expected


PROGRAM = """
import keras, numpy as np
import ceras_ir as ceras

keras.utils.set_random_seed(0)
image = keras.Input((8, 8, 3), name="image")
x = keras.layers.Conv2D(4, 3, padding="same", use_bias=False, name="stem")(image)
x = keras.layers.BatchNormalization(name="norm")(x)
x = keras.layers.ReLU(name="relu")(x)
x = keras.layers.DepthwiseConv2D(3, strides=2, padding="same", name="depthwise")(x)
x = keras.layers.GlobalAveragePooling2D(name="mean")(x)
model = keras.Model(image, keras.layers.Dense(5, activation="softmax", name="head")(x), name="net")
loaded = ceras.load(model)
assert loaded.title == "net", loaded.title
sample = np.random.default_rng(0).normal(0, 1, (1, 8, 8, 3)).astype(np.float32)
(result,) = loaded.run(sample).values()
expected = keras.ops.convert_to_numpy(model(sample, training=False))
np.testing.assert_allclose(result.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)
print(*(layer.name for layer in loaded.fuse().layers))

left, right = keras.Input((4,), name="left"), keras.Input((4,), name="right")
noisy = keras.layers.GaussianNoise(1.0)(left, training=None)
two = keras.Model({"b": right, "a": left}, keras.layers.Dense(3)(noisy - right))
a, b = (np.random.default_rng(i).normal(0, 1, (1, 4)).astype(np.float32) for i in (1, 2))
loaded = ceras.load(two)
names = [each.name for each in loaded.inputs]
given = dict(zip(names, [a, b] if names[0] < names[1] else [b, a]))
(result,) = loaded.run(given).values()
expected = keras.ops.convert_to_numpy(two({"a": a, "b": b}, training=False))
np.testing.assert_allclose(result.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)

images = keras.Input((8, 8, 3))
x = keras.layers.RandomRotation(0.5)(keras.layers.RandomFlip()(images))
x = keras.layers.RandomContrast(0.5)(x)
(result,) = ceras.load(keras.Model(images, x)).run(sample).values()
np.testing.assert_array_equal(result.reshape(sample.shape), sample)
"""


@pytest.mark.slow
def test_a_model_computes_the_same() -> None:
    """The backend is fixed when Keras is imported, so another process runs the model."""
    if missing := [p for p in ("keras", "torch", "onnxscript") if find_spec(p) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"KERAS_BACKEND": "torch"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {"stem/Conv", "depthwise/Conv", "head/MatMul"} <= set(done.stdout.split())
