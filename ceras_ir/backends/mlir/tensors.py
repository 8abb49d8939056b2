"""
Build operations on tensors: `linalg.generic` with a scalar body, data movement, constants.

A value of the network becomes a tensor of the same shape with the stored elements: f32, or signless
integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float32Type,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    TensorType,
    UnknownLoc,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp, TransposeOp, YieldOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from ceras_ir.backends.mlir.scalars import INDEX, Scalars
from ceras_ir.dialects.graph.constant import is_integer, is_splat, plain_element
from ceras_ir.dialects.graph.operation import element_of, shape_of

Array = NDArray[np.generic]
Element = Float32Type | IntegerType
Body = (
    Callable[[Scalars, SSAValue], SSAValue]
    | Callable[[Scalars, SSAValue, SSAValue], SSAValue]
    | Callable[[Scalars, SSAValue, SSAValue, SSAValue], SSAValue]
    | Callable[..., SSAValue]
)
"""
A function of a `Scalars`, which adds operations, and the elements of the operands. It returns the
element of the result.
"""
Indices = Sequence[SSAValue]


class Tensors(Scalars):
    """
    Adds operations on tensors to the end of a block. Methods return the result of the last added
    operation.
    """

    def __init__(self, block: Block, location: LocationAttr | None = None):
        super().__init__(block, UnknownLoc() if location is None else location)

    def constant(self, array: Array) -> SSAValue:
        """
        Return a constant tensor with the elements of an array. Unsigned integers become signless
        integers with the same bits.
        """
        element = plain_element(array.dtype)
        assert element is not None, array.dtype
        if is_integer(element):
            element = IntegerType(element.width.data)
        raw = np.ascontiguousarray(array)
        if raw.size > 1 and is_splat(raw.reshape(-1)):
            raw = raw.reshape(-1)[:1]
        kind = TensorType(element, array.shape)
        value = DenseIntOrFPElementsAttr(kind, BytesAttr(raw.tobytes()))
        return self.add_operation(arith.ConstantOp(value))

    def empty(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        return self.add_operation(tensor.EmptyOp([], TensorType(element, shape)))

    def filled(self, shape: Sequence[int], value: SSAValue) -> SSAValue:
        """Return a tensor of `shape` with all elements equal to the scalar `value`."""
        return self.add_operation(FillOp([value], [self.empty(shape, value.type)]))

    def generic(
        self,
        operands: Sequence[SSAValue],
        maps: Sequence[AffineMap],
        iterators: Sequence[IteratorTypeAttr],
        output: SSAValue,
        body: Body,
    ) -> SSAValue:
        """
        Add a `linalg.generic` and return the result. `maps` has a map for each operand and one for
        `output`, the tensor with the initial elements; `iterators` has the kind of each loop.
        `body` computes an element of the result from the elements of the operands and of `output`.
        """
        block = Block(arg_types=[element_of(v) for v in (*operands, output)])
        inner = Scalars(block, self.location)
        inner.end(YieldOp(body(inner, *block.args)))
        op = GenericOp(
            operands,
            [output],
            Region(block),
            [AffineMapAttr(m) for m in maps],
            list(iterators),
            [output.type],
        )
        return self.add_operation(op)

    def elementwise(
        self, operands: Sequence[SSAValue], shape: Sequence[int], element: Attribute, body: Body
    ) -> SSAValue:
        """
        Return a tensor of `shape` and type `element`. `body` computes an element from the elements
        of the operands at the same index; operands are broadcast.
        """
        maps = [broadcast_map(shape_of(v), shape) for v in operands]
        parallel = [IteratorTypeAttr.parallel()] * len(shape)

        def inside(s: Scalars, *elements: SSAValue) -> SSAValue:
            return body(s, *elements[:-1])

        maps.append(AffineMap.identity(len(shape)))
        return self.generic(operands, maps, parallel, self.empty(shape, element), inside)

    def computed(
        self,
        shape: Sequence[int],
        element: Attribute,
        body: Callable[[Scalars, Indices], SSAValue],
    ) -> SSAValue:
        """
        Return a tensor of `shape` and type `element`. `body` computes an element from its indices.
        The order of elements is not specified.
        """

        def inside(s: Scalars) -> SSAValue:
            return body(s, [s.index(d) for d in range(len(shape))])

        return self.elementwise([], shape, element, inside)

    def reduced(
        self, value: SSAValue, axes: Sequence[int], initial: SSAValue, body: Body
    ) -> SSAValue:
        """
        Combine the elements along `axes`, which remain as extents of 1, in any order. `body`
        receives an element and the result so far, which is first the scalar `initial`, and returns
        the next result.
        """
        shape = shape_of(value)
        kept = [d for d in range(len(shape)) if d not in axes]
        iterators = [
            IteratorTypeAttr.reduction() if d in axes else IteratorTypeAttr.parallel()
            for d in range(len(shape))
        ]
        maps = [AffineMap.identity(len(shape)), dimension_map(len(shape), kept)]
        start = self.filled([shape[d] for d in kept], initial)
        result = self.generic([value], maps, iterators, start, body)
        return self.reshape(result, [1 if d in axes else n for d, n in enumerate(shape)])

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """
        Return the elements in the same row-major order in another shape: collapse to a single
        dimension, then expand.
        """
        source, element = shape_of(value), element_of(value)
        if source == tuple(shape):
            return value
        flat = (prod(source),) if source and shape else ()
        if len(source) > len(flat):
            op = tensor.CollapseShapeOp.create(
                operands=[value],
                result_types=[TensorType(element, flat)],
                properties={"reassociation": _grouped(len(source), len(flat))},
            )
            value = self.add_operation(op)
        if len(shape) > len(flat):
            groups = _grouped(len(shape), len(flat))
            kind = TensorType(element, shape)
            value = self.add_operation(tensor.ExpandShapeOp(value, [], groups, shape, kind))
        return value

    def transpose(self, value: SSAValue, permutation: Sequence[int]) -> SSAValue:
        """
        Return a transposed tensor: dimension `i` of the result is dimension `permutation[i]` of
        `value`.
        """
        if list(permutation) == list(range(len(permutation))):
            return value
        output = self.empty([shape_of(value)[p] for p in permutation], element_of(value))
        order = DenseArrayBase.from_list(i64, list(permutation))
        return self.add_operation(TransposeOp(value, output, order, output.type))

    def padded(
        self, value: SSAValue, low: Sequence[int], high: Sequence[int], filler: SSAValue
    ) -> SSAValue:
        """
        Return `value` with a border of the scalar `filler`: `low[d]` elements before and `high[d]`
        after dimension d.
        """
        if not any(low) and not any(high):
            return value
        shape = [n + a + b for n, a, b in zip(shape_of(value), low, high, strict=True)]
        block = Block(arg_types=[INDEX] * len(shape))
        Scalars(block, self.location).end(tensor.YieldOp(filler))
        kind = TensorType(element_of(value), shape)
        return self.add_operation(
            tensor.PadOp(value, [], [], Region(block), list(low), list(high), kind)
        )

    def selected(
        self, value: SSAValue, chosen: Mapping[int, Array], filler: SSAValue | None = None
    ) -> SSAValue:
        """
        Return the elements at given indices: `chosen` maps a dimension to the list of its indices,
        and other dimensions are complete. An index of -1 selects the scalar `filler`.
        """
        shape = [
            len(chosen[d]) if d in chosen else extent for d, extent in enumerate(shape_of(value))
        ]
        tables = {d: self.constant(np.asarray(at, np.int64)) for d, at in chosen.items()}

        def body(s: Scalars, indices: Indices) -> SSAValue:
            found = list(indices)
            inside: SSAValue | None = None
            for d, table in tables.items():
                at = s.element(table, [indices[d]])
                if filler is not None and -1 in chosen[d]:
                    zero = s.integer(0)
                    is_inside = s.compare("ge", at, zero)
                    inside = is_inside if inside is None else s.both(inside, is_inside)
                    at = s.max(at, zero)
                found[d] = s.as_index(at)
            result = s.element(value, found)
            if inside is None or filler is None:
                return result
            return s.select(inside, result, filler)

        return self.computed(shape, element_of(value), body)


def dimension_map(count: int, dimensions: Sequence[int]) -> AffineMap:
    """
    Return the affine map from `count` loops to the loops in `dimensions`: (d0, d1, d2) -> (d0, d2)
    for 3 and (0, 2).
    """
    return AffineMap(count, 0, tuple(AffineDimExpr(d) for d in dimensions))


def broadcast_map(source: Sequence[int], target: Sequence[int]) -> AffineMap:
    """
    Return the affine map from loops over the shape `target` to an operand of shape `source` that is
    broadcast: 0 for dimensions of extent 1.
    """
    first = len(target) - len(source)
    results: list[AffineExpr] = [
        AffineConstantExpr(0)
        if extent == 1 and target[first + d] != 1
        else AffineDimExpr(first + d)
        for d, extent in enumerate(source)
    ]
    return AffineMap(len(target), 0, tuple(results))


def _grouped(rank: int, groups: int) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    if groups == 0:
        return ArrayAttr([])
    return ArrayAttr([ArrayAttr([IntegerAttr(d, i64) for d in range(rank)])])
