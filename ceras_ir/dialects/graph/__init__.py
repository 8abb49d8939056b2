"""
The `graph` dialect: a network of pure operations on float32 or quantized tensors.

Feature maps are NHWC. Each operation specifies the result bit for bit, because the interpreter and
all backends must match it. The operations are few and orthogonal: the importer expresses an ONNX
operator by several of them.
"""

from xdsl.ir import Attribute, Dialect, Operation

from ceras_ir.dialects.graph import (
    calls,
    constant,
    elementwise,
    layout,
    linear,
    logic,
    lookup,
    normalization,
    pooling,
    recurrence,
    reduction,
    selection,
)
from ceras_ir.dialects.graph.attributes import Function, FunctionAttr, integers
from ceras_ir.dialects.graph.calls import BranchOp, CallingOperation, ExtractOp, LoopOp
from ceras_ir.dialects.graph.constant import (
    ConstantOp,
    MaterializeConstant,
    constant_array,
    constant_number,
    known_array,
    numpy_dtype,
    plain_element,
    storage_type,
)
from ceras_ir.dialects.graph.elementwise import Binary, BinaryOp, ShiftSwishOp, SoftmaxOp, UnaryOp
from ceras_ir.dialects.graph.layout import (
    ConcatOp,
    Coordinates,
    Nearest,
    ReshapeOp,
    Resize,
    ResizeOp,
    TransposeOp,
)
from ceras_ir.dialects.graph.linear import (
    Conv2dOp,
    LinearOperation,
    MatmulOp,
    is_depthwise,
    shifts_of_channels,
)
from ceras_ir.dialects.graph.logic import CastOp, Compare, CompareOp, SelectOp, TreeEnsembleOp
from ceras_ir.dialects.graph.lookup import (
    DequantizeOp,
    LookupOp,
    QuantizeOp,
    RequantizeOp,
    ScaledQuantizeOp,
)
from ceras_ir.dialects.graph.normalization import (
    IntegerNormalizeOp,
    IntegerSoftmaxOp,
    NormalizeOp,
)
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    element_of,
    is_per_axis,
    is_plain,
    quantized_element,
    scale_of,
    shape_of,
    stored_element,
    tensor_type,
    type_with_element,
    window_extent,
    window_output,
)
from ceras_ir.dialects.graph.pooling import (
    Pool,
    Pool2dOp,
    average_requant,
    reciprocal_requant,
)
from ceras_ir.dialects.graph.recurrence import Cell, RecurrenceOp
from ceras_ir.dialects.graph.reduction import ArgOp, PutOp, Reduce, ReduceOp, SuppressOp, TopKOp
from ceras_ir.dialects.graph.selection import GatherOp, Pad, PadOp, SliceOp, TakeOp
from ceras_ir.dialects.quant import RequantAttr, RoundingAttr

# The order of the reference page. Operations and attributes of these modules form the dialect.
_FAMILIES = (
    constant,
    linear,
    pooling,
    elementwise,
    lookup,
    normalization,
    layout,
    selection,
    reduction,
    recurrence,
    calls,
    logic,
)

_MEMBERS = [
    member
    for family in _FAMILIES
    for member in vars(family).values()
    if getattr(member, "__module__", None) == family.__name__ and "name" in vars(member)
]

Graph = Dialect(
    "graph",
    [member for member in _MEMBERS if issubclass(member, Operation)],
    [FunctionAttr, RequantAttr, RoundingAttr, *(m for m in _MEMBERS if issubclass(m, Attribute))],
    [MaterializeConstant()],
)

__all__ = [
    "ArgOp",
    "Binary",
    "BinaryOp",
    "BranchOp",
    "CallingOperation",
    "CastOp",
    "Cell",
    "Compare",
    "CompareOp",
    "ConcatOp",
    "ConstantOp",
    "Conv2dOp",
    "Coordinates",
    "DequantizeOp",
    "ExtractOp",
    "Function",
    "FunctionAttr",
    "GatherOp",
    "Graph",
    "GraphOperation",
    "IntegerNormalizeOp",
    "IntegerSoftmaxOp",
    "LinearOperation",
    "LookupOp",
    "LoopOp",
    "MatmulOp",
    "Nearest",
    "NormalizeOp",
    "Pad",
    "PadOp",
    "Pool",
    "Pool2dOp",
    "PutOp",
    "QuantizeOp",
    "RecurrenceOp",
    "Reduce",
    "ReduceOp",
    "RequantizeOp",
    "ReshapeOp",
    "Resize",
    "ResizeOp",
    "ScaledQuantizeOp",
    "SelectOp",
    "ShiftSwishOp",
    "SliceOp",
    "SoftmaxOp",
    "SuppressOp",
    "TakeOp",
    "TopKOp",
    "TransposeOp",
    "TreeEnsembleOp",
    "UnaryOp",
    "average_requant",
    "constant_array",
    "constant_number",
    "element_of",
    "integers",
    "is_depthwise",
    "is_per_axis",
    "is_plain",
    "known_array",
    "numpy_dtype",
    "plain_element",
    "quantized_element",
    "reciprocal_requant",
    "scale_of",
    "shape_of",
    "shifts_of_channels",
    "storage_type",
    "stored_element",
    "tensor_type",
    "type_with_element",
    "window_extent",
    "window_output",
]
