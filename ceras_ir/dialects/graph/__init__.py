"""
The `graph` dialect: a network as pure operations on float32 or quantized tensors.

Feature maps are NHWC. Every operation states its result bit for bit, because the
interpreter and every backend are held to it. Few, orthogonal operations: what an ONNX
operator composes, the importer composes of these.
"""

from xdsl.ir import Attribute, Dialect, Operation

from ceras_ir.dialects.graph import (
    branches,
    calls,
    constant,
    detection,
    elementwise,
    layout,
    linear,
    logic,
    lookup,
    loops,
    normalization,
    placing,
    pooling,
    quantization,
    recurrence,
    reduction,
    selection,
    swish,
    trees,
)
from ceras_ir.dialects.graph.attributes import Function, FunctionAttr, integers
from ceras_ir.dialects.graph.branches import BranchOp
from ceras_ir.dialects.graph.calls import CallingOperation, ExtractOp
from ceras_ir.dialects.graph.canonicalization.layout import LAYOUT_PATTERNS
from ceras_ir.dialects.graph.constant import (
    ConstantOp,
    MaterializeConstant,
    constant_array,
    constant_number,
    is_integer,
    known_array,
    numpy_dtype,
    plain_element,
    storage_type,
)
from ceras_ir.dialects.graph.detection import SuppressOp
from ceras_ir.dialects.graph.elementwise import Binary, BinaryOp, SoftmaxOp, UnaryOp
from ceras_ir.dialects.graph.layout import (
    ConcatOp,
    Coordinates,
    Nearest,
    ReshapeOp,
    Resize,
    ResizeOp,
    TransposeOp,
)
from ceras_ir.dialects.graph.linear import Conv2dOp, MatmulOp, is_depthwise
from ceras_ir.dialects.graph.linear_operation import LinearOperation, shifts_of_channels
from ceras_ir.dialects.graph.logic import CastOp, Compare, CompareOp, SelectOp
from ceras_ir.dialects.graph.lookup import LookupOp
from ceras_ir.dialects.graph.loops import LoopOp
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
    is_tensor,
    quantized_element,
    scale_of,
    shape_of,
    stored_element,
    tensor_type,
    type_with_element,
    window_extent,
    window_output,
)
from ceras_ir.dialects.graph.placing import PutOp
from ceras_ir.dialects.graph.pooling import (
    Pool,
    Pool2dOp,
    average_requant,
    reciprocal_requant,
)
from ceras_ir.dialects.graph.quantization import (
    DequantizeOp,
    QuantizeOp,
    RequantizeOp,
    ScaledQuantizeOp,
)
from ceras_ir.dialects.graph.recurrence import Cell, RecurrenceOp
from ceras_ir.dialects.graph.reduction import ArgOp, Reduce, ReduceOp, TopKOp
from ceras_ir.dialects.graph.selection import GatherOp, Pad, PadOp, SliceOp, TakeOp
from ceras_ir.dialects.graph.swish import ShiftSwishOp
from ceras_ir.dialects.graph.trees import TreeEnsembleOp
from ceras_ir.dialects.quant import RequantAttr, RoundingAttr

_FAMILIES = (
    constant,
    linear,
    pooling,
    elementwise,
    lookup,
    swish,
    normalization,
    layout,
    selection,
    placing,
    reduction,
    recurrence,
    loops,
    branches,
    calls,
    trees,
    detection,
    logic,
    quantization,
)
"""In the order of the reference page; a module's operations and attributes are the dialect's."""

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
    "LAYOUT_PATTERNS",
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
    "is_integer",
    "is_per_axis",
    "is_plain",
    "is_tensor",
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
