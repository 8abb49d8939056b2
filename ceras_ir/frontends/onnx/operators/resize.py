"""
Import resampling of height and width: Resize of opset 10 and later, and Upsample before it.

A mode that interpolates is a matrix for each dimension: row `i` has the weights of the input
elements in output element `i`. The matrix is computed in double precision like in the reference of
ONNX, and rounded to float32 at the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import i32

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Coordinates, DequantizeOp, Nearest, Resize, ResizeOp, element_of
from ceras_ir.dialects.graph.constant import is_integer
from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import operator, rule
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.model.model_file import MAX_TENSOR_ELEMENTS
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.interpreters.selection import coordinate, nearest_indices

CROP = "tf_crop_and_resize"
"""Coordinates that `graph` does not have: a stretched region of the input."""


@dataclass(frozen=True)
class Resampling:
    """A method of linear or cubic interpolation, which is the same for all dimensions."""

    cubic: bool
    coordinates: str
    antialias: bool = False
    cubic_coefficient: float = -0.75
    exclude_outside: bool = False

    def matrix(
        self, size: int, output: int, scale: float, region: tuple[float, float] = (0.0, 1.0)
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """
        Return the weights [output, size] of the input elements in each output element along a
        dimension, and a mask of outputs outside of the input, which have no weights. `scale` is the
        output size over the input size, and `region` the part of the input, from 0 to 1.
        """
        weights = np.zeros((output, size))
        outside = np.zeros(output, np.bool_)
        for i in range(output):
            x = self._position(i, size, output, scale, region)
            if self.coordinates == CROP and not 0.0 <= x <= size - 1:
                outside[i] = True
                continue
            # For an integer x, the element itself is the right neighbor.
            base = ceil(x) - 1
            first, taps = self._taps(x - base, scale)
            for k, tap in enumerate(taps):
                j = base + first + k
                if not self.exclude_outside:
                    j = min(max(j, 0), size - 1)
                if 0 <= j < size:
                    weights[i, j] += tap
            if self.exclude_outside:
                weights[i] /= weights[i].sum()
        return weights.astype(np.float32), outside

    def _position(
        self, i: int, size: int, output: int, scale: float, region: tuple[float, float]
    ) -> float:
        if self.coordinates != CROP:
            return coordinate(i, scale, size, output, Coordinates(self.coordinates))
        start, end = region
        length = (end - start) * (size - 1)
        if output == 1:
            return start * (size - 1) + length / 2
        return start * (size - 1) + i * length / (output - 1)

    def _taps(self, ratio: float, scale: float) -> tuple[int, list[float]]:
        """
        Return the weights of the neighbors of a position, and the offset of the first of them from
        the left neighbor. `ratio` is the distance to the left neighbor.
        """
        shrink = min(scale, 1.0) if self.antialias else 1.0
        reach = 2 if self.cubic else 1
        first = floor(-reach / shrink) + 1
        last = reach - first if self.cubic else 2 - first
        taps = [self._weight(abs(shrink * (k - ratio))) for k in range(first, last)]
        total = sum(taps)
        return first, [tap / total for tap in taps]

    def _weight(self, x: float) -> float:
        if not self.cubic:
            return max(1.0 - x, 0.0)
        a = self.cubic_coefficient
        if x <= 1.0:
            return ((a + 2) * x - (a + 3)) * x * x + 1
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2.0 else 0.0


TENSORFLOW = "tf_half_pixel_for_nn"
"""Coordinates of opsets 11 and 12, `(i + 0.5) / scale`, which tf2onnx keeps in newer opsets."""

RESIZE_MODES = {"nearest": Resize.NEAREST, "linear": Resize.LINEAR, "bilinear": Resize.LINEAR}


@rule("Resize", "Upsample")
def mode(node: Node) -> str | None:
    """mode must be nearest, linear or cubic"""
    got = node.string("mode", "nearest")
    is_known = got in RESIZE_MODES or got == "cubic"
    return None if is_known else f"got '{got}'; export with mode='linear'"


@rule("Resize")
def coordinates(node: Node) -> str | None:
    """coordinates must be defined by ONNX, and a region must not have mode nearest"""
    got = node.string("coordinate_transformation_mode", "half_pixel")
    nearest = node.string("mode", "nearest") == "nearest"
    if got in set(Coordinates) or (got == CROP and not nearest):
        return None
    if got == TENSORFLOW:
        floors = nearest and node.string("nearest_mode", "") == Nearest.FLOOR
        return None if floors else f"got '{got}' without mode nearest and floor; export with them"
    return f"got '{got}'; export with half_pixel"


@operator("Upsample")
def upsample(node: Node, emitter: Emitter) -> Value:
    """Import Upsample. The scales are an attribute before opset 9, then an operand."""
    if node.opset < 9:
        return _by_scales(node, emitter, node.numbers("scales") or ())
    return _by_scales(node, emitter, _scales(emitter, 1))


def _scales(emitter: Emitter, index: int) -> list[float]:
    return emitter.floats(index).reshape(-1).tolist()


def _by_scales(node: Node, emitter: Emitter, scales: Sequence[float]) -> Value:
    """
    Resample by `scales` as before opset 11, where coordinates are always `output / scale`, rounded
    down.
    """
    checked = _checked(node, scales, emitter)
    sizes = _sizes(node, emitter, checked)
    return _resampled(node, emitter, checked, sizes, Coordinates.ASYMMETRIC, Nearest.FLOOR)


@operator("Resize")
def resize(node: Node, emitter: Emitter) -> Value:
    """
    Import Resize with `scales` or `sizes` for all dimensions or for `axes`. Integer results are
    truncated.
    """
    value = emitter.value(0)
    if node.string("mode", "nearest") == "nearest" or emitter.is_float(value):
        return _resize(node, emitter)
    element = element_of(emitter.materialize(value))
    name = node.inputs[0]
    if not isinstance(element, UniformType):
        emitter.values[name] = emitter.cast(value)
        result = emitter.cast(_resize(node, emitter), element)
    else:
        # Interpolate the stored integers, to which results are rounded.
        scale, point = emitter.number(element.scale), emitter.number(element.zero_point)
        real = emitter.emit(DequantizeOp(emitter.materialize(value)))
        stored = emitter.add(emitter.unary(graph.Function.ROUND, emitter.div(real, scale)), point)
        emitter.values[name] = stored
        integers = emitter.cast(emitter.cast(_resize(node, emitter), i32))
        real = emitter.mul(emitter.sub(integers, point), scale)
        result = emitter.emit(graph.QuantizeOp(real, element))
    emitter.values[name] = value
    return result


def _resize(node: Node, emitter: Emitter) -> Value:
    if node.opset < 11:
        return _by_scales(node, emitter, _scales(emitter, 1))
    scales, sizes = _scales_and_sizes(node, emitter)
    rounding = node.string("nearest_mode", Nearest.ROUND_PREFER_FLOOR.value)
    if rounding not in set(Nearest):
        raise node.wrong(f"attribute 'nearest_mode' must be one of {', '.join(Nearest)}")
    where = node.string("coordinate_transformation_mode", "half_pixel")
    if where == TENSORFLOW:
        # The element that contains the center of a pixel has the nearest center.
        where, rounding = Coordinates.HALF_PIXEL.value, Nearest.ROUND_PREFER_CEIL.value
    checked = _checked(node, scales, emitter)
    sizes = _sizes(node, emitter, checked) if sizes is None else sizes
    method = Resampling(
        node.string("mode", "nearest") == "cubic",
        where,
        node.flag("antialias"),
        node.number("cubic_coeff_a", -0.75),
        node.flag("exclude_outside"),
    )
    filler = node.bound("extrapolation_value", 0.0)
    if node.string("mode", "nearest") == "nearest":
        method = Resampling(False, where)
    if method.cubic or method.antialias or method.exclude_outside or where == CROP:
        return _by_matrices(node, emitter, checked, sizes, method, filler)
    return _resampled(node, emitter, checked, sizes, Coordinates(where), Nearest(rounding))


def _scales_and_sizes(node: Node, emitter: Emitter) -> tuple[list[float], list[int] | None]:
    """
    Return the scale of each dimension, and the sizes of the result, or `None` if the model has only
    scales.
    """
    shape = emitter.shape(0)
    rank, axes = len(shape), node.integers("axes")
    dims = list(range(rank)) if axes is None else [node.axis(a, rank, "axes") for a in axes]
    scales, sizes = [1.0] * rank, list(shape)
    has_scales = node.has_input(2) and emitter.shape(2) != (0,)
    has_sizes = node.has_input(3) and emitter.shape(3) != (0,)
    if has_scales == has_sizes:
        raise node.wrong("either scales or sizes expected")
    given: Sequence[float] = (
        emitter.integers(3) if has_sizes else emitter.floats(2).ravel().tolist()
    )
    if len(given) != len(dims):
        raise node.wrong(f"{len(dims)} scales or sizes expected, got {len(given)}")
    policy = node.string("keep_aspect_ratio_policy", "stretch")
    if policy not in ("stretch", "not_larger", "not_smaller"):
        raise node.wrong(f"attribute 'keep_aspect_ratio_policy' must not be '{policy}'")
    if has_sizes and policy != "stretch":
        choose = min if policy == "not_larger" else max
        ratio = choose(v / sizes[i] for i, v in zip(dims, given, strict=True))
        for i in dims:
            sizes[i] = floor(ratio * sizes[i] + 0.5)
            scales[i] = ratio
        return scales, sizes
    for i, value in zip(dims, given, strict=True):
        scales[i] = value if has_scales else value / sizes[i]
        sizes[i] = sizes[i] if has_scales else int(value)
    return scales, sizes if has_sizes else None


MAX_MATRIX = 1 << 22
"""Maximum number of elements of a resampling matrix."""


def _by_matrices(
    node: Node,
    emitter: Emitter,
    scales: tuple[float, ...],
    sizes: list[int],
    method: Resampling,
    filler: float,
) -> Value:
    shape = emitter.shape(0)
    rank = len(shape)
    region = [0.0] * rank + [1.0] * rank
    if method.coordinates == CROP and node.has_input(1) and emitter.shape(1) != (0,):
        axes = node.integers("axes") or range(rank)
        given = emitter.floats(1).reshape(-1)
        if len(given) != 2 * len(axes):
            raise node.wrong(f"a region of {2 * len(axes)} numbers expected, got {len(given)}")
        for k, axis in enumerate(axes):
            i = node.axis(axis, rank, "axes")
            region[i], region[i + rank] = float(given[k]), float(given[k + len(axes)])
    if prod(sizes) > MAX_TENSOR_ELEMENTS:
        raise node.wrong(f"a result of shape {sizes} is too large")
    value, inside = emitter.value(0), np.ones([1] * rank, np.bool_)
    for axis in range(rank):
        part = region[axis], region[axis + rank]
        if scales[axis] == 1.0 and sizes[axis] == shape[axis] and part == (0.0, 1.0):
            continue
        if sizes[axis] < 1 or sizes[axis] * shape[axis] > MAX_MATRIX:
            raise node.unsupported(
                f"resampling {shape[axis]} to {sizes[axis]} elements this way; use mode 'linear'"
            )
        weights, outside = method.matrix(shape[axis], sizes[axis], scales[axis], part)
        column = [-1 if i == axis else 1 for i in range(rank)]
        inside = inside & ~outside.reshape(column)
        value = _multiplied(emitter, value, axis, weights)
    if not inside.all():
        condition = emitter.constant(np.broadcast_to(inside, sizes), "inside")
        value = emitter.select(condition, value, emitter.number(filler))
    return value


def _multiplied(emitter: Emitter, value: Value, axis: int, weights: NDArray[np.float32]) -> Value:
    rank = len(shape_of_value(value))
    order = [*(i for i in range(rank) if i != axis), axis]
    last = emitter.transposed(value, order)
    shape = shape_of_value(last)
    rows = emitter.reshaped(last, (prod(shape[:-1]), shape[-1]))
    product = emitter.product(rows, emitter.constant(weights, f"resampling_{axis}"))
    full = emitter.reshaped(product, (*shape[:-1], len(weights)))
    return emitter.transposed(full, [order.index(i) for i in range(rank)])


def _checked(node: Node, scales: Sequence[float], emitter: Emitter) -> tuple[float, ...]:
    shape = emitter.shape(0)
    if len(scales) != len(shape) or any(not 0.0 < s < inf for s in scales):
        raise node.wrong(f"{len(shape)} positive scales expected, got {list(scales)}")
    where = node.string("coordinate_transformation_mode", "half_pixel")
    is_exact = all((n * s).is_integer() for n, s in zip(shape, scales, strict=True))
    if where == Coordinates.ALIGN_CORNERS and not is_exact and not node.has_input(3):
        raise node.unsupported(
            "align_corners with scales that give no integer size, which ONNX and ONNX Runtime "
            f"interpret differently, got {list(scales)}; give sizes instead"
        )
    return tuple(scales)


def _resampled(
    node: Node,
    emitter: Emitter,
    scales: tuple[float, ...],
    sizes: list[int],
    where: Coordinates,
    rounding: Nearest,
) -> Value:
    shape = emitter.shape(0)
    changed = [i for i, s in enumerate(scales) if s != 1.0]
    if not changed:
        return emitter.value(0)
    if (got := node.string("mode", "nearest")) == "cubic":
        return _by_matrices(node, emitter, scales, sizes, Resampling(True, where.value), 0.0)
    kind = RESIZE_MODES[got]
    if len(shape) == 4 and changed in ([1], [1, 2]):
        # The model is in NHWC layout.
        size, factors = (sizes[1], sizes[2]), (scales[1], scales[2])
        return emitter.emit(ResizeOp(kind, emitter.tensor(0), size, factors, where, rounding))
    plain = is_integer(element_of(emitter.tensor(0)))
    if len(shape) not in (3, 4) or changed[0] < 2 or plain:
        if kind is Resize.LINEAR:
            return _by_matrices(node, emitter, scales, sizes, Resampling(False, where.value), 0.0)
        value = emitter.value(0)
        for axis in changed:
            emitter.check_indices(sizes[axis])
            indices = nearest_indices(shape[axis], sizes[axis], scales[axis], where, rounding)
            value = emitter.gathered(value, axis, indices)
        return value
    features = emitter.feature_map(emitter.value(0))
    height = (graph.shape_of(features)[1], 1.0) if len(shape) == 3 else (sizes[2], scales[2])
    op = ResizeOp(kind, features, (height[0], sizes[-1]), (height[1], scales[-1]), where, rounding)
    return emitter.from_feature_map(emitter.emit(op), len(shape))


def _sizes(node: Node, emitter: Emitter, scales: Sequence[float]) -> list[int]:
    # ONNX multiplies in float32.
    pairs = [*zip(emitter.shape(0), scales, strict=True)]
    sizes = [floor(float(np.float32(extent) * np.float32(scale))) for extent, scale in pairs]
    for (extent, scale), size in zip(pairs, sizes, strict=True):
        if not 1 <= size < 1 << 31:
            raise node.wrong(f"scaling {extent} by {scale} gives an extent of {size}")
    return sizes
