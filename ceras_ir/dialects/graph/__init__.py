"""
The `graph` dialect: a network as pure operations on float32 or quantized tensors.

Feature maps are NHWC. Every operation states its result bit for bit, because the
interpreter and every backend are held to it. Few, orthogonal operations: what an ONNX
operator composes, the importer composes of these.
"""

from xdsl.ir import Dialect

from ceras_ir.dialects.graph.attributes import Function, FunctionAttr, integers
from ceras_ir.dialects.graph.constant import (
    ConstantOp,
    MaterializeConstant,
    constant_array,
    numpy_dtype,
    storage_type,
)
from ceras_ir.dialects.graph.elementwise import Binary, BinaryOp, LookupOp, SoftmaxOp, UnaryOp
from ceras_ir.dialects.graph.layout import (
    ConcatOp,
    Coordinates,
    Nearest,
    ReshapeOp,
    Resize,
    ResizeOp,
    TransposeOp,
    type_with_element,
)
from ceras_ir.dialects.graph.linear import Conv2dOp, LinearOperation, MatmulOp
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    element_of,
    quantized_element,
    scale_of,
    shape_of,
    tensor_type,
    window_extent,
    window_output,
)
from ceras_ir.dialects.graph.pooling import Pool, Pool2dOp, average_requant, reciprocal_requant
from ceras_ir.dialects.graph.quantization import DequantizeOp, QuantizeOp, RequantizeOp
from ceras_ir.dialects.quant import RequantAttr

Graph = Dialect(
    "graph",
    [
        ConstantOp,
        Conv2dOp,
        MatmulOp,
        Pool2dOp,
        UnaryOp,
        BinaryOp,
        LookupOp,
        SoftmaxOp,
        ReshapeOp,
        TransposeOp,
        ConcatOp,
        ResizeOp,
        QuantizeOp,
        DequantizeOp,
        RequantizeOp,
    ],
    [FunctionAttr, RequantAttr],
    [MaterializeConstant()],
)

__all__ = [
    "Binary",
    "BinaryOp",
    "ConcatOp",
    "ConstantOp",
    "Conv2dOp",
    "Coordinates",
    "DequantizeOp",
    "Function",
    "FunctionAttr",
    "Graph",
    "GraphOperation",
    "LinearOperation",
    "LookupOp",
    "MatmulOp",
    "Nearest",
    "Pool",
    "Pool2dOp",
    "QuantizeOp",
    "RequantizeOp",
    "ReshapeOp",
    "Resize",
    "ResizeOp",
    "SoftmaxOp",
    "TransposeOp",
    "UnaryOp",
    "average_requant",
    "constant_array",
    "element_of",
    "integers",
    "numpy_dtype",
    "quantized_element",
    "reciprocal_requant",
    "scale_of",
    "shape_of",
    "storage_type",
    "tensor_type",
    "type_with_element",
    "window_extent",
    "window_output",
]
