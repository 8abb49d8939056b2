"""
The `graph` dialect: a network as pure operations on float32 or quantized tensors.

Feature maps are NHWC. Every operation states its result bit for bit, because the
interpreter and every backend are held to it. Few, orthogonal operations: what an ONNX
operator composes, the importer composes of these.
"""

from xdsl.ir import Dialect

from ceras_ir.dialects.graph.attributes import Function, FunctionAttr, integers
from ceras_ir.dialects.graph.canonicalization.layout import LAYOUT_PATTERNS
from ceras_ir.dialects.graph.constant import (
    ConstantOp,
    MaterializeConstant,
    constant_array,
    is_integer,
    numpy_dtype,
    plain_element,
    storage_type,
    stored_array,
)
from ceras_ir.dialects.graph.elementwise import Binary, BinaryAttr, BinaryOp, SoftmaxOp, UnaryOp
from ceras_ir.dialects.graph.encoded import EncodedMatmulOp, Encoding, EncodingAttr
from ceras_ir.dialects.graph.layout import (
    ConcatOp,
    Coordinates,
    CoordinatesAttr,
    Nearest,
    NearestAttr,
    ReshapeOp,
    Resize,
    ResizeAttr,
    ResizeOp,
    TransposeOp,
)
from ceras_ir.dialects.graph.linear import Conv2dOp, LinearOperation, MatmulOp
from ceras_ir.dialects.graph.logic import CastOp, Compare, CompareAttr, CompareOp, SelectOp
from ceras_ir.dialects.graph.lookup import LookupOp
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    element_of,
    is_per_axis,
    is_plain,
    is_tensor,
    quantized_element,
    scale_of,
    shape_of,
    tensor_type,
    type_with_element,
    window_extent,
    window_output,
)
from ceras_ir.dialects.graph.pooling import (
    Pool,
    Pool2dOp,
    PoolAttr,
    average_requant,
    reciprocal_requant,
)
from ceras_ir.dialects.graph.quantization import DequantizeOp, QuantizeOp, RequantizeOp
from ceras_ir.dialects.graph.reduction import ArgOp, Reduce, ReduceAttr, ReduceOp
from ceras_ir.dialects.graph.selection import GatherOp, Pad, PadAttr, PadOp, SliceOp
from ceras_ir.dialects.graph.swish import ShiftSwishOp
from ceras_ir.dialects.quant import RequantAttr, RoundingAttr

Graph = Dialect(
    "graph",
    [
        ConstantOp,
        Conv2dOp,
        MatmulOp,
        EncodedMatmulOp,
        Pool2dOp,
        UnaryOp,
        BinaryOp,
        LookupOp,
        ShiftSwishOp,
        SoftmaxOp,
        ReshapeOp,
        TransposeOp,
        ConcatOp,
        ResizeOp,
        SliceOp,
        GatherOp,
        PadOp,
        ReduceOp,
        ArgOp,
        CompareOp,
        SelectOp,
        CastOp,
        QuantizeOp,
        DequantizeOp,
        RequantizeOp,
    ],
    [
        FunctionAttr,
        RequantAttr,
        RoundingAttr,
        BinaryAttr,
        CompareAttr,
        CoordinatesAttr,
        EncodingAttr,
        NearestAttr,
        PadAttr,
        PoolAttr,
        ReduceAttr,
        ResizeAttr,
    ],
    [MaterializeConstant()],
)

__all__ = [
    "LAYOUT_PATTERNS",
    "ArgOp",
    "Binary",
    "BinaryOp",
    "CastOp",
    "Compare",
    "CompareOp",
    "ConcatOp",
    "ConstantOp",
    "Conv2dOp",
    "Coordinates",
    "DequantizeOp",
    "EncodedMatmulOp",
    "Encoding",
    "Function",
    "FunctionAttr",
    "GatherOp",
    "Graph",
    "GraphOperation",
    "LinearOperation",
    "LookupOp",
    "MatmulOp",
    "Nearest",
    "Pad",
    "PadOp",
    "Pool",
    "Pool2dOp",
    "QuantizeOp",
    "Reduce",
    "ReduceOp",
    "RequantizeOp",
    "ReshapeOp",
    "Resize",
    "ResizeOp",
    "SelectOp",
    "ShiftSwishOp",
    "SliceOp",
    "SoftmaxOp",
    "TransposeOp",
    "UnaryOp",
    "average_requant",
    "constant_array",
    "element_of",
    "integers",
    "is_integer",
    "is_per_axis",
    "is_plain",
    "is_tensor",
    "numpy_dtype",
    "plain_element",
    "quantized_element",
    "reciprocal_requant",
    "scale_of",
    "shape_of",
    "storage_type",
    "stored_array",
    "tensor_type",
    "type_with_element",
    "window_extent",
    "window_output",
]
