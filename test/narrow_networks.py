"""
Draw seeded networks with weights of 1 to 8 bits, and compute their results: `narrow_network(seed)`.
With `ties`, scales are powers of two, and most values have 2 to 4 bits: sums are ties often.

A network is a chain of convolutions of all kinds, poolings and sums, or of matrix products. It is
written with `Quant` and `BipolarQuant` of QONNX, with DequantizeLinear (INT2, INT4, or Clip, as
Brevitas exports it), or in float, with the widths as options. `NarrowNetwork.run` evaluates it in
float64 with the formulas of the operators, and shares no code with the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper
from onnx_models import Array, Attribute, model, node

Real: TypeAlias = npt.NDArray[np.float64]
Form: TypeAlias = Literal["qonnx", "qdq", "float"]
FORMS: Sequence[Form] = ("qonnx", "qdq", "float")

QONNX = "qonnx.custom_op.general"
MAX_CHANNELS, MAX_SIZE = 20, 10
NEAR = 5e-5
"""The distance to the bound of a rounding, in steps, below which float32 can round differently."""
MAX_DRAWS = 10
"""The number of inputs that are drawn for a certain result."""

ROUNDINGS: Mapping[str, Callable[[Real], Real]] = {
    "ROUND": np.rint,
    "HALF_UP": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "UP": lambda x: np.floor(x + 0.5),
}
"""The rounding modes of QONNX, of which HALF_UP is away from zero; UP adds a half."""


@dataclass(frozen=True)
class Grid:
    """The integers of a tensor, with a scale and a zero point, or one for each channel."""

    bits: int
    signed: bool
    narrow: bool
    scale: npt.NDArray[np.float32]
    point: npt.NDArray[np.int64]
    bipolar: bool = False
    rounding: str = "ROUND"

    @property
    def low(self) -> int:
        if self.bipolar:
            return -1
        return -(1 << self.bits - 1) + self.narrow if self.signed else 0

    @property
    def high(self) -> int:
        if self.bipolar:
            return 1
        return (1 << self.bits - 1) - 1 if self.signed else (1 << self.bits) - 1 - self.narrow

    def integers(self, real: Real) -> Real:
        if self.bipolar:
            return np.where(real >= 0, 1.0, -1.0)
        steps = ROUNDINGS[self.rounding](real / self.scale.astype(np.float64)) + self.point
        return np.clip(steps, self.low, self.high)

    def real(self, integers: Real) -> Real:
        return (integers - self.point) * self.scale.astype(np.float64)

    def is_unsure(self, real: Real) -> npt.NDArray[np.bool_]:
        """Return for each element whether a last bit can change the integer."""
        if self.bipolar:
            return np.abs(real) < NEAR * self.scale
        steps = real / self.scale.astype(np.float64)
        inside = (steps + self.point > self.low - 1) & (steps + self.point < self.high + 1)
        edge = 0.5 if self.rounding in ("ROUND", "HALF_UP") else 0.0
        return inside & (np.abs(steps - edge - np.rint(steps - edge)) < NEAR)

    def is_power(self) -> bool:
        return bool((np.frexp(self.scale)[0] == 0.5).all())


Values: TypeAlias = dict[str, Real]
Formula: TypeAlias = Callable[[Values], Real]


@dataclass(frozen=True)
class Step:
    """A value, the formula, and for a quantization the operand and the integers."""

    name: str
    formula: Formula
    operand: str = ""
    grid: Grid | None = None


class Unsure(Exception):
    """The error that a result depends on the order of float sums."""


@dataclass
class NarrowNetwork:
    """A model, the formulas of its values, and the quantized weights."""

    form: Form
    model: onnx.ModelProto
    steps: list[Step]
    constants: Values
    output: str
    shape: tuple[int, ...]
    is_exact: bool
    """Whether sums and scales are exact in float32, so that ties are equal in all evaluations."""
    is_plain: bool
    """Whether each sum of products is requantized directly, with a bias in its unit."""
    weight_bits: dict[str, int]
    """The bits of weights that the options of a network in float request, by node."""
    last: Grid | None
    """The integers of the output."""

    def run(
        self, x: Array, constants: Mapping[str, Real] | None = None, *, halves_up: bool = False
    ) -> Real:
        """
        Return the output; raise Unsure if an integer is uncertain. With `halves_up`, computed
        integers of 8 bits after QuantizeLinear are rounded half up, as by requantizations of sums.
        """
        halves_up = halves_up and self.form == "qdq"
        values: Values = {**self.constants, **(constants or {}), "x": x.astype(np.float64)}
        for step in self.steps:
            grid = None if self.is_exact else step.grid
            if grid is not None and grid.is_unsure(values[step.operand]).any():
                raise Unsure
            values[step.name] = step.formula(values)
            grid = step.grid
            if halves_up and grid is not None and grid.bits == 8 and step.operand != "x":
                grid = replace(grid, rounding="UP")
                values[step.name] = grid.real(grid.integers(values[step.operand]))
        return values[self.output]

    def count_ties(self, x: Array) -> int:
        """Return the number of computed values that are ties between integers of their type."""
        values: Values = {**self.constants, "x": x.astype(np.float64)}
        count = 0
        for step in self.steps:
            values[step.name] = step.formula(values)
            if step.grid is None or step.operand == "x" or step.grid.bipolar:
                continue
            steps = values[step.operand] / step.grid.scale.astype(np.float64) + step.grid.point
            inside = (steps > step.grid.low) & (steps < step.grid.high)
            count += int(np.count_nonzero(inside & (steps - np.floor(steps) == 0.5)))
        return count

    def stacked(self, samples: Sequence[Array]) -> Array:
        """Return samples as an array for the commands."""
        return np.concatenate(samples) if self.shape[0] == 1 else np.stack(samples)

    def samples(self, seed: int, count: int) -> list[npt.NDArray[np.float32]]:
        """Draw inputs with a certain result, at most `count`."""
        found: list[npt.NDArray[np.float32]] = []
        for part in range(MAX_DRAWS * count):
            rng = np.random.default_rng([seed, part])
            x = (rng.normal(size=self.shape) * rng.choice([0.5, 1.5])).astype(np.float32)
            try:
                self.run(x)
            except Unsure:
                continue
            found.append(x)
            if len(found) == count:
                break
        return found


def convolve(
    x: Real, w: Real, stride: int, dilation: int, pads: Sequence[int], groups: int
) -> Real:
    """Return the convolution of NCHW values with weights of [outputs, inputs of a group, h, w]."""
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    n, c, h, width = x.shape
    outputs, _, kh, kw = w.shape
    rows, columns = ((s - dilation * (k - 1) - 1) // stride + 1 for s, k in ((h, kh), (width, kw)))
    result = np.zeros((n, groups, outputs // groups, rows, columns))
    for i in range(kh):
        for j in range(kw):
            part = x[:, :, i * dilation :, j * dilation :]
            part = part[:, :, : stride * (rows - 1) + 1 : stride]
            part = part[..., : stride * (columns - 1) + 1 : stride]
            part = part.reshape(n, groups, c // groups, rows, columns)
            taps = w[:, :, i, j].reshape(groups, outputs // groups, c // groups)
            result += np.einsum("ngchw,gkc->ngkhw", part, taps)
    return result.reshape(n, outputs, rows, columns)


def spread(x: Real, w: Real, stride: int, pad: int) -> Real:
    """Return the transposed convolution with weights of [inputs, outputs, h, w]."""
    n, _, h, width = x.shape
    _, outputs, kh, kw = w.shape
    result = np.zeros((n, outputs, stride * (h - 1) + kh, stride * (width - 1) + kw))
    for i in range(kh):
        for j in range(kw):
            rows = slice(i, i + stride * (h - 1) + 1, stride)
            columns = slice(j, j + stride * (width - 1) + 1, stride)
            result[:, :, rows, columns] += np.einsum("nchw,ck->nkhw", x, w[:, :, i, j])
    end = result.shape[2] - pad, result.shape[3] - pad
    return result[:, :, pad : end[0], pad : end[1]]


@dataclass
class _Drawn:
    """The network so far."""

    form: Form
    rng: np.random.Generator
    powers: bool
    """Whether all scales are powers of two."""
    sample: Real
    ties: bool = False
    """Whether values and weights have few bits, and all are rounded half to even."""
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    tensors: dict[str, npt.ArrayLike] = field(default_factory=dict[str, npt.ArrayLike])
    constants: Values = field(default_factory=dict[str, Real])
    steps: list[Step] = field(default_factory=list[Step])
    values: Values = field(default_factory=dict[str, Real])
    grids: dict[str, Grid] = field(default_factory=dict[str, Grid])
    weight_bits: dict[str, int] = field(default_factory=dict[str, int])
    is_exact: bool = True
    is_plain: bool = True
    opset: int = 13

    def pick(self, *choices: int) -> int:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def tensor(self, array: npt.ArrayLike) -> str:
        name = f"k{len(self.tensors)}"
        self.tensors[name] = array
        return name

    def add(self, op: str, operands: str, formula: Formula, **attributes: Attribute) -> str:
        """Append a node and the formula of its result, which has the name of the node."""
        name = f"v{len(self.nodes)}"
        made = node(op, operands, name, name, **attributes)
        made.domain = QONNX if op in ("Quant", "BipolarQuant") else ""
        self.nodes.append(made)
        self.step(Step(name, formula))
        return name

    def step(self, step: Step) -> None:
        self.steps.append(step)
        self.values[step.name] = step.formula({**self.constants, **self.values})

    def scale_of(self, real: float) -> float:
        """Round a scale to float32, or to a power of two."""
        return float(2.0 ** np.rint(np.log2(real)) if self.powers else np.float32(real))

    # Quantized tensors.

    def quantizer(self, value: str, grid: Grid) -> str:
        """Append the quantization of `value` to `grid`, and the dequantization."""
        name = self._quantizer_nodes(value, grid)
        self.step(Step(name, lambda v: grid.real(grid.integers(v[value])), value, grid))
        self.grids[name] = grid
        return name

    def _quantizer_nodes(self, value: str, grid: Grid) -> str:
        name, scale = f"q{len(self.nodes)}", self.tensor(grid.scale)
        if self.form == "qonnx":
            if grid.bipolar:
                made = node("BipolarQuant", f"{value} {scale}", name)
            else:
                point = self.tensor(np.asarray(grid.point, np.float32))
                bits = self.tensor(np.float32(grid.bits))
                made = node(
                    "Quant",
                    f"{value} {scale} {point} {bits}",
                    name,
                    signed=int(grid.signed),
                    narrow=int(grid.narrow),
                    rounding_mode=grid.rounding,
                )
            made.domain = QONNX
            self.nodes.append(made)
            return name
        dtype = np.dtype(np.int8 if grid.signed else np.uint8)
        if is_packed := grid.bits in (2, 4) and not grid.narrow and self.chance(0.5):
            dtype = self.packed_type(grid)
        point = self.tensor(grid.point.astype(dtype))
        self.nodes.append(node("QuantizeLinear", f"{value} {scale} {point}", f"{name}i"))
        stored = f"{name}i"
        if not is_packed and (grid.bits < 8 or grid.narrow):
            ends = (self.tensor(np.asarray(end, dtype)) for end in (grid.low, grid.high))
            self.nodes.append(node("Clip", f"{stored} {' '.join(ends)}", f"{name}c"))
            stored = f"{name}c"
        self.nodes.append(node("DequantizeLinear", f"{stored} {scale} {point}", name))
        return name

    def packed_type(self, grid: Grid) -> np.dtype[Any]:
        """Return INT2, UINT2, INT4 or UINT4, and use an operator set with this type."""
        self.opset = max(self.opset, 21 if grid.bits == 4 else 25)
        return np.dtype(getattr(ml_dtypes, f"{'' if grid.signed else 'u'}int{grid.bits}"))

    def grid(self, real: Real) -> Grid:
        """Draw integers of an activation with values like `real`."""
        signed = bool(real.min() < 0) or self.chance(0.2)
        bits = self.pick(2, 3, 4, 4, 8) if self.ties else self.pick(8, 8, 8, 8, *range(2, 8))
        if self.form == "qonnx" and self.chance(0.05):
            scale = self.scale_of(float(np.abs(real).mean()) + 1e-3)
            return Grid(1, True, False, np.asarray(scale, np.float32), np.asarray(0), bipolar=True)
        made = Grid(bits, signed, self.chance(0.2), np.asarray(1, np.float32), np.asarray(0))
        if self.chance(0.3) and made.high - made.low > 2:
            point = int(self.rng.integers(made.low, made.high))
            if self.form == "qonnx":
                # The import rounds before it adds the zero point, so an odd one decides ties.
                point -= point % 2
                point = max(point, made.low + made.low % 2)
            made = replace(made, point=np.asarray(max(point, made.low)))
        room = max(made.high - int(made.point), 1)
        scale = self.scale_of((float(np.abs(real).max()) + 1e-3) / room * self.rng.uniform(0.5, 1))
        rounding = "ROUND"
        if self.form == "qonnx" and not self.ties and self.chance(0.15):
            modes = ["FLOOR", "CEIL", *(["HALF_UP"] if not made.point else [])]
            rounding = modes[int(self.rng.integers(len(modes)))]
            self.is_plain = False
        return replace(made, scale=np.asarray(scale, np.float32), rounding=rounding)

    def weights(self, shape: tuple[int, ...], axis: int) -> str:
        """Append constant weights, and return the name of their real values."""
        rng, fan = self.rng, int(np.prod(shape)) // shape[axis]
        name = f"w{len(self.nodes)}"
        if self.form == "float":
            real = (rng.normal(size=shape) / np.sqrt(fan)).astype(np.float32)
            self.tensors[name] = real
            self.constants[name] = real.astype(np.float64)
            return name
        bits = int(rng.integers(1, 5 if self.ties else 9))
        bipolar = self.form == "qonnx" and bits == 1 and self.chance(0.7)
        signed = bits > 1 and self.chance(0.7)
        channels = [-1 if i == axis else 1 for i in range(len(shape))]
        count = shape[axis] if self.chance(0.5) else 1
        draft = Grid(
            bits, signed, bits > 1 and self.chance(0.5), np.asarray(1.0, np.float32),
            np.asarray(0), bipolar,
        )  # fmt: skip
        points = np.zeros(count, np.int64)
        if not signed and not bipolar:
            # The middle, or any integer; for DequantizeLinear one for each channel, too.
            points[:] = 1 << bits - 1 if bits > 1 else self.pick(0, 1)
            if self.chance(0.3):
                points[:] = rng.integers(0, draft.high + 1, 1 if self.chance(0.5) else count)
        magnitude = max(abs(draft.high - int(points[0])), abs(draft.low - int(points[0])), 1)
        factors = rng.uniform(0.7, 1.3, count) * 2 / np.sqrt(fan) / magnitude
        scales = np.array([self.scale_of(f) for f in factors], np.float32)
        # Some formats have a scale for each channel, and a single zero point.
        is_spread = count > 1
        grid = replace(
            draft,
            scale=scales.reshape(channels) if is_spread else scales.reshape(()),
            point=points.reshape(channels) if is_spread else points.reshape(()),
        )
        integers = rng.integers(grid.low, grid.high + 1, shape)
        if bipolar:
            integers = rng.choice([-1, 1], shape)
        self.constants[name] = grid.real(integers.astype(np.float64))
        self.grids[name] = grid
        self._weight_nodes(name, grid, integers, axis)
        return name

    def _weight_nodes(
        self, name: str, grid: Grid, integers: npt.NDArray[np.int64], axis: int
    ) -> None:
        if self.form == "qonnx":
            source = self.tensor(self.constants[name].astype(np.float32))
            scale = self.tensor(grid.scale)
            if grid.bipolar:
                made = node("BipolarQuant", f"{source} {scale}", name)
            else:
                others = np.asarray(grid.point, np.float32), np.float32(grid.bits)
                point, bits = map(self.tensor, others)
                made = node(
                    "Quant", f"{source} {scale} {point} {bits}", name,
                    signed=int(grid.signed), narrow=int(grid.narrow), rounding_mode="ROUND",
                )  # fmt: skip
            made.domain = QONNX
            self.nodes.append(made)
            return
        dtype = np.dtype(np.int8 if grid.signed else np.uint8)
        is_packed = grid.bits in (2, 4) and self.chance(0.6)
        if is_packed:
            dtype = self.packed_type(grid)
        elif self.chance(0.3):
            # Exporters also store integers outside the bounds.
            limits = np.iinfo(dtype.name)
            wild = self.rng.integers(limits.min, limits.max, integers.shape, endpoint=True)
            integers = np.where(integers == grid.high, np.maximum(wild, grid.high), integers)
        stored = self.tensor(integers.astype(dtype))
        if not is_packed and grid.bits < 8:
            ends = (self.tensor(np.asarray(end, dtype)) for end in (grid.low, grid.high))
            self.nodes.append(node("Clip", f"{stored} {' '.join(ends)}", f"{name}c"))
            stored = f"{name}c"
        scale = self.tensor(grid.scale.reshape(-1) if grid.scale.size > 1 else grid.scale)
        point = self.tensor(grid.point.reshape(-1 if grid.scale.size > 1 else ()).astype(dtype))
        more: dict[str, Attribute] = {"axis": axis} if grid.scale.size > 1 else {}
        self.nodes.append(node("DequantizeLinear", f"{stored} {scale} {point}", name, **more))

    def bias(self, count: int, x: str, w: str) -> str:
        """Append a bias: integers in the unit of the products, or floats."""
        name = f"b{len(self.nodes)}"
        if self.form == "float" or (not self.ties and self.chance(0.1)):
            real = self.rng.normal(0, 0.3, count).astype(np.float32)
            self.tensors[name], self.constants[name] = real, real.astype(np.float64)
            self.is_plain = self.is_exact = False
            return name
        unit = (self.grids[x].scale * self.grids[w].scale.reshape(-1)).astype(np.float32)
        integers = np.rint(self.rng.normal(0, 0.3, count) / unit).astype(np.int32)
        real = (integers * unit).astype(np.float32)
        # A bias that is rounded to float32 has an error in the unit of the products.
        self.constants[name] = real.astype(np.float64)
        if not self.powers and self.chance(0.5):
            self.tensors[name] = real
            return name
        scale = self.tensor(unit if unit.size > 1 else unit.reshape(()))
        if self.form == "qonnx":
            zero, bits = self.tensor(np.float32(0)), self.tensor(np.float32(32))
            made = node(
                "Quant", f"{self.tensor(real)} {scale} {zero} {bits}", name,
                signed=1, narrow=0, rounding_mode="ROUND",
            )  # fmt: skip
            made.domain = QONNX
        else:
            more: dict[str, Attribute] = {"axis": 0} if unit.size > 1 else {}
            made = node("DequantizeLinear", f"{self.tensor(integers)} {scale}", name, **more)
        self.nodes.append(made)
        return name

    def linear(
        self, op: str, x: str, w: str, formula: Callable[[Real, Real], Real], channels: int,
        **attributes: Attribute,
    ) -> str:  # fmt: skip
        """Append a layer with an optional bias along dimension 1, or the last of a product."""
        operands, b = f"{x} {w}", ""
        if op != "MatMul" and self.chance(0.6):
            b = self.bias(channels, x, w)
            operands += f" {b}"

        def computed(v: Values) -> Real:
            made = formula(v[x], v[w])
            if not b:
                return made
            return made + v[b].reshape([1, -1, *[1] * (made.ndim - 2)])

        name = self.add(op, operands, computed, **attributes)
        if self.form == "float" and self.chance(0.7):
            self.weight_bits[name] = int(self.rng.integers(2, 8))
        return name

    def activate(self, x: str) -> str:
        """Append an activation function and the quantization of its result."""
        # Two layers of floats without a function between them can become a single layer.
        if self.form == "float" or self.chance(0.5):
            source = x
            x = self.add("Relu", x, lambda v: np.maximum(v[source], 0))
        return x if self.form == "float" else self.quantizer(x, self.grid(self.values[x]))


def _convolution(net: _Drawn, x: str) -> str | None:
    _, channels, height, width = net.values[x].shape
    kind = net.pick(0, 0, 0, 1, 1, 2, 3)
    kernel = net.pick(1, 3, 3), net.pick(1, 3, 3)
    if net.chance(0.6):
        kernel = (kernel[0], kernel[0])
    stride, dilation, outputs = net.pick(1, 1, 2), net.pick(1, 1, 1, 2), net.pick(*range(1, 21))
    if kind == 3:
        pad = net.pick(0, min(kernel) // 2)
        sizes = [
            stride * (s - 1) + k - 2 * pad for s, k in zip((height, width), kernel, strict=True)
        ]
        if min(sizes) < 1 or max(sizes) > MAX_SIZE:
            return None
        w = net.weights((channels, outputs, *kernel), 1)
        return net.linear(
            "ConvTranspose", x, w, lambda a, b: spread(a, b, stride, pad), outputs,
            strides=[stride] * 2, pads=[pad] * 4,
        )  # fmt: skip
    groups = {1: channels, 2: 2}.get(kind, 1)
    if channels % groups:
        return None
    if groups > 1:
        outputs = groups * net.pick(1, 1, 2, 3)
    pads = [net.pick(*range(dilation * (k - 1) // 2 + 1)) for k in (*kernel, *kernel)]
    ends = [
        s + pads[i] + pads[i + 2] - dilation * (kernel[i] - 1)
        for i, s in enumerate((height, width))
    ]
    if min(ends) < 1 or outputs > 2 * MAX_CHANNELS:
        return None
    w = net.weights((outputs, channels // groups, *kernel), 0)
    return net.linear(
        "Conv", x, w, lambda a, b: convolve(a, b, stride, dilation, pads, groups), outputs,
        strides=[stride] * 2, dilations=[dilation] * 2, pads=pads, group=groups,
    )  # fmt: skip


def _pooled(net: _Drawn, x: str) -> str | None:
    size = min(net.values[x].shape[2:])
    if size < 2:
        return None

    def windows(v: Values) -> Real:
        a = v[x][:, :, : v[x].shape[2] // 2 * 2, : v[x].shape[3] // 2 * 2]
        n, c, h, w = a.shape
        return a.reshape(n, c, h // 2, 2, w // 2, 2)

    more: dict[str, Attribute] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    net.is_plain = False
    if net.chance(0.6):
        return net.add("MaxPool", x, lambda v: windows(v).max((3, 5)), **more)
    return net.add("AveragePool", x, lambda v: windows(v).mean((3, 5)), **more)


def _sum(net: _Drawn, a: str, b: str) -> str:
    return net.add("Add", f"{a} {b}", lambda v: v[a] + v[b])


def _map_network(net: _Drawn, x: str) -> str:
    older: list[str] = []
    for _ in range(net.pick(1, 2, 3, 4)):
        made = None
        while made is None:
            made = _pooled(net, x) if net.chance(0.15) else _convolution(net, x)
        same = [o for o in older if net.values[o].shape == net.values[made].shape]
        if same and net.chance(0.7):
            net.is_plain = False
            made = _sum(net, made, same[net.pick(*range(len(same)))])
        older.append(x)
        x = net.activate(made)
    if net.chance(0.4):
        if net.form == "float":
            # Flatten of one pixel: the compiler permutes no columns of weights.
            last = x
            x = net.add("GlobalAveragePool", x, lambda v: v[last].mean((2, 3), keepdims=True))
        source, count = x, int(np.prod(net.values[x].shape[1:]))
        x = net.add("Flatten", source, lambda v: v[source].reshape(1, -1))
        if source in net.grids:
            net.grids[x] = net.grids[source]
        outputs = net.pick(*range(1, 20))
        transposed = net.chance(0.5)
        w = net.weights((outputs, count) if transposed else (count, outputs), not transposed)

        def product(a: Real, b: Real) -> Real:
            return a @ (b.T if transposed else b)

        x = net.activate(net.linear("Gemm", x, w, product, outputs, transB=int(transposed)))
    return x


def _row_network(net: _Drawn, x: str) -> str:
    for _ in range(net.pick(1, 2, 3)):
        inputs, outputs = net.values[x].shape[-1], net.pick(*range(1, 70))
        w = net.weights((inputs, outputs), 1)
        op = "Gemm" if net.values[x].ndim == 2 and net.chance(0.6) else "MatMul"
        x = net.activate(net.linear(op, x, w, np.matmul, outputs))
    return x


def narrow_network(seed: int, *, ties: bool = False) -> NarrowNetwork:
    """Return the network of a seed. The form alternates (`FORMS`); with `ties`, it is QONNX."""
    rng = np.random.default_rng(seed)
    form = "qonnx" if ties else FORMS[seed % len(FORMS)]
    is_map = rng.random() < 0.7
    shape = (1, *(int(v) for v in rng.integers((1, 3, 3), (9, 9, 9))))
    if not is_map:
        shape = (int(rng.integers(1, 6)), int(rng.integers(1, 150)))
    sample = rng.normal(size=shape)
    powers = ties or bool(rng.random() < 0.5)
    net = _Drawn(form, rng, powers, sample, ties, is_exact=form != "float")
    net.is_exact = net.is_exact and net.powers
    x = "x"
    net.values[x] = sample
    if form != "float":
        x = net.quantizer(x, net.grid(sample))
    x = (_map_network if is_map else _row_network)(net, x)
    proto = model(
        net.nodes,
        {"x": shape},
        [x],
        net.tensors,
        opset=net.opset,
        infer=form != "qonnx",
        domains={QONNX: 1} if form == "qonnx" else None,
    )
    result = helper.make_tensor_value_info(x, onnx.TensorProto.FLOAT, net.values[x].shape)
    proto.graph.output[0].CopyFrom(result)
    return NarrowNetwork(
        form, proto, net.steps, net.constants, x, shape, net.is_exact, net.is_plain,
        net.weight_bits, net.grids.get(x),
    )  # fmt: skip
