"""Check that a command loads the types of `ml_dtypes` only for a model that has them."""

import subprocess
import sys

COMMAND = """
import sys
from ceras_ir.command.entry_point import start_quickly
start_quickly()
import numpy as np
from ceras_ir.frontends.onnx.model.model_file import element_type
from onnx import TensorProto, helper
print(element_type(TensorProto.FLOAT), "ml_dtypes._ml_dtypes_ext" in sys.modules)
print(element_type(TensorProto.INT4), helper.tensor_dtype_to_np_dtype(TensorProto.INT4))
print("ml_dtypes._ml_dtypes_ext" in sys.modules)
"""


def test_types_of_four_bits_are_loaded_at_the_first_use() -> None:
    found = subprocess.run(
        [sys.executable, "-c", COMMAND], check=True, capture_output=True, text=True
    )
    assert found.stdout == "float32 False\nint4 int4\nTrue\n"
