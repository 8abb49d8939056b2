"""
The `graph` dialect: a network of pure operations on float32 or quantized tensors.

Feature maps are NHWC. Float operations are in float32, and each step is rounded. `round` rounds
ties to even, unless a `Rounding` is given. The operations are few and orthogonal: the importer
expresses an ONNX operator by several of them.
"""

from xdsl.ir import Attribute, Dialect, Operation

from ceras_ir.dialects.graph import (
    blocks,
    calls,
    camera,
    constant,
    elementwise,
    fixed_point,
    layout,
    linear,
    logic,
    lookup,
    normalization,
    pooling,
    recurrence,
    reduction,
    selection,
    state,
    thresholds,
)
from ceras_ir.dialects.graph.attributes import Function as Function
from ceras_ir.dialects.graph.attributes import FunctionAttr
from ceras_ir.dialects.graph.attributes import integers as integers
from ceras_ir.dialects.graph.blocks import BlockMatmulOp as BlockMatmulOp
from ceras_ir.dialects.graph.blocks import BlockOperation as BlockOperation
from ceras_ir.dialects.graph.blocks import BlockTakeOp as BlockTakeOp
from ceras_ir.dialects.graph.calls import BranchOp as BranchOp
from ceras_ir.dialects.graph.calls import CallingOperation as CallingOperation
from ceras_ir.dialects.graph.calls import ExtractOp as ExtractOp
from ceras_ir.dialects.graph.calls import LoopOp as LoopOp
from ceras_ir.dialects.graph.camera import Channels as Channels
from ceras_ir.dialects.graph.camera import DecodeFrameOp as DecodeFrameOp
from ceras_ir.dialects.graph.camera import FrameFormat as FrameFormat
from ceras_ir.dialects.graph.constant import ConstantOp as ConstantOp
from ceras_ir.dialects.graph.constant import MaterializeConstant
from ceras_ir.dialects.graph.constant import constant_array as constant_array
from ceras_ir.dialects.graph.constant import constant_number as constant_number
from ceras_ir.dialects.graph.constant import known_array as known_array
from ceras_ir.dialects.graph.constant import numpy_dtype as numpy_dtype
from ceras_ir.dialects.graph.constant import plain_element as plain_element
from ceras_ir.dialects.graph.constant import storage_type as storage_type
from ceras_ir.dialects.graph.elementwise import Binary as Binary
from ceras_ir.dialects.graph.elementwise import BinaryOp as BinaryOp
from ceras_ir.dialects.graph.elementwise import ShiftSwishOp as ShiftSwishOp
from ceras_ir.dialects.graph.elementwise import SoftmaxOp as SoftmaxOp
from ceras_ir.dialects.graph.elementwise import UnaryOp as UnaryOp
from ceras_ir.dialects.graph.fixed_point import FixedPointSoftmaxOp as FixedPointSoftmaxOp
from ceras_ir.dialects.graph.layout import ConcatOp as ConcatOp
from ceras_ir.dialects.graph.layout import ReshapeOp as ReshapeOp
from ceras_ir.dialects.graph.layout import TransposeOp as TransposeOp
from ceras_ir.dialects.graph.linear import Conv2dOp as Conv2dOp
from ceras_ir.dialects.graph.linear import LinearOperation as LinearOperation
from ceras_ir.dialects.graph.linear import MatmulOp as MatmulOp
from ceras_ir.dialects.graph.linear import is_depthwise as is_depthwise
from ceras_ir.dialects.graph.linear import shifts_of_channels as shifts_of_channels
from ceras_ir.dialects.graph.logic import CastOp as CastOp
from ceras_ir.dialects.graph.logic import Compare as Compare
from ceras_ir.dialects.graph.logic import CompareOp as CompareOp
from ceras_ir.dialects.graph.logic import SelectOp as SelectOp
from ceras_ir.dialects.graph.logic import TreeEnsembleOp as TreeEnsembleOp
from ceras_ir.dialects.graph.lookup import DequantizeOp as DequantizeOp
from ceras_ir.dialects.graph.lookup import LookupOp as LookupOp
from ceras_ir.dialects.graph.lookup import QuantizeOp as QuantizeOp
from ceras_ir.dialects.graph.lookup import RequantizeOp as RequantizeOp
from ceras_ir.dialects.graph.lookup import ScaledQuantizeOp as ScaledQuantizeOp
from ceras_ir.dialects.graph.normalization import IntegerNormalizeOp as IntegerNormalizeOp
from ceras_ir.dialects.graph.normalization import IntegerSoftmaxOp as IntegerSoftmaxOp
from ceras_ir.dialects.graph.normalization import NormalizeOp as NormalizeOp
from ceras_ir.dialects.graph.operation import GraphOperation as GraphOperation
from ceras_ir.dialects.graph.operation import element_of as element_of
from ceras_ir.dialects.graph.operation import is_per_axis as is_per_axis
from ceras_ir.dialects.graph.operation import is_plain as is_plain
from ceras_ir.dialects.graph.operation import quantized_element as quantized_element
from ceras_ir.dialects.graph.operation import scale_of as scale_of
from ceras_ir.dialects.graph.operation import shape_of as shape_of
from ceras_ir.dialects.graph.operation import stored_element as stored_element
from ceras_ir.dialects.graph.operation import tensor_type as tensor_type
from ceras_ir.dialects.graph.operation import type_with_element as type_with_element
from ceras_ir.dialects.graph.operation import window_extent as window_extent
from ceras_ir.dialects.graph.operation import window_output as window_output
from ceras_ir.dialects.graph.pooling import Coordinates as Coordinates
from ceras_ir.dialects.graph.pooling import Nearest as Nearest
from ceras_ir.dialects.graph.pooling import Pool as Pool
from ceras_ir.dialects.graph.pooling import Pool2dOp as Pool2dOp
from ceras_ir.dialects.graph.pooling import Resize as Resize
from ceras_ir.dialects.graph.pooling import ResizeOp as ResizeOp
from ceras_ir.dialects.graph.pooling import average_requant as average_requant
from ceras_ir.dialects.graph.pooling import reciprocal_requant as reciprocal_requant
from ceras_ir.dialects.graph.recurrence import Cell as Cell
from ceras_ir.dialects.graph.recurrence import RecurrenceOp as RecurrenceOp
from ceras_ir.dialects.graph.reduction import ArgOp as ArgOp
from ceras_ir.dialects.graph.reduction import PutOp as PutOp
from ceras_ir.dialects.graph.reduction import Reduce as Reduce
from ceras_ir.dialects.graph.reduction import ReduceOp as ReduceOp
from ceras_ir.dialects.graph.reduction import SuppressOp as SuppressOp
from ceras_ir.dialects.graph.reduction import TopKOp as TopKOp
from ceras_ir.dialects.graph.selection import GatherOp as GatherOp
from ceras_ir.dialects.graph.selection import Pad as Pad
from ceras_ir.dialects.graph.selection import PadOp as PadOp
from ceras_ir.dialects.graph.selection import SliceOp as SliceOp
from ceras_ir.dialects.graph.selection import TakeOp as TakeOp
from ceras_ir.dialects.graph.state import StridedMatmulOp as StridedMatmulOp
from ceras_ir.dialects.graph.state import UpdateOp as UpdateOp
from ceras_ir.dialects.graph.thresholds import ThresholdOp as ThresholdOp
from ceras_ir.dialects.quant import RequantAttr, RoundingAttr

# The order of the reference page. Operations and attributes of these modules form the dialect.
_FAMILIES = (
    constant,
    linear,
    blocks,
    pooling,
    elementwise,
    lookup,
    thresholds,
    normalization,
    fixed_point,
    layout,
    selection,
    reduction,
    state,
    recurrence,
    calls,
    logic,
    camera,
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
