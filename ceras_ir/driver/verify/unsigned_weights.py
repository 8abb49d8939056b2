"""
Make the weights of a reference model unsigned.

Without VNNI, ONNX Runtime computes products of uint8 and int8 with an instruction that saturates
sums of two products at 16 bits, and the results are wrong. For uint8 weights it has exact kernels.
Weights and zero points that are both larger by 128 have the same differences.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper, shape_inference

OFFSET = 128


class _Product(NamedTuple):
    """
    The indices of operands of a product with integers. `activation` is `None` if the operator
    quantizes the input to uint8 itself.
    """

    activation: int | None
    weights: tuple[tuple[int, int], ...]
    """Pairs of weights and their zero points."""


_PRODUCTS = {
    "MatMulInteger": _Product(0, ((1, 3),)),
    "ConvInteger": _Product(0, ((1, 3),)),
    "QLinearConv": _Product(0, ((3, 5),)),
    "QLinearMatMul": _Product(0, ((3, 5),)),
    "QGemm": _Product(0, ((3, 5),)),
    "MatMulIntegerToFloat": _Product(0, ((1, 5),)),
    "DynamicQuantizeMatMul": _Product(None, ((1, 3),)),
    "DynamicQuantizeLSTM": _Product(None, ((1, 9), (2, 11))),
    "QAttention": _Product(0, ((1, 7),)),
}


def with_unsigned_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """
    Return `model` with uint8 weights in place of int8 weights, in products with uint8 activations.
    Weights and zero points are both larger by 128, so the results are the same.
    """
    if not any(node.op_type in _PRODUCTS for node in model.graph.node):
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    types = _types(changed)
    constants = {tensor.name: tensor for tensor in changed.graph.initializer}
    for node in changed.graph.node:
        if (product := _PRODUCTS.get(node.op_type)) is None:
            continue
        if product.activation is not None:
            activation = node.input[product.activation]
            if types.get(activation) != TensorProto.UINT8:
                continue
        for weight, point in product.weights:
            point_name = node.input[point] if point < len(node.input) else ""
            known = node.input[weight] in constants and (not point_name or point_name in constants)
            if not known or constants[node.input[weight]].data_type != TensorProto.INT8:
                continue
            while len(node.input) <= point:
                node.input.append("")
            zero = numpy_helper.from_array(np.zeros((), np.int8), f"{node.input[weight]} zero")
            for place, tensor in (
                (weight, constants[node.input[weight]]),
                (point, constants.get(point_name, zero)),
            ):
                node.input[place] = name = f"{tensor.name} unsigned"
                if name not in constants:
                    array = numpy_helper.to_array(tensor).astype(np.int16) + OFFSET
                    constants[name] = numpy_helper.from_array(array.astype(np.uint8), name)
                    changed.graph.initializer.append(constants[name])
    return changed


def _types(model: onnx.ModelProto) -> dict[str, int]:
    graph = shape_inference.infer_shapes(model).graph
    return dict(_pairs(graph)) | {tensor.name: tensor.data_type for tensor in graph.initializer}


def _pairs(graph: onnx.GraphProto) -> Iterator[tuple[str, int]]:
    for value in (*graph.input, *graph.value_info, *graph.output):
        yield value.name, value.type.tensor_type.elem_type
    for node in graph.node:
        # Shape inference does not know the operators of ONNX Runtime.
        if node.op_type == "DynamicQuantizeLinear":
            yield node.output[0], TensorProto.UINT8
