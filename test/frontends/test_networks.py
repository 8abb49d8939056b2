"""Compare real networks with ONNX Runtime, and count the remaining transposes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_compare import SHARED, agree, compare, transposes
from onnx_models import Array, model, node, random_inputs, run_onnxruntime
from slow_cases import first_fast
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NameLoc
from xdsl.ir import BlockArgument

from ceras_ir.dialects.graph import BinaryOp, ConcatOp, GraphOperation, SliceOp
from ceras_ir.frontends.onnx import import_file, import_model
from ceras_ir.frontends.onnx.model.model_file import read_model
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import InputError
from ceras_ir.transforms.graph.affine_backward import BatchNormRule

MODELS = SHARED / "models"
MADE = Path(os.environ.get("CERAS_MODELS", SHARED / "models"))
"""The folder of `make_models.py`, which writes networks that are too large for the repository."""

TRANSPOSES = {
    "resnet8_float": 0,
    "vww_float": 0,
    "mnist_conv": 0,
    "mnist_mcu": 0,
    "mnist_mlp": 0,
    "espcn_resize": 2,
    "resnet18": 1,
    "alexnet_fcn": 2,
    "colour_mlp_40": 0,
    "mobilenet_v2": 1,
}
"""Map a network to the remaining transposes, all of inputs in NCHW with several channels."""


def path(name: str) -> Path:
    for folder in (MODELS, MADE):
        if (file := folder / f"{name}.onnx").exists():
            return file
    pytest.skip(f"{name}.onnx is missing; create it with make_models.py, or set CERAS_MODELS")


def samples(name: str, proto: onnx.ModelProto) -> dict[str, Array]:
    """Return a real sample if there is one, else noise."""
    if not (file := path(name).with_suffix(".npz")).exists():
        return random_inputs(proto)
    with np.load(file) as arrays:
        return {key: arrays[key][:1] for key in arrays}


@pytest.mark.parametrize("name", first_fast(1, TRANSPOSES))
def test_network(name: str) -> None:
    proto = read_model(path(name))
    inputs = samples(name, proto)
    module = agree(proto, inputs)
    assert len(transposes(module)) == TRANSPOSES[name]
    BatchNormRule().apply(Context(), module)
    module.verify()
    compare(run(module, inputs), run_onnxruntime(proto, inputs))
    # Each product was a batch normalization.
    products = [op for op in module.walk() if isinstance(op, BinaryOp) and op.kind.data == "mul"]
    assert not products


def focus() -> onnx.ModelProto:
    """Build the first and last operations of YOLOX: slices along a dimension, boxes as rows."""
    part = {"s0": [0], "s1": [1], "end": [12], "height": [2], "width": [3], "step": [2]}
    weights = np.random.default_rng(0).normal(0, 0.3, (8, 12, 3, 3)).astype(np.float32)
    nodes = [node("Slice", f"x s{i} end height step", f"rows{i}") for i in (0, 1)]
    nodes += [
        node("Slice", f"rows{i} s{j} end width step", f"p{i}{j}") for i in (0, 1) for j in (0, 1)
    ]
    nodes += [
        node("Concat", "p00 p10 p01 p11", "c", axis=1),
        node("Conv", "c w", "y", pads=[1, 1, 1, 1]),
        node("Relu", "y", "r"),
        node("Reshape", "r shape", "flat"),
        node("Transpose", "flat", "z", perm=[0, 2, 1]),
    ]
    constants = {name: np.array(value, np.int64) for name, value in part.items()}
    shape = np.array([1, 8, -1], np.int64)
    return model(nodes, {"x": (1, 3, 12, 12)}, ["z"], {**constants, "w": weights, "shape": shape})


def only_after_focus(module: ModuleOp) -> int:
    """
    Return the number of slices of the network's input, with a single transpose of their
    concatenation. Slices can be concatenated in place along the channels of NCHW, but not of NHWC.
    """
    (transpose,) = transposes(module)
    joined = transpose.input.owner
    assert isinstance(joined, ConcatOp) and joined.axis.value.data == 1
    for part in joined.inputs:
        assert isinstance(part.owner, SliceOp) and isinstance(part.owner.input, BlockArgument)
    slices = [op for op in module.walk() if isinstance(op, SliceOp)]
    return len(slices)


def test_focus_is_four_slices_and_the_layout_of_the_input() -> None:
    assert only_after_focus(agree(focus())) == 4


def test_yolox_has_no_transpose_but_that_of_its_input() -> None:
    assert only_after_focus(import_file(path("yolox_s"))) == 4


def test_every_operation_knows_its_node() -> None:
    module = import_file(path("resnet8_float"))
    operations = [op for op in module.walk() if isinstance(op, GraphOperation)]
    assert operations and all(isinstance(op.location, NameLoc) for op in operations)


def test_import_is_deterministic() -> None:
    assert str(import_file(path("mnist_conv"))) == str(import_file(path("mnist_conv")))


def test_symbolic_batch() -> None:
    proto = read_model(path("resnet8_float"))
    inputs = random_inputs(proto, batch=3)
    compare(run(import_model(proto, batch=3), inputs), run_onnxruntime(proto, inputs))


def test_a_batch_that_is_not_open_is_refused() -> None:
    proto = read_model(path("resnet8_float"))
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    with pytest.raises(InputError, match="--batch 3: no input has an open batch"):
        import_model(proto, batch=3)


def test_import_is_fast() -> None:
    file = path("resnet18")
    import_file(path("colour_mlp_40"))  # Each value is loaded a single time.
    start = time.process_time()
    import_file(file)
    assert time.process_time() - start < 1.0
