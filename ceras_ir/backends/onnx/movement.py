"""
Add the ONNX nodes of data movement operations, and constants that correct the rounding of ties.

QuantizeLinear rounds half to even. An added constant of a quarter of the unit of the accumulator
rounds ties up, and changes no other result if the requantization is a shift. If it has an odd
multiplier m, the constant is smaller by the factor m. For averages with inexact reciprocals, a
factor near 1 replaces the constant; see `max_tie_tilt` in `analysis/qdq.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import frexp

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.onnx.functions import FLOAT_DTYPE
from ceras_ir.backends.onnx.values import (
    FEATURES,
    Array,
    Attribute,
    ModelBuilder,
    Order,
    Values,
    broadcast,
    tensor_kind,
    unchanged,
)
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Coordinates, Pad, Resize
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.network.integer import dequantize
from ceras_ir.support.diagnostics import node_name
from ceras_ir.transforms.quantization.analysis.qdq import (
    accumulator_units,
    max_tie_tilt,
    stored_types,
    tie_break_bounds,
    tie_directions,
)

TieConstant = tuple[str, NDArray[np.float32]]
"""
A node before QuantizeLinear: the operator (Add or Mul), and the second operand, which broadcasts to
the result.
"""


def tie_constants(op: Operation) -> list[TieConstant]:
    """
    Return the nodes that must precede QuantizeLinear, which rounds half to even, so that results
    are rounded half up as in `op`. The list is empty if `op` does not round half up or no tie can
    occur.
    """
    requant = op.properties.get("requant")
    if not isinstance(requant, RequantAttr):
        return []
    if requant.mode is not Rounding.HALF_UP or not requant.shift.data:
        return []
    elements = stored_types(op)
    units = accumulator_units(op, elements[:2])
    if units is None:
        return []
    if isinstance(op, graph.Pool2dOp):
        if frexp(elements[0].scale / elements[1].scale)[0] != 0.5:
            return []  # Such averages have ties only by chance.
        quarters = (units / 4).astype(np.float32)
        return _tie_constants_of_average(op, elements[0], elements[1], quarters)
    quarters = (tie_break_bounds(units, requant.multipliers, requant.shift.data) / 2).astype(
        np.float32
    )
    if not quarters.any():
        return []
    return [("Add", quarters if bool((quarters != quarters[0]).any()) else quarters[0])]


def _tie_constants_of_average(
    op: graph.Pool2dOp, source: UniformType, target: UniformType, quarters: NDArray[np.float32]
) -> list[TieConstant]:
    directions = tie_directions(op, source, target)[None, :, :, None]
    found: list[TieConstant] = []
    if directions.any():
        found.append(("Mul", _scalar_if_equal(1.0 + directions * max_tie_tilt(op, source, target))))
    if not directions.all():
        found.append(("Add", _scalar_if_equal((directions == 0) * quarters)))
    return found


def _scalar_if_equal(numbers: NDArray[np.generic]) -> NDArray[np.float32]:
    exact = numbers.astype(np.float32)
    first = exact.reshape(-1)[:1]
    return first.reshape(()) if bool((exact == first).all()) else exact


def rounds_to_even(op: Operation) -> bool:
    """Return whether `op` is a layer that rounds half to even."""
    requant = op.requant if isinstance(op, graph.LinearOperation) else None
    return requant is not None and requant.mode is Rounding.HALF_EVEN


INT64 = np.dtype(np.int64)


class Movement:
    """
    The nodes of data movement operations, and the methods that the nodes of all operations need.
    With `exact`, constants before QuantizeLinear correct the rounding of ties.
    """

    def __init__(self, builder: ModelBuilder, values: Values, *, exact: bool):
        self.builder, self.values = builder, values
        self.exact = exact

    def move(self, op: Operation) -> None:
        """Add the nodes of a data movement operation, such as transpose, reshape, slice or pad."""
        match op:
            case graph.TransposeOp():
                if isinstance(op.input.owner, graph.ConstantOp):
                    x = self.values.get(op.input, tuple(op.permutation.get_values()))
                    self._finish(op.result, x, unchanged(op.result))
                else:
                    self.values.alias(op.result, op.input, op.permutation.get_values())
            case graph.ReshapeOp():
                shape = graph.shape_of(op.result)
                inputs = [
                    self.values.get(op.input, unchanged(op.input)),
                    self.builder.integers(shape, "shape"),
                ]
                self._node(op.result, "Reshape", inputs, unchanged(op.result))
            case graph.ConcatOp():
                self._concat(op)
            case graph.SliceOp():
                self._slice(op)
            case graph.GatherOp():
                order = self._order(op.input)
                indices = self.builder.integers(op.indices.get_values(), "indices")
                inputs = [self.values.get(op.input, order), indices]
                axis = order.index(op.axis.value.data)
                self._node(op.result, "Gather", inputs, order, attributes={"axis": axis})
            case graph.TakeOp():
                self._take(op)
            case graph.PadOp():
                self._pad(op)
            case graph.ResizeOp():
                self._resize(op)
            case _:
                raise AssertionError(op.name)

    def kind(self, op: GraphOperation) -> int:
        """Return the number of the element type of the result in ONNX (`TensorProto.DataType`)."""
        return tensor_kind(self.dtype(op.output))

    @staticmethod
    def dtype(value: SSAValue) -> np.dtype[np.generic]:
        """Return the numpy type of the elements of a value that is not quantized."""
        return graph.numpy_dtype(graph.element_of(value))

    def _order(self, value: SSAValue) -> Order:
        return self.values.order(value) or unchanged(value)

    def _finish(self, value: SSAValue, tensor: str, order: Order) -> None:
        # `tensor` has the real numbers of `value` in `order`.
        if graph.quantized_element(value) is None:
            self.values.define(value, tensor, order)
            return
        assert isinstance(value.owner, Operation)
        for operator, constant in tie_constants(value.owner) if self.exact else ():
            name = f"{node_name(value.owner)}/half_up"
            inputs = [tensor, self.builder.constant(broadcast(constant, order), name)]
            shape = self.values.shape(value, order)
            tensor = self.builder.node(operator, inputs, name, FLOAT_DTYPE, shape)
        self.values.quantize(value, tensor, order)
        if self.exact and rounds_to_even(value.owner):
            self.builder.even.append(self.builder.nodes[-1].name)

    def _node(
        self,
        value: SSAValue,
        operator: str,
        inputs: Sequence[str],
        order: Order,
        *,
        attributes: Mapping[str, Attribute] | None = None,
        since: int = 13,
    ) -> None:
        assert isinstance(value.owner, Operation)
        dtype = FLOAT_DTYPE if graph.quantized_element(value) else self.dtype(value)
        shape, name = self.values.shape(value, order), node_name(value.owner)
        result = self.builder.node(
            operator, inputs, name, dtype, shape, attributes=attributes, since=since
        )
        self._finish(value, result, order)

    def _node_with_axis(
        self, op: GraphOperation, input: SSAValue, operator: str, axis: int, **attributes: int
    ) -> None:
        order = self._order(input)
        x = self.values.get(input, order)
        attributes["axis"] = order.index(axis)
        self._node(op.output, operator, [x], order, attributes=attributes)

    def _concat(self, op: graph.ConcatOp) -> None:
        orders = [order for v in op.inputs if (order := self.values.order(v)) is not None]
        plain = unchanged(op.result)
        order = next((o for o in orders if o != plain), plain)
        inputs = [self.values.get(v, order) for v in op.inputs]
        axis = order.index(op.axis.value.data)
        self._node(op.result, "Concat", inputs, order, attributes={"axis": axis})

    def _slice(self, op: graph.SliceOp) -> None:
        order = self._order(op.input)
        source, sizes = graph.shape_of(op.input), graph.shape_of(op.result)
        rows: list[tuple[int, int, int, int]] = []
        for axis, d in enumerate(order):
            start, stride = op.starts.get_values()[d], op.strides.get_values()[d]
            end = start + sizes[d] * stride
            if stride < 0 and end < 0:
                end = -source[d] - 1  # Below index 0; -1 would be the last element.
            if (start, sizes[d], stride) != (0, source[d], 1):
                rows.append((start, end, axis, stride))
        x = self.values.get(op.input, order)
        rows = rows or [(0, source[order[0]], 0, 1)]
        lists = zip(("starts", "ends", "axes", "steps"), zip(*rows, strict=True), strict=True)
        inputs = [x, *(self.builder.integers(values, role) for role, values in lists)]
        self._node(op.result, "Slice", inputs, order)

    def _take(self, op: graph.TakeOp) -> None:
        # Gather accepts negative indices; Clip limits all indices to the rows.
        name, rows = node_name(op), graph.shape_of(op.input)[0]
        extents = graph.shape_of(op.indices)
        indices = self.values.get(op.indices, unchanged(op.indices))
        if self.dtype(op.indices) != INT64:
            indices = self._to_int64(indices, f"{name}/wide", extents)
        bounds = [self.builder.constant(np.array(n), "row") for n in (-rows, rows - 1)]
        row = self.builder.node("Clip", [indices, *bounds], f"{name}/row", INT64, extents)
        x = self.values.get(op.input, order := unchanged(op.input))
        self._node(op.result, "Gather", [x, row], order, attributes={"axis": 0})

    def _to_int64(self, x: str, name: str, shape: Sequence[int]) -> str:
        to: dict[str, Attribute] = {"to": tensor_kind(INT64)}
        return self.builder.node("Cast", [x], name, INT64, shape, attributes=to)

    def _pad(self, op: graph.PadOp) -> None:
        order, value = self._order(op.input), op.stored_value
        element = graph.quantized_element(op.input)
        padding: Array
        if element is None:
            padding = np.array(value, self.dtype(op.input))
        else:
            padding = dequantize(np.array(int(value)), element)
        x, dtype = self.values.get(op.input, order), padding.dtype
        filler = self.builder.constant(padding, "border")
        shape = self.values.shape(op.input, order)
        for axis, d in enumerate(order):
            between = op.interior.get_values()[d]
            if between:
                x = self._pad_between(op, x, dtype, shape, (axis, between), filler)
        low, high = ([v.get_values()[d] for d in order] for v in (op.low, op.high))
        inputs = [x, self.builder.integers([*low, *high], "pads")]
        if op.function is Pad.CONSTANT:
            inputs.append(filler)
        since = 19 if op.function is Pad.WRAP else 13
        mode = {"mode": op.function.value}
        self._node(op.result, "Pad", inputs, order, attributes=mode, since=since)

    def _pad_between(
        self,
        op: graph.PadOp,
        x: str,
        dtype: np.dtype[np.generic],
        shape: list[int],
        where: tuple[int, int],
        filler: str,
    ) -> str:
        # Insert elements between neighbours: add a dimension of extent 1 after `axis`, pad it,
        # merge both dimensions, and remove the elements after the last. Updates `shape`.
        axis, between = where
        extent, name = shape[axis], f"{node_name(op)}/spread"
        element = graph.quantized_element(op.input)

        def step(operator: str, inputs: Sequence[str], extents: Sequence[int]) -> str:
            result = self.builder.node(operator, inputs, name, dtype, extents)
            if element is None:
                return result
            # Quantizers write Q/DQ after each node. If they are missing, ONNX Runtime adds them,
            # which fails with opset 21.
            return self.values.stored_between(result, name, element, unchanged(op.input), extents)

        split = [*shape[: axis + 1], 1, *shape[axis + 1 :]]
        x = step("Reshape", [x, self.builder.integers(split, "shape")], split)
        split[axis + 1] += between
        pads = [0] * (2 * len(split))
        pads[len(split) + axis + 1] = between
        x = step("Pad", [x, self.builder.integers(pads, "pads"), filler], split)
        shape[axis] = extent * (between + 1)
        x = step("Reshape", [x, self.builder.integers(shape, "shape")], shape)
        shape[axis] -= between
        lists = (("starts", 0), ("ends", shape[axis]), ("axes", axis))
        bounds = [self.builder.integers([value], role) for role, value in lists]
        return step("Slice", [x, *bounds], shape)

    def _resize(self, op: graph.ResizeOp) -> None:
        x = self.values.get(op.input, FEATURES)
        source, target = graph.shape_of(op.input), graph.shape_of(op.result)
        if all(f == target[i + 1] / source[i + 1] for i, f in enumerate(op.factors)):
            # Sizes are exact even if the ratio is no float32 number.
            sizes = [target[d] for d in FEATURES]
            inputs = [x, "", "", self.builder.integers(sizes, "sizes")]
        else:
            scales = np.array([1, 1, *op.factors], np.float32)
            inputs = [x, "", self.builder.constant(scales, "scales")]
        coordinates = op.coordinates.data
        attributes: dict[str, Attribute] = {
            "mode": op.function.value,
            "coordinate_transformation_mode": coordinates.value,
        }
        if op.function is Resize.NEAREST:
            attributes["nearest_mode"] = op.rounding.data.value
        since = 19 if coordinates is Coordinates.HALF_PIXEL_SYMMETRIC else 13
        self._node(op.result, "Resize", inputs, FEATURES, attributes=attributes, since=since)
