"""Comparison, selection and casts of the `graph` dialect, and tree ensembles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, TensorType, f32, i1
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition, operand_def, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.attributes import Elementwise
from ceras_ir.dialects.graph.constant import constant_array
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    InputOperation,
    broadcast_shape,
    element_of,
    expect_rank,
    expect_shape,
    quantized_element,
    shape_of,
)
from ceras_ir.dialects.quant import UniformType


class Compare(StrEnum):
    """Relations of two elements; all are false for NaN."""

    EQUAL = "equal"
    LESS = "less"
    LESS_OR_EQUAL = "less_or_equal"


@irdl_attr_definition
class CompareAttr(EnumAttribute[Compare], SpacedOpaqueSyntaxAttribute):
    name = "graph.compare"


@irdl_op_definition
class CompareOp(GraphOperation):
    """
    Return `lhs kind rhs`, element by element, as i1, with broadcast operands.

        %c = graph.compare less %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xi1>
    """

    name = "graph.compare"
    ADMITS_INTEGERS: ClassVar = True

    kind = prop_def(CompareAttr)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)

    traits = traits_def(Elementwise())
    assembly_format = "$kind $lhs `,` $rhs attr-dict `:` functional-type(operands, results)"

    def __init__(self, kind: Compare, lhs: SSAValue, rhs: SSAValue):
        shape = broadcast_shape(shape_of(lhs), shape_of(rhs))
        assert shape is not None
        super().__init__(
            operands=[lhs, rhs],
            result_types=[TensorType(i1, shape)],
            properties={"kind": CompareAttr(kind)},
        )

    @property
    def function(self) -> Compare:
        return self.kind.data

    def verify_semantics(self) -> None:
        if element_of(self.lhs) != element_of(self.rhs):
            raise VerifyException(
                f"operands must have equal element types, got {element_of(self.lhs)} "
                f"and {element_of(self.rhs)}"
            )
        if element_of(self.result) != i1:
            raise VerifyException(f"the result of a comparison must be i1, got {self.result.type}")


@irdl_op_definition
class SelectOp(GraphOperation):
    """
    Return `condition ? lhs : rhs`, element by element, with broadcast operands.

        %z = graph.select %c, %x, %y
            : (tensor<2x4xi1>, tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    """

    name = "graph.select"
    ADMITS_INTEGERS: ClassVar = True

    condition = operand_def(TensorType)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)

    traits = traits_def(Elementwise())
    assembly_format = (
        "$condition `,` $lhs `,` $rhs attr-dict `:` functional-type(operands, results)"
    )

    def __init__(self, condition: SSAValue, lhs: SSAValue, rhs: SSAValue):
        shape = broadcast_shape(*map(shape_of, (condition, lhs, rhs)))
        assert shape is not None
        super().__init__(
            operands=[condition, lhs, rhs], result_types=[TensorType(element_of(lhs), shape)]
        )

    def verify_semantics(self) -> None:
        if element_of(self.condition) != i1:
            raise VerifyException(f"the condition must be i1, got {self.condition.type}")
        if not element_of(self.lhs) == element_of(self.rhs) == element_of(self.result):
            raise VerifyException(
                f"both choices and the result must have equal element types, got "
                f"{element_of(self.lhs)}, {element_of(self.rhs)} and {element_of(self.result)}"
            )


@irdl_op_definition
class CastOp(InputOperation):
    """
    Convert to another plain type, element by element. Integers keep the low bits. From f32, the
    fraction is dropped, the result is clamped to the range of the type, and NaN becomes 0. An i1 is
    true if the operand is not 0. To f32, integers are rounded to nearest, ties to even. A quantized
    value with scale 1 and no zero point can be cast to the stored integer.

        %y = graph.cast %x : (tensor<4xf32>) -> tensor<4xi32>
    """

    name = "graph.cast"
    ADMITS_INTEGERS: ClassVar = True

    traits = traits_def(Elementwise())

    def __init__(self, input: SSAValue, element: Attribute):
        super().__init__(input, element=element)

    def verify_semantics(self) -> None:
        element = quantized_element(self.input)
        if quantized_element(self.result) is not None or (
            element is not None and element != UniformType(1.0, storage=element.storage)
        ):
            raise VerifyException("quantized elements are converted with quantize and dequantize")
        if element is not None and element_of(self.result) != element.storage:
            raise VerifyException(f"the stored type is {element.storage}, got {self.result.type}")


@irdl_op_definition
class TreeEnsembleOp(GraphOperation):
    """
    Evaluate T decision trees on each row of `input` [N, F], and add their leaves. The other
    operands are constant tables of M nodes and L leaves of W elements:

    - Node `i` continues with `children[i, 0]` if `x[features[i]] <= thresholds[i]`, else with
      `children[i, 1]`. A negative feature refers to `x[-1 - features[i]]`, and continues with
      `children[i, 0]` unless `x > thresholds[i]`, also for NaN.
    - A child >= 0 is a node, with a higher index than the parents. A negative child is the leaf `-1
      - child`. Nodes and leaves can have several parents.
    - Tree `t` begins at `roots[t]`, which is encoded like a child.

    Row `n` of the result [N, C] starts with zeros. Each tree in order adds `leaves[leaf, w]` to
    column `columns[t] + w`, for all `w`. After ONNX-ML `TreeEnsemble`.

        %feature = graph.constant dense<2> : tensor<1xi8> : tensor<1xi8>
        %threshold = graph.constant dense<0.5> : tensor<1xf32> : tensor<1xf32>
        %child = graph.constant dense<[[-1, -2]]> : tensor<1x2xi8> : tensor<1x2xi8>
        %root = graph.constant dense<0> : tensor<1xi8> : tensor<1xi8>
        %leaf = graph.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
        %y = graph.tree_ensemble %x, %feature, %threshold, %child, %root, %root, %leaf
            : (tensor<5x3xf32>, tensor<1xi8>, tensor<1xf32>, tensor<1x2xi8>, tensor<1xi8>,
            tensor<1xi8>, tensor<2x1xf32>) -> tensor<5x1xf32>
    """

    name = "graph.tree_ensemble"
    ADMITS_INTEGERS: ClassVar = True

    input = operand_def(TensorType)
    features = operand_def(TensorType)
    thresholds = operand_def(TensorType)
    children = operand_def(TensorType)
    roots = operand_def(TensorType)
    columns = operand_def(TensorType)
    leaves = operand_def(TensorType)

    assembly_format = (
        "$input `,` $features `,` $thresholds `,` $children `,` $roots `,` $columns `,` $leaves "
        "attr-dict `:` functional-type(operands, results)"
    )

    def __init__(self, input: SSAValue, tables: Sequence[SSAValue], width: int):
        """
        Create the operation from `tables`, which are the constant operands in order (features to
        leaves). The result has `width` columns.
        """
        super().__init__(
            operands=[input, *tables],
            result_types=[TensorType(f32, (shape_of(input)[0], width))],
        )

    @property
    def data_operands(self) -> Sequence[SSAValue]:
        return (self.input,)

    @property
    def expected_visits(self) -> float:
        """
        The expected number of visited nodes of all trees for a row of the input, if both children
        of a node are equally likely.
        """
        children, roots = constant_array(self.children), constant_array(self.roots)
        assert children is not None
        assert roots is not None
        expected = [0.0] * len(children)
        for root in roots.tolist():
            if root >= 0:
                expected[root] += 1.0
        for node, pair in enumerate(children.tolist()):
            for child in pair:
                if child >= 0:
                    expected[child] += expected[node] / 2
        return sum(expected)

    def verify_semantics(self) -> None:
        for name in ("input", "thresholds", "leaves", "result"):
            if element_of(value := getattr(self, name)) != f32:
                raise VerifyException(f"{name} must be f32, got {value.type}")
        for name, rank in (("input", 2), ("features", 1), ("roots", 1), ("leaves", 2)):
            expect_rank(name, getattr(self, name), rank)
        nodes = shape_of(self.features)
        expect_shape("thresholds", self.thresholds, nodes)
        expect_shape("children", self.children, (*nodes, 2))
        expect_shape("columns", self.columns, shape_of(self.roots))
        (rows, inputs), (leaves, width) = shape_of(self.input), shape_of(self.leaves)
        expect_rank("result", self.result, 2)
        columns = shape_of(self.result)[1]
        expect_shape("result", self.result, (rows, columns))
        if width > columns:
            raise VerifyException(f"leaves of {width} elements do not fit {columns} columns")
        self._table("thresholds")
        self._table("leaves")
        self._expect_range("features", -inputs, inputs)
        self._expect_range("columns", 0, columns - width + 1)
        self._expect_range("roots", -leaves, nodes[0])
        children = self._expect_range("children", -leaves, nodes[0])
        for node, pair in enumerate(children.tolist()):
            if any(0 <= child <= node for child in pair):
                raise VerifyException(f"children of node {node} must come after it, got {pair}")

    def _table(self, name: str) -> NDArray[np.generic]:
        array = constant_array(getattr(self, name))
        if array is None:
            raise VerifyException(f"{name} must be a constant")
        return array

    def _expect_range(self, name: str, low: int, high: int) -> NDArray[np.generic]:
        element = element_of(getattr(self, name))
        if not isinstance(element, IntegerType) or element == i1:
            raise VerifyException(f"{name} must be integers, got {element}")
        array = self._table(name)
        minimum, maximum = int(array.min()), int(array.max())
        if minimum < low or maximum >= high:
            wrong = minimum if minimum < low else maximum
            raise VerifyException(f"{name} must be in [{low}, {high}), got {wrong}")
        return array
