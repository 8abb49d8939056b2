"""
List the networks that `output_hashes.py` compiles, with the options of each build.

Models are built from seeds, or are files of the repository. The real networks in `SHARED` are
added if this folder exists. Most networks are compiled for all common targets. Options that select
other code (boards, schedules, encodings, packages) are compiled for a single network each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import get_args

import loop_networks
import networks
import numpy as np
import onnx
import onnx_models as om
import recurrent_cells
import recurrent_networks
import tree_models
from attention_networks import heads
from generated.builder import Case
from generated.families import FAMILIES, generate
from onnx_random import random_network

from ceras_ir.backends.c.names import Package

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "models"

Builds = dict[str, Sequence[str]]
"""Options of `ceras-compile` by the name of a build, which begins with the target."""

CALIBRATION_SAMPLES = 16
"""With this number or more, `--observer auto` chooses scales by squared error."""


@dataclass(frozen=True)
class Network:
    """A network and the way to compile it."""

    name: str
    make: Callable[[], onnx.ModelProto | bytes]
    builds: Builds
    options: Sequence[str] = ()
    """Options of all builds, such as states."""
    calibration: Callable[[onnx.ModelProto], Mapping[str, om.Array]] | None = None


def build(target: str, *options: str, quantize: str = "int8") -> Sequence[str]:
    return ("--target", target, "--quantize", quantize, *options)


COMMON: Builds = {
    "c": build("c"),
    "c-float": build("c", quantize="none"),
    "nnet": build("nnet"),
    "vta": build("vta"),
    "dataflow": build("dataflow"),
    "onnx": build("onnx"),
}

QUANTIZED: Builds = {key: options for key, options in COMMON.items() if key != "c-float"}


def only(*names: str) -> Builds:
    return {name: COMMON[name] for name in names}


def sampled(model: onnx.ModelProto) -> Mapping[str, om.Array]:
    """Draw seeded samples of each input, along the first axis as in calibration files."""
    samples = [om.random_inputs(model, seed) for seed in range(CALIBRATION_SAMPLES)]
    return {
        name: np.concatenate(arrays) if arrays[0].shape[:1] == (1,) else np.stack(arrays)
        for name in samples[0]
        if (arrays := [sample[name] for sample in samples])
    }


def conv(
    tensors: dict[str, om.Array],
    random: np.random.Generator,
    source: str,
    result: str,
    channels: tuple[int, int],
    kernel: int,
    **attributes: om.Attribute,
) -> onnx.NodeProto:
    """Build a convolution with seeded weights, a bias, and a padding of half the kernel."""
    group = attributes.get("group", 1)
    assert isinstance(group, int)
    tensors[f"{result}_w"] = om.weights(random, channels[1], channels[0] // group, kernel, kernel)
    tensors[f"{result}_b"] = random.uniform(-0.5, 0.5, channels[1]).astype(np.float32)
    half = kernel // 2
    operands = f"{source} {result}_w {result}_b"
    return om.node("Conv", operands, result, pads=[half] * 4, **attributes)


def mobile_block() -> onnx.ModelProto:
    """Build inverted residual blocks: expansion, depthwise, projection, squeeze and excite."""
    random, tensors = np.random.default_rng(11), dict[str, om.Array]()
    tensors |= {"low": np.array(0, np.float32), "high": np.array(6, np.float32)}
    nodes = [
        conv(tensors, random, "x", "stem", (3, 16), 3, strides=[2, 2]),
        om.node("Clip", "stem low high", "stem6"),
        conv(tensors, random, "stem6", "wide", (16, 48), 1),
        om.node("Clip", "wide low high", "wide6"),
        conv(tensors, random, "wide6", "deep", (48, 48), 3, group=48),
        om.node("HardSwish", "deep", "deep6"),
        om.node("GlobalAveragePool", "deep6", "mean"),
        conv(tensors, random, "mean", "squeezed", (48, 12), 1),
        om.node("Relu", "squeezed", "positive"),
        conv(tensors, random, "positive", "excited", (12, 48), 1),
        om.node("HardSigmoid", "excited", "gate", alpha=1 / 6),
        om.node("Mul", "deep6 gate", "gated"),
        conv(tensors, random, "gated", "narrow", (48, 16), 1),
        om.node("Add", "stem6 narrow", "sum"),
        conv(tensors, random, "sum", "down", (16, 16), 5, group=16, strides=[2, 2]),
        conv(tensors, random, "down", "head", (16, 10), 1),
        om.node("GlobalAveragePool", "head", "pooled"),
        om.node("Flatten", "pooled", "y"),
    ]
    return om.model(nodes, {"x": (1, 3, 32, 32)}, ["y"], tensors, opset=14)


def detector() -> onnx.ModelProto:
    """Build a one-stage detector: two scales, an upsampled path, boxes from a grid, classes."""
    random, tensors = np.random.default_rng(12), dict[str, om.Array]()
    tensors |= {
        "double": np.array([1, 1, 2, 2], np.float32),
        "rows": np.array([1, 6, -1], np.int64),
        "grid": random.uniform(0, 8, (1, 2, 64 + 16)).astype(np.float32),
        "parts": np.array([2, 2, 2], np.int64),
        "stride": np.array(4, np.float32),
    }
    nodes = [
        conv(tensors, random, "x", "a", (3, 12), 3, strides=[2, 2]),
        om.node("Sigmoid", "a", "as"),
        om.node("Mul", "a as", "a1"),
        om.node("MaxPool", "a1", "p", kernel_shape=[2, 2], strides=[2, 2]),
        conv(tensors, random, "p", "b", (12, 16), 3),
        om.node("LeakyRelu", "b", "b1", alpha=0.1),
        conv(tensors, random, "b1", "c", (16, 24), 3, strides=[2, 2]),
        om.node("Relu", "c", "c1"),
        conv(tensors, random, "c1", "lateral", (24, 16), 1),
        om.node("Resize", "lateral - double", "up", mode="nearest"),
        om.node("Concat", "b1 up", "joined", axis=1),
        conv(tensors, random, "joined", "fine", (32, 6), 3),
        conv(tensors, random, "c1", "coarse", (24, 6), 1),
        om.node("Reshape", "fine rows", "fine1"),
        om.node("Reshape", "coarse rows", "coarse1"),
        om.node("Concat", "fine1 coarse1", "all", axis=2),
        om.node("Split", "all parts", "centre size class", axis=1),
        om.node("Sigmoid", "centre", "offset"),
        om.node("Add", "offset grid", "place"),
        om.node("Mul", "place stride", "middle"),
        om.node("Exp", "size", "extent"),
        om.node("Concat", "middle extent", "boxes", axis=1),
        om.node("Softmax", "class", "scores", axis=1),
    ]
    return om.model(nodes, {"x": (1, 3, 32, 32)}, ["boxes", "scores"], tensors)


def upsampler() -> onnx.ModelProto:
    """Build transposed convolutions, groups, a subpixel layer and a linear resize."""
    random, tensors = np.random.default_rng(13), dict[str, om.Array]()
    tensors |= {
        "t1": om.weights(random, 8, 6, 3, 3),
        "t2": om.weights(random, 6, 1, 4, 4),
        "double": np.array([1, 1, 2, 2], np.float32),
    }
    nodes = [
        conv(tensors, random, "x", "a", (3, 8), 3),
        om.node("PRelu", "a slope", "a1"),
        om.node("ConvTranspose", "a1 t1", "b", strides=[2, 2], pads=[1, 1, 1, 1],
                output_padding=[1, 1]),
        om.node("Relu", "b", "b1"),
        om.node("ConvTranspose", "b1 t2", "c", strides=[2, 2], pads=[1, 1, 1, 1], group=6),
        om.node("Tanh", "c", "c1"),
        conv(tensors, random, "c1", "d", (6, 12), 3, group=2),
        om.node("DepthToSpace", "d", "y", blocksize=2),
        om.node("Resize", "a1 - double", "z", mode="linear"),
    ]  # fmt: skip
    tensors["slope"] = random.uniform(0, 0.5, (8, 1, 1)).astype(np.float32)
    return om.model(nodes, {"x": (1, 3, 8, 8)}, ["y", "z"], tensors)


def forest() -> onnx.ModelProto:
    """Build a classifier of random trees with a softmax of the scores."""
    nodes = tree_models.random_trees(5, trees=6, depth=4, features=8, targets=3)
    classifier = tree_models.ml_node(
        "TreeEnsembleClassifier",
        ["x"],
        ["label", "scores"],
        **tree_models.node_attributes(nodes, "class"),
        classlabels_int64s=[0, 1, 2],
        post_transform="SOFTMAX",
    )
    kinds = {"label": onnx.TensorProto.INT64, "scores": onnx.TensorProto.FLOAT}
    return tree_models.ml_model([classifier], (1, 8), kinds)


def written(write: Callable[[Path], None]) -> bytes:
    """Return the model that a builder of `benchmarks/networks.py` writes."""
    with tempfile.TemporaryDirectory(prefix="ceras-hashes-") as folder:
        path = Path(folder, "model.onnx")
        write(path)
        return path.read_bytes()


def states(pairs: Mapping[str, str]) -> Sequence[str]:
    return tuple(word for pair in pairs.items() for word in ("--state", "=".join(pair)))


DIGITS = ROOT / "examples" / "digits"

C_BOARDS = (
    *("alif_e7_hp", "bpi_f3", "due", "esp32_c3", "esp32_s3", "nano_33_ble", "nano_33_iot"),
    *("neoverse_v1", "nucleo_h743zi", "nucleo_u575zi_q", "pico", "pico_2", "portenta_c33"),
    *("raspberry_pi_4", "raspberry_pi_5", "teensy_40", "visionfive_2"),
)
"""A board of each processor family. All hosts have the same text, with kernels by `#if`."""

SMALL_VTA = ROOT / "test" / "lit" / "backends" / "vta" / "Inputs" / "board_2x8.json"


def on_board(target: str, board: str, quantize: str = "int8") -> Builds:
    name = target if quantize == "int8" else f"{target}-float"
    return {f"{name}:{board}": build(target, "--board", board, quantize=quantize)}


CORTEX = on_board("c", "nano_33_ble")
HELIUM = on_board("c", "alif_e7_hp")
MICRO = CORTEX | HELIUM | on_board("c", "due") | on_board("c", "esp32_s3", "none")

ACCELERATORS: Builds = {
    **{f"vta:{board}": build("vta", "--board", board) for board in ("de10nano", "pynq", "zcu104")},
    "vta:2x8": build("vta", "--board", str(SMALL_VTA)),
    **on_board("dataflow", "ecp5-85f"),
    **on_board("nnet", "ceras_zcu104"),
    "arduino": build("arduino"),
    **on_board("arduino", "nano_33_ble"),
}

BOARDS: Builds = ACCELERATORS | {
    **{f"c:{board}": build("c", "--board", board) for board in C_BOARDS},
    **on_board("c", "esp32_s3", "none"),
    **on_board("c", "raspberry_pi_5", "none"),
}

SCHEDULES: Builds = {
    **{f"vta:{way}": build("vta", "--convolution", way) for way in ("direct", "im2col", "kn2row")},
    "vta:layers": build("vta", "--streams", "layers"),
    "dataflow:small": build("dataflow", "--dsp", "200", "--ram18", "200"),
    "dataflow:sparse": build("dataflow", "--prune", "method=filter sparsity=0.9"),
    "vta:sparse": build("vta", "--prune", "method=filter sparsity=0.5"),
    "c:sparse": build("c", "--prune", "method=filter sparsity=0.9"),
    "c-float:direct": build("c", "--no-winograd", quantize="none"),
}

ARITHMETIC: Builds = {
    **{f"c:silu-{s}": build("c", "--silu", s) for s in ("table", "table16", "hardswish", "float")},
    "nnet:piecewise": build("nnet", "--silu", "piecewise"),
    "vta:piecewise": build("vta", "--silu", "piecewise"),
    "c:plain": build("c", "--recipe", "none", "--observer", "minmax"),
    "c:mse": build("c", "--observer", "mse"),
    "c:io-int8": build("c", "--io", "int8"),
    "vta:io-int8": build("vta", "--io", "int8"),
    "c:int16": build("c", "--int16", "*"),
    "nnet:int16": build("nnet", "--int16", "*"),
    "c:no-budget": build("c", "--budget", "0"),
}

ROWS: Builds = {
    **{f"c:rows-{rows}": build("c", "--rows", rows) for rows in ("integer", "float")},
    "onnx:rows-integer": build("onnx", "--rows", "integer"),
}

PACKAGES: Builds = {
    **{f"c:{kind}": build("c", "--package", kind) for kind in get_args(Package)},
    "c:python": build("c", "--python-wrapper", "--weights", "file", "--name", "net"),
    "c:incbin": build("c", "--weights", "incbin"),
    "c:regions": build("c", "--regions", "fast:2048,slow:1000000"),
    "c:image": build("c", "--input-image", "nhwc"),
    **{
        f"c-float:{encoding}": build(
            "c", "--encoding", encoding, "--prune", "sparsity=0.9", quantize="none"
        )
        for encoding in ("csr", "csr-int8", "code")
    },
}


def digits_calibration(_: onnx.ModelProto) -> Mapping[str, om.Array]:
    with np.load(DIGITS / "digits_calibration.npz") as arrays:
        return {name: array[:CALIBRATION_SAMPLES] for name, array in arrays.items()}


def built() -> Iterator[Network]:
    """List the networks that need only the repository."""
    digits = (DIGITS / "digits.onnx").read_bytes
    small = COMMON | MICRO
    loops = only("c", "c-float", "nnet", "onnx") | CORTEX
    yield Network("digits", digits, COMMON, calibration=digits_calibration)
    yield Network("digits-synthetic", digits, MICRO | ACCELERATORS | PACKAGES)
    yield Network("colour", (ROOT / "examples" / "colour" / "colour.onnx").read_bytes, COMMON)
    yield Network("resnet8", lambda: written(networks.resnet8), COMMON | CORTEX | SCHEDULES)
    yield Network("residual", om.residual_block, small)
    yield Network("silu", om.silu_block, small | ARITHMETIC, calibration=sampled)
    mlp = small | {"arduino": build("arduino")}
    yield Network("mlp", lambda: om.mlp(32, 48, 24, 10, softmax=True), mlp)
    yield Network("branches", om.concat_branches, small)
    yield Network("mobile", mobile_block, COMMON | BOARDS)
    yield Network("detector", detector, COMMON | CORTEX, calibration=sampled)
    yield Network("upsampler", upsampler, small)
    yield Network("attention", lambda: heads(8, 2, 16), small | ROWS, calibration=sampled)
    yield Network("forest", forest, only("c-float", "c", "nnet", "onnx") | CORTEX)
    for name, make in recurrent_networks.NETWORKS.items():
        given = states(recurrent_networks.STATES[name])
        yield Network(f"state-{name}", make, only("vta") | loops, given)
    for name in ("lstm of two products", "gru of a difference", "rnn of one product"):
        kind, nodes = recurrent_cells.CELLS[name]
        cell = partial(recurrent_cells.looped, kind, nodes)
        yield Network(f"cell-{kind}", cell, loops)
    for name in ("counted", "nested", "both_ways", "branches"):
        yield Network(f"loop-{name}", loop_networks.NETWORKS[name], loops)
    for seed in (1, 2, 3, 4):
        yield Network(f"random-{seed}", partial(random_network, seed), small)
    kinds = ("convolution", "channel_shuffle", "attention", "squeeze_excite", "transpose")
    shuffled = partial(random_network, 5, steps=6, kinds=kinds)
    yield Network("random-shuffle", shuffled, COMMON)
    for name in FAMILIES:
        yield from family(name)


SEEDS = {
    "arithmetic": (2, 6),
    "control": (2, 4),
    "integer operators": (4, 5),
    "qdq rows": (4, 5),
    "transformer": (1, 3),
}
"""Seeds for families in which all targets refuse seed 1 or 2, or the network is tiny."""


def family(name: str) -> Iterator[Network]:
    """Return two networks of a family in `generated/`."""
    for seed in SEEDS.get(name, (1, 2)):
        _, case = generate(seed, name)
        builds = only("c", "c-float", "nnet", "vta", "onnx")
        if case.comes_quantized:
            del builds["c-float"]
        title = f"{name.replace(' ', '-')}-{seed}"
        yield Network(title, partial(_model_of, case), builds, states(case.states))


def _model_of(case: Case) -> onnx.ModelProto:
    return case.model


LARGE: Mapping[str, Sequence[str]] = {
    "espcn_resize": ("c", "nnet"),
    "fastestdet": ("c", "vta"),
    "mcunet_vww_int8_qdq": ("c", "nnet", "vta"),
    "mobilenet_v2_int8_qdq": ("c", "nnet"),
    "ultraface_rfb": ("nnet", "c-float"),
}
"""The builds of networks that take several seconds per build."""


def shared() -> Iterator[Network]:
    """List the real networks in `SHARED`."""
    for path in sorted(SHARED.glob("*.onnx")):
        builds = QUANTIZED if "qdq" in path.stem else COMMON
        if path.stem in LARGE:
            builds = only(*LARGE[path.stem])
        yield Network(path.stem, path.read_bytes, builds)


@cache
def all_networks() -> dict[str, Network]:
    return {network.name: network for network in (*shared(), *built())}
