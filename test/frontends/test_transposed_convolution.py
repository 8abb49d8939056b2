"""Test ConvTranspose with paddings that are common to ONNX and ONNX Runtime, or ambiguous."""

from itertools import product

import numpy as np
import onnx
import pytest
from onnx_models import model, node, run_onnxruntime

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import InputError, UnsupportedError

X = np.array([[[1, 2, 3]]], np.float32)


def transposed(kernel: int, stride: int, **attributes: str | list[int]) -> onnx.ModelProto:
    weights = np.arange(1, kernel + 1, dtype=np.float32).reshape(1, 1, kernel)
    layer = node("ConvTranspose", "x w", "y", strides=[stride], **attributes)
    return model([layer], {"x": (1, 1, 3)}, ["y"], {"w": weights}, infer=False, opset=17)


def check(proto: onnx.ModelProto) -> None:
    expected = run_onnxruntime(proto, {"x": X})["y"]
    found = run(import_model(proto), {"x": X})["y"]
    assert found.shape == expected.shape and (found == expected).all()


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER"])
def test_same_padding(auto: str) -> None:
    """If the window is below the stride, three programs give three results: refused."""
    for kernel, stride in product((1, 2, 3, 4), (1, 2, 3)):
        proto = transposed(kernel, stride, auto_pad=auto)
        if kernel >= stride:
            check(proto)
            continue
        with pytest.raises(UnsupportedError) as info:
            import_model(proto)
        assert (
            f"auto_pad={auto} with a result of [{3 * stride}], which is larger than the "
            f"[{2 * stride + kernel}] of the window and the strides"
        ) in str(info.value)


@pytest.mark.parametrize("auto", ["NOTSET", "VALID"])
def test_a_declared_shape_of_the_result(auto: str) -> None:
    """A result up to a stride larger than the windows reach is zero at the end."""
    for kernel, stride in product((1, 2, 3, 4), (1, 2, 3)):
        full = 2 * stride + kernel
        for extent in range(3, full + stride):
            check(transposed(kernel, stride, auto_pad=auto, output_shape=[extent]))
        with pytest.raises(InputError, match=r"'output_shape' is .* allows"):
            import_model(transposed(kernel, stride, output_shape=[full + stride]))


def test_a_window_of_a_single_element() -> None:
    proto = transposed(1, 3, output_shape=[9])
    assert run(import_model(proto), {"x": X})["y"].tolist() == [[[1, 0, 0, 2, 0, 0, 3, 0, 0]]]


def test_output_padding_of_a_stride() -> None:
    check(transposed(2, 3, output_padding=[2]))
    with pytest.raises(InputError, match=r"'output_padding' is \[3\], expected less than \[3\]"):
        import_model(transposed(2, 3, output_padding=[3]))
