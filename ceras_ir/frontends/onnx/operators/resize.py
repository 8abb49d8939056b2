"""Resampling of height and width: Resize of opset 10 and later, and Upsample before it."""

from math import floor, inf

import numpy as np

from ceras_ir.dialects.graph import Coordinates, Nearest, Resize, ResizeOp, shape_of
from ceras_ir.frontends.onnx.emitter import Emitter
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import operator, rule
from ceras_ir.frontends.onnx.values import Value

MODES = {"nearest": Resize.NEAREST, "linear": Resize.LINEAR, "bilinear": Resize.LINEAR}


@rule("Resize", "Upsample")
def mode(node: Node) -> str | None:
    """mode must be nearest or linear"""
    got = node.string("mode", "nearest")
    return None if got in MODES else f"got '{got}'; export with mode='linear'"


@rule("Resize")
def coordinates(node: Node) -> str | None:
    """coordinates must be half_pixel, pytorch_half_pixel, align_corners or asymmetric"""
    got = node.string("coordinate_transformation_mode", "half_pixel")
    return None if got in set(Coordinates) else f"got '{got}'; export with half_pixel"


@rule("Resize")
def plain_sampling(node: Node) -> str | None:
    """neither antialias nor an aspect ratio policy can be used"""
    if node.flag("antialias"):
        return "antialias is 1; pool before resizing"
    policy = node.string("keep_aspect_ratio_policy", "stretch")
    return None if policy == "stretch" else f"the policy is '{policy}'; give scales"


@rule("Resize", "Upsample")
def constant_size(node: Node) -> str | None:
    """scales and sizes must be constants"""
    for i in range(2 if node.opset >= 11 else 1, 4):
        if node.has_input(i) and not node.is_constant(i):
            return f"'{node.inputs[i]}' is computed; export with fixed sizes"
    return None


@operator("Upsample")
def upsample(node: Node, emitter: Emitter) -> Value:
    """Scales are an attribute before opset 9."""
    if node.opset < 9:
        scales = node.numbers("scales") or ()
    else:
        scales = tuple(float(s) for s in emitter.floats(1).reshape(-1))
    return _resampled(
        node, emitter, _checked(node, scales, emitter), None, Coordinates.ASYMMETRIC, Nearest.FLOOR
    )


@operator("Resize")
def resize(node: Node, emitter: Emitter) -> Value:
    """`scales` or `sizes`, for all dimensions or those in `axes`."""
    node.ignore("cubic_coeff_a", "exclude_outside", "extrapolation_value")  # Of other modes.
    if node.opset < 11:
        scales = tuple(float(s) for s in emitter.floats(1).reshape(-1))
        return _resampled(
            node, emitter, _checked(node, scales, emitter), None,
            Coordinates.ASYMMETRIC, Nearest.FLOOR,
        )  # fmt: skip
    rank = len(emitter.shape(0))
    axes = node.integers("axes")
    dims = list(range(rank)) if axes is None else [node.axis(a, rank, "axes") for a in axes]
    scales, sizes = [1.0] * rank, list(emitter.shape(0))
    has_scales = node.has_input(2) and emitter.shape(2) != (0,)
    has_sizes = node.has_input(3) and emitter.shape(3) != (0,)
    if has_scales == has_sizes:
        raise node.wrong("either scales or sizes expected")
    given = (
        [float(s) for s in emitter.floats(2).reshape(-1)]
        if has_scales
        else [float(s) for s in emitter.integers(3)]
    )
    if len(given) != len(dims):
        raise node.wrong(f"{len(dims)} scales or sizes expected, got {len(given)}")
    for i, value in zip(dims, given, strict=True):
        scales[i] = value if has_scales else value / sizes[i]
        sizes[i] = sizes[i] if has_scales else int(value)
    rounding = node.string("nearest_mode", Nearest.ROUND_PREFER_FLOOR.value)
    if rounding not in set(Nearest):
        raise node.wrong(f"attribute 'nearest_mode' must be one of {', '.join(Nearest)}")
    where = node.string("coordinate_transformation_mode", "half_pixel")
    return _resampled(
        node,
        emitter,
        _checked(node, scales, emitter),
        sizes if has_sizes else None,
        Coordinates(where),
        Nearest(rounding),
    )


def _checked(
    node: Node, scales: list[float] | tuple[float, ...], emitter: Emitter
) -> tuple[float, ...]:
    rank = len(emitter.shape(0))
    if len(scales) != rank or any(not 0.0 < s < inf for s in scales):
        raise node.wrong(f"{rank} positive scales expected, got {list(scales)}")
    return tuple(scales)


def _resampled(
    node: Node,
    emitter: Emitter,
    scales: tuple[float, ...],
    sizes: list[int] | None,
    where: Coordinates,
    rounding: Nearest,
) -> Value:
    shape = emitter.shape(0)
    whole = True
    if sizes is None:
        whole = all((n * s).is_integer() for n, s in zip(shape, scales, strict=True))
        sizes = [_extent(node, n, s) for n, s in zip(shape, scales, strict=True)]
    changed = [i for i, s in enumerate(scales) if s != 1.0]
    if not changed:
        return emitter.value(0)
    if where is Coordinates.ALIGN_CORNERS and not whole:
        raise node.unsupported(
            "align_corners with scales whose product with the input is not whole, "
            f"got {list(scales)}; give sizes instead"
        )
    kind = MODES[node.string("mode", "nearest")]
    if len(shape) == 4 and changed in ([1], [1, 2]):
        # Height and width come first: the model is NHWC already.
        size, factors = (sizes[1], sizes[2]), (scales[1], scales[2])
        return emitter.emit(ResizeOp(kind, emitter.tensor(0), size, factors, where, rounding))
    if len(shape) not in (3, 4) or changed[0] < 2:
        raise node.unsupported(
            f"only height and width can change, got scales {list(scales)}; "
            "resize other dimensions by Reshape and Transpose"
        )
    features = emitter.feature_map(emitter.value(0))
    height = (shape_of(features)[1], 1.0) if len(shape) == 3 else (sizes[2], scales[2])
    op = ResizeOp(kind, features, (height[0], sizes[-1]), (height[1], scales[-1]), where, rounding)
    return emitter.from_feature_map(emitter.emit(op), len(shape))


def _extent(node: Node, extent: int, scale: float) -> int:
    # ONNX multiplies in float32.
    result = floor(float(np.float32(extent) * np.float32(scale)))
    if not 1 <= result < 1 << 31:
        raise node.wrong(f"scaling {extent} by {scale} gives an extent of {result}")
    return result
