"""Build quantized networks: Q/DQ of 4, 8 and 16 bits, blocks, operators on integers."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from generated import spelling as s
from generated.builder import Array, Attributes, Builder, Case, Sampler, Value

INT4, UINT4 = np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)
LIMITS = {
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-32768, 32767),
    "uint16": (0, 65535),
}


@dataclass(frozen=True)
class Format:
    """The storage of a tensor: type, scale and zero point."""

    dtype: np.dtype  # type: ignore[type-arg]
    scale: float
    zero: int


def types(b: Builder) -> list[str]:
    """List the element types that QuantizeLinear supports."""
    return [
        "int8",
        "uint8",
        "int8",
        "uint8",
        *(["int16", "uint16", "int4", "uint4"] if b.opset >= 21 else []),
    ]


def dtype_of(name: str) -> np.dtype:  # type: ignore[type-arg]
    return {"int4": INT4, "uint4": UINT4}.get(name) or np.dtype(name)


def storage(b: Builder, spread: float = 3.0, name: str = "") -> Format:
    """Draw a format for values within about `spread`, which may saturate; scales are often 2^-n."""
    name = name or b.pick(*types(b))
    low, high = LIMITS[name]
    kind = b.size(0, 3)
    if kind == 0 or low == 0:
        # The range is asymmetric, and zero is representable.
        zero = int(np.clip(round(low + (high - low) * b.pick(0.5, 0.25, 0.1, 0.0)), low, high))
    else:
        zero = b.pick(0, 0, low // 3, high // 2)
    scale = spread / max(high - zero, zero - low)
    if kind == 1 or b.chance(0.3):
        scale = 2.0 ** round(np.log2(scale))
    if b.chance(0.2):
        scale /= b.pick(4.0, 10.0)
    return Format(dtype_of(name), float(np.float32(scale)), zero)


def on_grid(form: Format) -> Sampler:
    """Draw values at and between the steps of a format: ties, and values that saturate."""

    def sample(random: np.random.Generator, shape: tuple[int, ...], index: int) -> Array:
        if index == 0:
            return random.normal(size=shape)
        reach = {"int4": 10, "uint4": 20}.get(form.dtype.name, 150)
        steps = random.integers(-2 * reach, 2 * reach, shape) / 2
        if index == 1:
            return steps * form.scale
        return np.where(
            random.random(shape) < 0.2,
            random.choice([1e6, -1e6, 0.0, -0.0], shape),
            steps * form.scale,
        )

    return sample


def operands(b: Builder, form: Format, *, omit: bool = True) -> list[Value]:
    """Add scale and zero point; a zero point of 0 of uint8 may be omitted."""
    scale = b.constant(form.scale)
    if omit and form.zero == 0 and form.dtype == np.uint8 and b.chance(0.3):
        return [scale]
    return [scale, b.constant(form.zero, form.dtype)]


def quantize(b: Builder, x: Value, form: Format) -> Value:
    return b.emit("QuantizeLinear", x, *operands(b, form), shape=x.shape, dtype=form.dtype)


def dequantize(b: Builder, q: Value, form: Format) -> Value:
    return b.emit("DequantizeLinear", q, *operands(b, form), shape=q.shape, dtype=np.float32)


def snapped(b: Builder, x: Value, spread: float = 3.0, name: str = "") -> Value:
    """Append QuantizeLinear and DequantizeLinear, which round the value to the grid."""
    form = storage(b, spread, name)
    return dequantize(b, quantize(b, x, form), form)


def stored_weights(b: Builder, shape: tuple[int, ...], axis: int, fan: int) -> Value:
    """Add weights after DequantizeLinear, with per-tensor, per-channel or per-block scales."""
    real = b.random.normal(0, 1 / np.sqrt(fan), shape)
    names = ["int8", "int8", "uint8"]
    names += ["int4", "uint4", "int4", "int16"] if b.opset >= 21 else []
    name = b.pick(*names)
    low, high = LIMITS[name]
    is_blocked = b.opset >= 21 and len(shape) == 2 and shape[0] % 2 == 0 and b.chance(0.4)
    per_channel = b.opset >= 13 and b.chance(0.6) and not is_blocked
    block = b.pick(2, shape[0] // 2, shape[0]) if is_blocked else 0
    if is_blocked:
        axis = 0
        grouped = real.reshape(shape[0] // block, block, shape[1])
        peak = np.abs(grouped).max(1)
    elif per_channel:
        peak = np.abs(real).max(tuple(i for i in range(len(shape)) if i != axis))
    else:
        peak = np.asarray(np.abs(real).max())
    is_unsigned = low == 0
    zero = np.full(peak.shape, (high + 1) // 2 if is_unsigned else 0)
    if b.chance(0.25):
        zero = zero + b.random.integers(-2, 3, peak.shape)
    scale = (peak / (high // 2 if is_unsigned else high)).astype(np.float32)
    if b.chance(0.3):
        scale = (2.0 ** np.ceil(np.log2(scale))).astype(np.float32)
    spread, shift = scale, zero
    if is_blocked:
        spread, shift = (np.repeat(a, block, 0) for a in (scale, zero))
    elif per_channel:
        spread, shift = (
            a.reshape([-1 if i == axis else 1 for i in range(len(shape))]) for a in (scale, zero)
        )
    steps = np.clip(np.rint(real / spread) + shift, low, high).astype(np.int64)
    dtype = dtype_of(name)
    given = [b.constant(steps.astype(dtype), dtype), b.constant(scale)]
    if b.chance(0.7) or np.any(zero):
        given.append(b.constant(zero.astype(dtype), dtype))
    more: Attributes = {"axis": axis} if is_blocked or per_channel else {}
    if is_blocked:
        more["block_size"] = block
    return b.emit("DequantizeLinear", *given, shape=shape, dtype=np.float32, **more)


def stored_bias(b: Builder, count: int) -> Value:
    """Add a bias: float, or int32 after DequantizeLinear."""
    if b.chance(0.5):
        return b.constant(b.random.normal(0, 0.3, count))
    steps = b.constant(b.random.integers(-3000, 3000, count), np.int32)
    return b.emit(
        "DequantizeLinear",
        steps,
        b.constant(2.0**-12 if b.chance(0.5) else 1.7e-4),
        shape=(count,),
        dtype=np.float32,
    )


def rows(b: Builder) -> Case:
    """Build products, sums, functions and data movement of rows, with each value on a grid."""
    b.since(10)
    form = storage(b)
    x = b.input((b.size(1, 3), b.pick(4, 6, 8)), on_grid(form))
    x = dequantize(b, quantize(b, x, form), form)
    older = x
    for _ in range(b.size(1, 4)):
        kept = x
        x = row_step(b, x, older)
        x = snapped(b, x, b.pick(1.0, 3.0, 8.0))
        older = kept
    return finished(b, x)


def row_step(b: Builder, x: Value, older: Value) -> Value:
    kind = b.size(0, 8)
    if kind <= 2:
        outputs = b.pick(2, 4, 6, 8)
        matrix = stored_weights(b, (x.shape[1], outputs), 1, x.shape[1])
        if kind == 0:
            offset = stored_bias(b, outputs)
            x = b.emit("Gemm", x, matrix, offset, shape=(x.shape[0], outputs))
        else:
            x = b.emit("MatMul", x, matrix, shape=(x.shape[0], outputs))
            if b.chance(0.6):
                x = b.emit("Add", x, stored_bias(b, outputs))
        return b.emit("Relu", x) if b.chance(0.4) else x
    if kind == 3 and older.shape == x.shape:
        return b.emit(b.pick("Add", "Mul", "Sub"), x, older)
    if kind == 4:
        return b.emit(b.pick("Sigmoid", "Tanh", "Exp", "HardSigmoid", "LeakyRelu", "Elu"), x)
    if kind == 5:
        return s.clip(b, x, b.pick(0.0, -0.5), b.pick(1.0, 6.0, 0.3))
    if kind == 6:
        return s.softmax(b, x)
    if kind == 7:
        return s.reduce(b, b.pick("ReduceMean", "ReduceMax", "ReduceSum"), x, 1)
    return (
        b.emit("Concat", x, older, axis=1, shape=(x.shape[0], x.shape[1] + older.shape[1]))
        if (x.shape[0] == older.shape[0])
        else b.emit("Neg", x)
    )


def images(b: Builder) -> Case:
    """Build convolutions, poolings, residuals and averages of small images."""
    b.since(10)
    form = storage(b)
    x = b.input((1, b.pick(1, 2, 4), b.size(4, 7), b.size(4, 7)), on_grid(form))
    x = dequantize(b, quantize(b, x, form), form)
    for _ in range(b.size(1, 3)):
        x = snapped(b, image_step(b, x), b.pick(1.0, 3.0, 6.0))
    if b.chance(0.6):
        pooled = b.emit("GlobalAveragePool", x, shape=(*x.shape[:2], 1, 1))
        x = snapped(b, b.emit("Flatten", pooled, axis=1, shape=x.shape[:2]))
    return finished(b, x)


def image_step(b: Builder, x: Value) -> Value:
    _, channels, height, width = x.shape
    kind = b.size(0, 5)
    if kind <= 2:
        group = channels if b.chance(0.3) else 1
        outputs = channels * b.pick(1, 2) if group > 1 else b.pick(2, 3, 4)
        kernel = b.pick(1, 3)
        fan = channels // group * kernel * kernel
        matrix = stored_weights(b, (outputs, channels // group, kernel, kernel), 0, fan)
        shape = (1, outputs, height, width)
        given = [stored_bias(b, outputs)] if b.chance(0.7) else []
        edge = [kernel // 2] * 4
        made = b.emit("Conv", x, matrix, *given, shape=shape, group=group, pads=edge)
        if b.chance(0.3):
            return b.emit("Relu", made)
        if b.chance(0.3) and made.shape == x.shape:
            return b.emit("Add", made, x)
        return made
    if kind == 3:
        op = b.pick("MaxPool", "AveragePool")
        size = [(e - 2) // 2 + 1 for e in (height, width)]
        return b.emit(op, x, shape=(1, channels, *size), kernel_shape=[2, 2], strides=[2, 2])
    if kind == 4:
        return b.emit(b.pick("Sigmoid", "Tanh", "Softplus", "HardSigmoid"), x)
    return b.emit("Mul", x, b.emit("Sigmoid", x))


def finished(b: Builder, x: Value) -> Case:
    """Output the last value in float, and in some cases also the integers."""
    if b.chance(0.3):
        form = storage(b, name=b.pick("int8", "uint8"))
        b.output(quantize(b, x, form))
    b.output(x)
    return b.case(comes_quantized=True)


def operators(b: Builder) -> Case:
    """Build QLinearConv, QLinearMatMul, ConvInteger, MatMulInteger and DynamicQuantizeLinear."""
    b.since(10)
    names = ("uint8", "int8")
    kind = b.size(0, 4)
    if kind == 0:
        form, other = storage(b, name=b.pick(*names)), storage(b, name=b.pick(*names))
        x = b.input((1, 2, 5, 5), on_grid(form))
        q = quantize(b, x, form)
        weights_dtype = np.dtype(np.int8)
        steps = b.constant(b.random.integers(-100, 101, (3, 2, 3, 3)), weights_dtype)
        scales = b.random.uniform(0.002, 0.01, 3 if b.chance(0.5) else ()).astype(np.float32)
        zero = b.constant(np.zeros(scales.shape), weights_dtype)
        bias = [b.constant(b.random.integers(-2000, 2000, 3), np.int32)] if b.chance(0.7) else []
        q = b.emit(
            "QLinearConv",
            q,
            b.constant(form.scale),
            b.constant(form.zero, form.dtype),
            steps,
            b.constant(scales),
            zero,
            b.constant(other.scale),
            b.constant(other.zero, other.dtype),
            *bias,
            shape=(1, 3, 5, 5),
            dtype=other.dtype,
            pads=[1, 1, 1, 1],
        )
        b.output(q if b.chance(0.5) else dequantize(b, q, other))
        return b.case(comes_quantized=True)
    rows_, inner, outputs = b.size(1, 3), b.pick(4, 8), b.size(2, 5)
    if kind == 1:
        form, other = storage(b, name=b.pick(*names)), storage(b, name=b.pick(*names))
        q = quantize(b, b.input((rows_, inner), on_grid(form)), form)
        steps = b.constant(b.random.integers(-100, 101, (inner, outputs)), np.int8)
        q = b.emit(
            "QLinearMatMul",
            q,
            b.constant(form.scale),
            b.constant(form.zero, form.dtype),
            steps,
            b.constant(0.007),
            b.constant(b.pick(0, 3), np.int8),
            b.constant(other.scale),
            b.constant(other.zero, other.dtype),
            shape=(rows_, outputs),
            dtype=other.dtype,
        )
        b.output(q if b.chance(0.5) else dequantize(b, q, other))
        return b.case(comes_quantized=True)
    form = storage(b, name="uint8")
    x = b.input((rows_, inner), on_grid(form))
    if kind == 2 or b.opset < 11:
        q = quantize(b, x, form)
        zero = b.constant(form.zero, form.dtype)
        factor: Value = b.constant(form.scale * 0.01)
    else:
        # quantize_dynamic writes this form.
        q, scale, zero = b.emit_all(
            "DynamicQuantizeLinear", [x], [(x.shape, np.uint8), ((), np.float32), ((), np.uint8)]
        )
        factor = b.emit("Mul", scale, b.constant(0.01))
    steps = b.constant(b.random.integers(-100, 101, (inner, outputs)), np.int8)
    product = b.emit(
        "MatMulInteger",
        q,
        steps,
        zero,
        *([b.constant(b.pick(0, 2), np.int8)] if b.chance(0.5) else []),
        shape=(rows_, outputs),
        dtype=np.int32,
    )
    real = b.emit("Mul", s.cast(b, product, np.float32), factor)
    if b.chance(0.5):
        real = b.emit("Add", real, b.constant(b.random.normal(0, 0.3, outputs)))
    b.output(b.emit("Relu", real) if b.chance(0.5) else real)
    if b.chance(0.3):
        b.output(product)
    return b.case(comes_quantized=True)
