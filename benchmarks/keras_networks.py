"""The networks of Keras for `module_networks.py`: applications, recurrence, attention, images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from module_networks import Array, Network

APPLICATIONS: dict[str, dict[str, Any]] = {
    "MobileNet": {},
    "MobileNetV2": {},
    "MobileNetV3Small": {},
    "EfficientNetB0": {},
    "EfficientNetV2B0": {},
    "ResNet50": {},
    "InceptionV3": {"input_shape": (96, 96, 3)},
    "Xception": {"input_shape": (96, 96, 3)},
    "ConvNeXtTiny": {},
}
"""Names of `keras.applications`, and their options."""

STEPS, FEATURES = 12, 16


def networks() -> dict[str, Callable[[], Network]]:
    """Return a function for each network that builds it."""
    found: dict[str, Callable[[], Network]] = {}
    for name in (*sequences(), *images(), *tokens()):
        found[name] = partial(own, name)
    for name, options in APPLICATIONS.items():
        found[name] = partial(application, name, options)
    return found


def application(name: str, options: dict[str, Any]) -> Network:
    keras: Any = import_module("keras")
    keras.utils.set_random_seed(0)
    settings: dict[str, Any] = {"weights": None, "classes": 10, "input_shape": (64, 64, 3)}
    settings.update(options)
    model = getattr(keras.applications, name)(**settings)
    rng = np.random.default_rng(0)
    return network(model, rng.uniform(0, 255, (1, *settings["input_shape"])).astype(np.float32))


def attention(keras: Any, x: Any, cls: str, *options: Any, **more: Any) -> Any:
    """Return self-attention with a residual and a layer norm."""
    layer = getattr(keras.layers, cls)(*options, **more)
    y = layer([x, x]) if cls in ("Attention", "AdditiveAttention") else layer(x, x)
    return keras.layers.LayerNormalization()(x + y)


def sequences() -> dict[str, Callable[[Any, Any], Any]]:
    """Return functions of Keras and an input of `STEPS` x `FEATURES`."""
    return {
        "LSTM, 2 layers": lambda k, x: k.layers.LSTM(8)(k.layers.LSTM(8, return_sequences=True)(x)),
        "LSTM, unrolled": lambda k, x: k.layers.LSTM(8, unroll=True)(x),
        "GRU": lambda k, x: k.layers.GRU(8)(x),
        "GRU, reset before": lambda k, x: k.layers.GRU(8, reset_after=False)(x),
        "SimpleRNN, backwards": lambda k, x: k.layers.SimpleRNN(8, go_backwards=True)(x),
        "Bidirectional LSTM": lambda k, x: k.layers.Bidirectional(
            k.layers.LSTM(8, return_sequences=True)
        )(x),
        "StackedRNNCells": lambda k, x: k.layers.RNN([k.layers.LSTMCell(8), k.layers.GRUCell(6)])(
            x
        ),
        "MultiHeadAttention": lambda k, x: attention(k, x, "MultiHeadAttention", 4, 8),
        "MultiHeadAttention, causal": lambda k, x: k.layers.MultiHeadAttention(2, 8)(
            x, x, use_causal_mask=True
        ),
        "GroupQueryAttention": lambda k, x: attention(k, x, "GroupQueryAttention", 8, 4, 2),
        "Attention": lambda k, x: attention(k, x, "Attention"),
        "AdditiveAttention": lambda k, x: attention(k, x, "AdditiveAttention"),
        "separable convolutions": lambda k, x: k.layers.GlobalMaxPooling1D()(
            k.layers.SeparableConv1D(8, 3, dilation_rate=2, activation="gelu")(
                k.layers.DepthwiseConv1D(5, padding="same")(k.layers.SpatialDropout1D(0.2)(x))
            )
        ),
        "causal convolutions": lambda k, x: k.layers.TimeDistributed(k.layers.Dense(4))(
            k.layers.Conv1D(8, 3, padding="causal", activation="elu")(x)
        ),
        "transposed Conv1D": lambda k, x: k.layers.Cropping1D(1)(
            k.layers.Conv1DTranspose(8, 3, strides=2)(k.layers.UpSampling1D(2)(x))
        ),
        "norms": lambda k, x: k.layers.UnitNormalization()(
            k.layers.RMSNormalization()(k.layers.GroupNormalization(4)(k.layers.PReLU()(x)))
        ),
        "EinsumDense": lambda k, x: k.layers.Softmax()(
            k.layers.EinsumDense("abc,cd->abd", (None, 8), bias_axes="d")(x)
        ),
        "Dot": lambda k, x: k.layers.Dot(axes=(2, 2), normalize=True)([x, x * 2]),
        "STFTSpectrogram": lambda k, x: k.layers.STFTSpectrogram(
            frame_length=32, frame_step=16, fft_length=32
        )(k.layers.Reshape((STEPS * FEATURES, 1))(x)),
        "Masking, LSTM": lambda k, x: k.layers.LSTM(8)(k.layers.Masking(0.0)(x)),
    }


def images() -> dict[str, Callable[[Any, Any], Any]]:
    """Return functions of Keras and an image of 32 x 32 x 3, from 0 to 255."""

    def convolution(keras: Any, x: Any) -> Any:
        return keras.layers.Conv2D(4, 3, strides=2, padding="same", activation="relu6")(x)

    def scaled(keras: Any, x: Any) -> Any:
        x = keras.layers.Rescaling(1 / 127.5, offset=-1)(x)
        norm = keras.layers.Normalization(mean=[0.1, 0.2, 0.3], variance=[1.0, 2.0, 3.0])
        return convolution(keras, norm(x))

    def mobile(keras: Any, x: Any) -> Any:
        x = keras.layers.SeparableConv2D(8, 3, activation="hard_swish")(x)
        x = keras.layers.AdaptiveAveragePooling2D(6)(keras.layers.Conv2D(8, 3, groups=4)(x))
        return keras.layers.SpectralNormalization(keras.layers.Dense(4))(keras.layers.Flatten()(x))

    def decoder(keras: Any, x: Any) -> Any:
        x = keras.layers.UpSampling2D(2, interpolation="bilinear")(convolution(keras, x))
        x = keras.layers.Conv2DTranspose(4, 3, strides=2, padding="same")(x)
        return keras.layers.Cropping2D(3)(keras.layers.ZeroPadding2D(2)(x))

    def frames(keras: Any, x: Any, cls: str) -> Any:
        x = keras.layers.Rescaling(1 / 255)(keras.layers.Reshape((4, 8, 32, 3))(x))
        return getattr(keras.layers, cls)(4, 3, padding="same")(x)

    def lines(keras: Any, x: Any) -> Any:
        x = keras.layers.Rescaling(1 / 255)(x)
        return keras.layers.ConvLSTM1D(4, 3, padding="same")(x)

    def augmented(keras: Any, x: Any) -> Any:
        for layer in ("RandomFlip", "RandomRotation", "RandomContrast"):
            x = getattr(keras.layers, layer)(*([] if layer == "RandomFlip" else [0.1]))(x)
        return convolution(keras, keras.layers.GaussianNoise(0.1)(x))

    return {
        "Rescaling, Normalization": scaled,
        "Resizing": lambda k, x: convolution(k, k.layers.Resizing(20, 24)(x)),
        "Resizing, nearest": lambda k, x: k.layers.Resizing(20, 24, interpolation="nearest")(x),
        "Resizing, bicubic": lambda k, x: k.layers.Resizing(20, 24, interpolation="bicubic")(x),
        "Resizing, crop": lambda k, x: k.layers.Resizing(20, 24, crop_to_aspect_ratio=True)(x),
        "CenterCrop": lambda k, x: convolution(k, k.layers.CenterCrop(20, 24)(x)),
        "augmentation": augmented,
        "separable and grouped": mobile,
        "decoder": decoder,
        "ConvLSTM2D": lambda k, x: frames(k, x, "ConvLSTM2D"),
        "ConvLSTM1D": lines,
        "Conv3D": lambda k, x: frames(k, x, "Conv3D"),
        "AutoContrast": lambda k, x: k.layers.AutoContrast()(x),
    }


def tokens() -> dict[str, Callable[[Any, Any], Any]]:
    """Return functions of Keras and `STEPS` integers from 0 to 19."""

    def classifier(keras: Any, x: Any) -> Any:
        x = keras.layers.Conv1D(8, 3, activation="relu")(keras.layers.Embedding(20, 8)(x))
        return keras.layers.Dense(3, activation="softmax")(keras.layers.GlobalMaxPooling1D()(x))

    def masked(keras: Any, x: Any) -> Any:
        return keras.layers.GRU(8)(keras.layers.Embedding(20, 8, mask_zero=True)(x))

    return {
        "Embedding, Conv1D": classifier,
        "Embedding with mask, GRU": masked,
        "CategoryEncoding": lambda k, x: k.layers.CategoryEncoding(20)(x),
        "Discretization": lambda k, x: k.layers.Discretization([3.0, 9.0, 15.0])(x),
    }


def own(name: str) -> Network:
    keras: Any = import_module("keras")
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    if name in sequences():
        build = sequences()[name]
        sample = rng.normal(0, 1, (1, STEPS, FEATURES)).astype(np.float32)
    elif name in images():
        build, sample = images()[name], rng.uniform(0, 255, (1, 32, 32, 3)).astype(np.float32)
    else:
        build, sample = tokens()[name], rng.integers(0, 20, (1, STEPS)).astype(np.int32)
    given = keras.Input(sample.shape[1:], dtype=str(sample.dtype))
    return network(keras.Model(given, build(keras, given)), sample)


def network(model: Any, sample: Array) -> Network:
    """Return `model` with seeded values instead of constants, which initializations leave."""
    keras: Any = import_module("keras")
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    for variable in model.variables:
        value = np.asarray(keras.ops.convert_to_numpy(variable))
        if value.size < 2 or value.dtype.kind != "f" or value.min() != value.max():
            continue
        shift = rng.uniform(-0.5, 0.5, value.shape)
        variable.assign(1 + shift if value.flat[0] > 0.5 else 0.2 * shift)

    def forward(arrays: Sequence[Array]) -> list[Array]:
        with torch.no_grad():
            return [np.asarray(keras.ops.convert_to_numpy(model(arrays[0], training=False)))]

    def reordered(arrays: Sequence[Array]) -> list[Array]:
        torch.backends.mkldnn.enabled = False
        try:
            return forward(arrays)
        finally:
            torch.backends.mkldnn.enabled = True

    return Network(model, (sample,), forward, reordered)
