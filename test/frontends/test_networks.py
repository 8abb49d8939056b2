"""Real networks against ONNX Runtime, and what is left of their transposes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_compare import SHARED, agree, compare, transposes
from onnx_models import Array, random_inputs, run_onnxruntime
from xdsl.context import Context
from xdsl.dialects.builtin import NameLoc

from ceras_ir.dialects.graph import BinaryOp, GraphOperation
from ceras_ir.frontends.onnx import import_file, import_model
from ceras_ir.frontends.onnx.model_file import read_model
from ceras_ir.interpreters.network import run
from ceras_ir.transforms.fold_batch_norm import FoldBatchNormPass

MODELS = SHARED / "models"
MADE = Path(os.environ.get("CERAS_MODELS", SHARED / "models"))
"""Where `make_models.py` wrote; its networks are too big to keep."""

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
"""Network -> transposes left, all at the border: models with NCHW inputs of several channels."""


def path(name: str) -> Path:
    for folder in (MODELS, MADE):
        if (file := folder / f"{name}.onnx").exists():
            return file
    pytest.skip(f"{name}.onnx is not there; make_models.py makes it, CERAS_MODELS says where")


def samples(name: str, proto: onnx.ModelProto) -> dict[str, Array]:
    """One real sample where there is one, else noise."""
    if not (file := path(name).with_suffix(".npz")).exists():
        return random_inputs(proto)
    with np.load(file) as arrays:
        return {key: arrays[key][:1] for key in arrays}


@pytest.mark.parametrize("name", TRANSPOSES)
def test_network(name: str) -> None:
    proto = read_model(path(name))
    inputs = samples(name, proto)
    module = agree(proto, inputs)
    assert len(transposes(module)) == TRANSPOSES[name]
    FoldBatchNormPass().apply(Context(), module)
    module.verify()
    compare(run(module, inputs), run_onnxruntime(proto, inputs))
    # Every product was a batch normalization.
    products = [op for op in module.walk() if isinstance(op, BinaryOp) and op.kind.data == "mul"]
    assert not products


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


def test_import_is_fast() -> None:
    file = path("resnet18")
    import_file(path("colour_mlp_40"))  # Loads what is loaded once.
    start = time.process_time()
    import_file(file)
    assert time.process_time() - start < 1.0
