"""
Add the ONNX nodes of each operation of the graph, on real values; `values.py` adds Q/DQ pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.onnx.functions import (
    FLOAT_DTYPE,
    add_clamp,
    add_clip,
    add_function,
    is_only_for_shifts,
    shift_of,
)
from ceras_ir.backends.onnx.movement import INT64, Movement
from ceras_ir.backends.onnx.values import FEATURES, Array, Attribute, Order, broadcast, unchanged
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Compare, GraphOperation, Reduce
from ceras_ir.dialects.graph.lookup import FUNCTION
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.network.integer import dequantize
from ceras_ir.support.diagnostics import node_name
from ceras_ir.transforms.quantization.analysis.rescaling import exponents_of

ONNX_BINARY: dict[Binary, str] = {
    Binary.ADD: "Add", Binary.SUB: "Sub", Binary.MUL: "Mul", Binary.DIV: "Div",
    Binary.MIN: "Min", Binary.MAX: "Max", Binary.POW: "Pow",
    Binary.AND: "BitwiseAnd", Binary.OR: "BitwiseOr", Binary.XOR: "BitwiseXor",
}  # fmt: skip
BITWISE_OPSET = 18
WRAPPING_OPERATORS = frozenset({Binary.ADD, Binary.SUB, Binary.MUL, Binary.DIV})
"""
The functions that wrap around. ONNX Runtime does not implement them for integers of 8 or 16 bits.
"""
ONNX_COMPARISONS: dict[Compare, str] = {
    Compare.EQUAL: "Equal", Compare.LESS: "Less", Compare.LESS_OR_EQUAL: "LessOrEqual",
}  # fmt: skip
REDUCTION_OPERATORS: dict[Reduce, tuple[str, int]] = {
    Reduce.SUM: ("ReduceSum", 13), Reduce.PRODUCT: ("ReduceProd", 18),
    Reduce.MAX: ("ReduceMax", 18), Reduce.MIN: ("ReduceMin", 18),
}  # fmt: skip
"""The ONNX operator of each reduction, and the first opset in which the axes are an operand."""


class Operations(Movement):
    """Adds the ONNX nodes of all operations of the graph to a model."""

    def write(self, op: Operation) -> None:
        """
        Add the ONNX nodes of `op` to the model; a constant is added when an operation uses it.
        """
        match op:
            case graph.ConstantOp():
                pass
            case graph.QuantizeOp():
                order = self._order(op.input)
                self.values.quantize(op.result, self.values.get(op.input, order), order)
            case graph.ScaledQuantizeOp():
                self._scaled_quantize(op)
            case graph.DequantizeOp():
                self.values.dequantize(op.result, op.input)
            case graph.Conv2dOp() | graph.MatmulOp():
                self._linear(op)
            case graph.Pool2dOp():
                self._pool(op)
            case graph.UnaryOp():
                x = self.values.get(op.input, order := self._order(op.input))
                self._function(op, op.function, x, order, op.channel_exponents)
            case graph.LookupOp() if op.has_pixel_input:
                self._lookup_pixels(op)
            case graph.LookupOp():
                self._lookup(op)
            case graph.RequantizeOp():
                order = self._order(op.input)
                x = self.values.get(op.input, order)
                self._finish(op.result, self._clamped(op.result, x, op.requant, order), order)
            case graph.BinaryOp() if is_only_for_shifts(op):
                pass  # Each shift uses the exponent.
            case graph.BinaryOp() if (shift := shift_of(op)) is not None:
                operands, order = self._broadcast_operands(op, (shift.value, shift.amount))
                direction: dict[str, Attribute] = {"direction": shift.direction}
                self._node(op.result, "BitShift", operands, order, attributes=direction)
            case graph.BinaryOp():
                self._binary(op)
            case graph.CompareOp() | graph.SelectOp():
                operands, order = self._broadcast_operands(op)
                is_comparison = isinstance(op, graph.CompareOp)
                operator = ONNX_COMPARISONS[op.function] if is_comparison else "Where"
                self._node(op.result, operator, operands, order)
            case graph.CastOp():
                order = self._order(op.input)
                x = self.values.get(op.input, order)
                self._node(op.result, "Cast", [x], order, attributes={"to": self.kind(op)})
            case graph.SoftmaxOp():
                self._node_with_axis(op, op.input, "Softmax", op.axis.value.data)
            case graph.NormalizeOp():
                self._normalize(op)
            case graph.ArgOp():
                operator = "ArgMax" if op.function is Reduce.MAX else "ArgMin"
                axis, last = op.axis.value.data, int(op.takes_last)
                self._node_with_axis(op, op.input, operator, axis, select_last_index=last)
            case graph.TopKOp():
                self._top_k(op)
            case graph.ReduceOp():
                self._reduce(op)
            case _:
                self.move(op)

    def _scaled_quantize(self, op: graph.ScaledQuantizeOp) -> None:
        order, name = self._order(op.input), node_name(op)
        factor = np.array(op.factor.value.data, np.float32)
        x = [self.values.get(op.input, order), self.builder.constant(factor, f"{name}/factor")]
        shape = self.values.shape(op.input, order)
        product = self.builder.node("Mul", x, f"{name}/Mul", FLOAT_DTYPE, shape)
        self.values.quantize(op.result, product, order)

    def _top_k(self, op: graph.TopKOp) -> None:
        order, name = self._order(op.input), node_name(op)
        shape, axis = graph.shape_of(op.result), order.index(len(order) - 1)
        count = self.builder.constant(np.array(shape[-1:], np.int64), f"{name}/k")
        x = [self.values.get(op.input, order), count]
        attributes = {"axis": axis, "largest": int(op.function is Reduce.MAX)}
        indices = self.builder.node(
            "TopK", x, name, self.dtype(op.result), self.values.shape(op.result, order),
            attributes=attributes, unused=1,
        )  # fmt: skip
        self._finish(op.result, indices, order)

    def _normalize(self, op: graph.NormalizeOp) -> None:
        # ONNX has an operator only for normalization with subtraction of the mean. The other form
        # is composed of nodes in the order of the definition.
        order, name = unchanged(op.result), node_name(op)
        inputs = [self.values.get(v, unchanged(v)) for v in op.operands]
        epsilon = op.epsilon.value.data
        if op.is_centred:
            attributes: dict[str, Attribute] = {"axis": -1, "epsilon": epsilon}
            self._node(
                op.result, "LayerNormalization", inputs, order, attributes=attributes, since=17
            )
            return
        shape = self.values.shape(op.result, order)
        reduced = (*shape[:-1], 1)

        def node(operator: str, operands: list[str], extents: Sequence[int]) -> str:
            return self.builder.node(operator, operands, f"{name}/{operator}", FLOAT_DTYPE, extents)

        def constant(array: Array, role: str) -> str:
            return self.builder.constant(array, f"{name}/{role}")

        axes = constant(np.array([-1], np.int64), "axes")
        total = node("ReduceSum", [node("Mul", [inputs[0]] * 2, shape), axes], reduced)
        extent = constant(np.array(shape[-1], np.float32), "extent")
        mean = node("Div", [total, extent], reduced)
        addend = constant(np.array(epsilon, np.float32), "epsilon")
        deviation = node("Sqrt", [node("Add", [mean, addend], reduced)], reduced)
        inputs[0] = node("Div", [inputs[0], deviation], shape)
        if op.bias is not None:
            inputs = [node("Mul", inputs[:2], shape), inputs[2]]
        self._node(op.result, "Mul" if op.bias is None else "Add", inputs, order)

    def _lookup(self, op: graph.LookupOp) -> None:
        # The tabulated function. A table for 16 bits also limits the argument.
        function, source = op.attributes[FUNCTION], graph.quantized_element(op.input)
        assert isinstance(function, graph.FunctionAttr) and source is not None
        x = self.values.get(op.input, order := self._order(op.input))
        if source.storage.width.data > 8:
            half = op.tables.shape[1] // 2
            low, high = -half * source.scale, (half - 1) * source.scale
            shape, name = self.values.shape(op.result, order), f"{node_name(op)}/table"
            x = add_clip(self.builder, x, low, high, name, shape)
        self._function(op, function, x, order, exponents_of(op))

    def _lookup_pixels(self, op: graph.LookupOp) -> None:
        # Gather from the concatenated tables of the channels.
        order, name = self._order(op.input), node_name(op)
        shape = self.values.shape(op.result, order)
        x = self.values.get(op.input, order)
        x = self._to_int64(x, f"{name}/byte", shape)
        if op.channel_rows is not None:
            starts = np.array(op.channel_rows, np.int64) * op.tables.shape[1]
            first = self.builder.constant(broadcast(starts, order), f"{name}/first")
            x = self.builder.node("Add", [x, first], f"{name}/place", INT64, shape)
        element = graph.stored_element(op.result)
        reals = dequantize(op.tables.reshape(-1), element).astype(np.float32)
        table = self.builder.constant(reals, f"{name}/table")
        x = self.builder.node("Gather", [table, x], name, FLOAT_DTYPE, shape)
        self.values.quantize(op.result, x, order)

    def _function(
        self,
        op: graph.UnaryOp | graph.LookupOp,
        function: graph.FunctionAttr,
        x: str,
        order: Order,
        exponents: tuple[Sequence[int], Sequence[int]] | None,
    ) -> None:
        shape, name = self.values.shape(op.result, order), node_name(op)
        # A layer from which the function was separated may already have the name.
        node = f"{name}/{function.data.value}" if name in self.builder.names else name
        before, after = exponents or ((), ())
        x = self._scaled(x, before, f"{name}/argument", order, shape)
        if (slopes := function.slopes) is not None:
            numbers = broadcast(np.array(slopes, np.float32), order)
            slope = self.builder.constant(numbers, f"{name}/slope")
            x = self.builder.node("PRelu", [x, slope], node, FLOAT_DTYPE, shape)
        else:
            x = add_function(self.builder, function, x, node, shape)
        x = self._scaled(x, [-e for e in after], f"{name}/result", order, shape)
        self._finish(op.result, x, order)

    def _scaled(
        self, x: str, exponents: Sequence[int], name: str, order: Order, shape: Sequence[int]
    ) -> str:
        if not any(exponents):
            return x
        factors = broadcast(np.exp2(np.array(exponents, np.float32)), order)
        inputs = [x, self.builder.constant(factors, name)]
        return self.builder.node("Mul", inputs, name, FLOAT_DTYPE, shape)

    def _linear(self, op: graph.Conv2dOp | graph.MatmulOp) -> None:
        name, order = node_name(op), FEATURES if isinstance(op, graph.Conv2dOp) else (0, 1)
        operands = [self.values.get(v, order) for v in (op.input, op.weights)]
        if op.bias is not None:
            operands.append(self.values.get(op.bias, (0,)))
        shape = self.values.shape(op.result, order)
        if isinstance(op, graph.Conv2dOp):
            _, kh, kw, _ = graph.shape_of(op.weights)
            attributes: dict[str, Attribute] = {
                "kernel_shape": [kh, kw],
                "strides": op.strides.get_values(),
                "pads": op.padding.get_values(),
                "dilations": op.dilations.get_values(),
                "group": op.group_count,
            }
            x = self.builder.node("Conv", operands, name, FLOAT_DTYPE, shape, attributes=attributes)
        else:
            x = self.builder.node(
                "Gemm", operands, name, FLOAT_DTYPE, shape, attributes={"transB": 1}
            )
        if op.residual is not None:
            residual = self.values.get(op.residual, order)
            x = self.builder.node("Add", [x, residual], f"{name}/add", FLOAT_DTYPE, shape)
        self._epilogue(op, op.activation, op.requant, x, order)

    def _epilogue(
        self,
        op: graph.Conv2dOp | graph.MatmulOp | graph.BinaryOp,
        activation: graph.FunctionAttr | None,
        requant: RequantAttr | None,
        x: str,
        order: Order,
    ) -> None:
        if activation is not None:
            shape = self.values.shape(op.result, order)
            name = f"{node_name(op)}/{activation.data.value}"
            x = add_function(self.builder, activation, x, name, shape)
        if requant is not None:
            x = self._clamped(op.result, x, requant, order)
        self._finish(op.result, x, order)

    def _clamped(self, value: SSAValue, x: str, requant: RequantAttr, order: Order) -> str:
        element = graph.quantized_element(value)
        assert element is not None and isinstance(value.owner, Operation)
        name = f"{node_name(value.owner)}/clamp"
        return add_clamp(self.builder, x, requant, element, name, self.values.shape(value, order))

    def _pool(self, op: graph.Pool2dOp) -> None:
        windows: dict[str, Attribute] = {
            "kernel_shape": op.kernel.get_values(),
            "strides": op.strides.get_values(),
            "pads": op.padding.get_values(),
        }
        dilations = op.dilations.get_values()
        since = 13
        if set(dilations) != {1}:
            windows["dilations"] = dilations
            since = 13 if op.function is graph.Pool.MAX else 19
        x = self.values.get(op.input, FEATURES)
        shape = self.values.shape(op.result, FEATURES)
        operator = "MaxPool"
        if op.function is graph.Pool.AVERAGE:
            operator, windows["count_include_pad"] = "AveragePool", int(op.includes_padding)
        name = node_name(op)
        x = self.builder.node(
            operator, [x], name, FLOAT_DTYPE, shape, attributes=windows, since=since
        )
        if op.function is graph.Pool.AVERAGE and op.requant is not None:
            x = self._clamped(op.result, x, op.requant, FEATURES)
        self._finish(op.result, x, FEATURES)

    def _binary(self, op: graph.BinaryOp) -> None:
        operands, order = self._broadcast_operands(op)
        operator = ONNX_BINARY[op.function]
        dtype = FLOAT_DTYPE if op.is_quantized else self.dtype(op.result)
        since = 13
        if operator.startswith("Bitwise"):
            # Booleans have separate operators.
            since = 13 if dtype == np.bool_ else BITWISE_OPSET
            operator = operator.removeprefix("Bitwise") if dtype == np.bool_ else operator
        shape, name = self.values.shape(op.result, order), node_name(op)
        if op.function in WRAPPING_OPERATORS and dtype.kind in "iu" and dtype.itemsize < 4:
            x = self._binary_in_int64(op, operands, order)
        else:
            x = self.builder.node(operator, operands, name, dtype, shape, since=since)
        self._epilogue(op, op.activation, op.requant, x, order)

    def _binary_in_int64(self, op: graph.BinaryOp, operands: Sequence[str], order: Order) -> str:
        # The least significant bits of the result do not depend on the width of the operands.
        name = node_name(op)
        shape, is_plain = self.values.shape(op.result, order), order == unchanged(op.result)
        inputs = list[str]()
        for x, value in zip(operands, op.operands, strict=True):
            own = graph.shape_of(value)
            padded = (*(1,) * (len(order) - len(own)), *own)
            extents = own if is_plain else [padded[d] for d in order]
            inputs.append(self._to_int64(x, f"{name}/wide", extents))
        operator = ONNX_BINARY[op.function]
        x = self.builder.node(operator, inputs, f"{name}/exact", INT64, shape)
        to: dict[str, Attribute] = {"to": self.kind(op)}
        return self.builder.node("Cast", [x], name, self.dtype(op.result), shape, attributes=to)

    def _reduce(self, op: graph.ReduceOp) -> None:
        order = self._order(op.input)
        operator, since = REDUCTION_OPERATORS[op.function]
        axes = sorted(order.index(a) for a in op.axes.get_values())
        inputs = [self.values.get(op.input, order), self.builder.integers(axes, "axes")]
        self._node(op.result, operator, inputs, order, attributes={"keepdims": 1}, since=since)

    def _broadcast_operands(
        self, op: GraphOperation, operands: Sequence[SSAValue] | None = None
    ) -> tuple[list[str], Order]:
        # The common order is that of the first operand with the rank of the result and an order
        # other than that of the graph, if any.
        inputs, plain = op.operands if operands is None else operands, unchanged(op.output)
        orders = (order for v in inputs if (order := self.values.order(v)) is not None)
        common = next((o for o in orders if len(o) == len(plain) and o != plain), plain)
        return [self._broadcast(v, op.output, common) for v in inputs], common

    def _broadcast(self, value: SSAValue, result: SSAValue, order: Order) -> str:
        # Add the leading dimensions that broadcasting implies before the transposition.
        missing = len(order) - len(graph.shape_of(value))
        if not missing:
            return self.values.get(value, order)
        x = self.values.get(value, unchanged(value))
        if order == unchanged(result):
            return x
        shape = (*(1,) * missing, *graph.shape_of(value))
        dtype = FLOAT_DTYPE if graph.quantized_element(value) else self.dtype(value)
        target = self.builder.integers(shape, "shape")
        name = f"{node_name(value.owner) if isinstance(value.owner, Operation) else 'input'}/expand"
        x = self.builder.node("Reshape", [x, target], name, dtype, shape)
        extents = [shape[d] for d in order]
        return self.builder.node(
            "Transpose", [x], f"{name}/transpose", dtype, extents, attributes={"perm": order}
        )
