"""
Build YOLOX-s and YOLOX-Nano, detectors with three scales that are concatenated, with random
weights.
"""

from pathlib import Path

import numpy as np
from networks import Builder, save
from onnx import helper, numpy_helper


class _Detector(Builder):
    """
    The parts of YOLOX. All values have a name and channels, which are those of YOLOX-s. If `nano`,
    layers have half of the channels, and larger windows are a depthwise and a pointwise layer.
    """

    def __init__(self, seed: int, *, nano: bool) -> None:
        super().__init__(seed)
        self.nano = nano

    def width(self, channels: int) -> int:
        return channels // 2 if self.nano else channels

    def unit(self, x: str, name: str, i: int, o: int, kernel: int = 1, stride: int = 1) -> str:
        """Append convolution, batch norm and SiLU."""
        i, o = self.width(i), self.width(o)
        if self.nano and kernel > 1:
            y = self.conv(x, f"{name}.depthwise", i, i, kernel, stride, i)
            return self.silu(self.conv(self.silu(y, f"{name}.depthwise"), name, i, o, 1), name)
        return self.silu(self.conv(x, name, i, o, kernel, stride), name)

    def silu(self, y: str, name: str) -> str:
        return self.node("Mul", f"{name}.silu", [y, self.node("Sigmoid", f"{name}.sigmoid", [y])])

    def join(self, name: str, values: list[str]) -> str:
        return self.node("Concat", name, values, axis=1)

    def csp(self, x: str, name: str, i: int, o: int, count: int, *, shortcut: bool = True) -> str:
        """Append two halves; one of them passes through bottlenecks."""
        half = o // 2
        y, other = self.unit(x, f"{name}.1", i, half), self.unit(x, f"{name}.2", i, half)
        for n in range(count):
            inner = self.unit(y, f"{name}.m{n}.1", half, half)
            inner = self.unit(inner, f"{name}.m{n}.2", half, half, 3)
            y = self.node("Add", f"{name}.m{n}.add", [inner, y]) if shortcut else inner
        return self.unit(self.join(f"{name}.cat", [y, other]), f"{name}.3", 2 * half, o)

    def upsampled(self, x: str, name: str) -> str:
        scales = self.constant(f"{name}.scales", np.array([1, 1, 2, 2], np.float32))
        node = helper.make_node("Resize", [x, "", scales], [name], name, mode="nearest")
        self.nodes.append(node)
        return name

    def head(self, x: str, name: str, i: int, width: int, classes: int) -> str:
        """Append boxes, objectness and classes of a scale."""
        stem = self.unit(x, f"{name}.stem", i, width)
        sides: dict[str, str] = {}
        for side in ("cls", "reg"):
            y = self.unit(stem, f"{name}.{side}.0", width, width, 3)
            sides[side] = self.unit(y, f"{name}.{side}.1", width, width, 3)
        ends: list[str] = []
        width = self.width(width)
        for end, side, o in (("box", "reg", 4), ("obj", "reg", 1), ("class", "cls", classes)):
            weights = self.rng.standard_normal((o, width, 1, 1)) * width**-0.5
            y = self.node(
                "Conv",
                f"{name}.{end}",
                [sides[side], self.constant(f"{name}.{end}.weight", weights)],
                kernel_shape=[1, 1],
            )
            if end != "box":
                y = self.node("Sigmoid", f"{name}.{end}.sigmoid", [y])
            ends.append(y)
        return self.join(name, ends)


def yolox(path: Path, size: int = 416, classes: int = 80, *, nano: bool = False) -> None:
    """
    Write YOLOX-s (9.0 M parameters), or YOLOX-Nano (0.9 M), with random weights and outputs before
    decoding.
    """
    b = _Detector(7, nano=nano)
    slices: list[str] = []
    for n, (row, column) in enumerate(((0, 0), (1, 0), (0, 1), (1, 1))):
        ends = {"starts": [row, column], "ends": [size, size], "axes": [2, 3], "steps": [2, 2]}
        names = [f"focus.{n}.{key}" for key in ends]
        for name, values in zip(names, ends.values(), strict=True):
            b.initializers.append(numpy_helper.from_array(np.array(values, np.int64), name))
        slices.append(b.node("Slice", f"focus.{n}", ["input", *names]))
    stem = b.conv(b.join("focus", slices), "stem", 12, b.width(32), 3)
    x = b.silu(stem, "stem")
    scales: list[str] = []
    for n, (i, o, count) in enumerate(((32, 64, 1), (64, 128, 3), (128, 256, 3), (256, 512, 1))):
        x = b.unit(x, f"dark{n}.conv", i, o, 3, 2)
        if o == 512:
            y = b.unit(x, "spp.1", 512, 256)
            pooled = [
                b.node(
                    "MaxPool", f"spp.pool{k}", [y], kernel_shape=[k, k], strides=[1, 1],
                    pads=[k // 2] * 4,
                )
                for k in (5, 9, 13)
            ]  # fmt: skip
            x = b.unit(b.join("spp.cat", [y, *pooled]), "spp.2", 1024, 512)
        x = b.csp(x, f"dark{n}", o, o, count, shortcut=o != 512)
        scales.append(x)
    _, c3, c4, c5 = scales
    p5 = b.unit(c5, "lateral", 512, 256)
    x = b.csp(b.join("up5.cat", [b.upsampled(p5, "up5"), c4]), "p4", 512, 256, 1, shortcut=False)
    p4 = b.unit(x, "reduce", 256, 128)
    out3 = b.csp(b.join("up4.cat", [b.upsampled(p4, "up4"), c3]), "p3", 256, 128, 1, shortcut=False)
    x = b.unit(out3, "down3", 128, 128, 3, 2)
    out4 = b.csp(b.join("down3.cat", [x, p4]), "n3", 256, 256, 1, shortcut=False)
    x = b.unit(out4, "down4", 256, 256, 3, 2)
    out5 = b.csp(b.join("down4.cat", [x, p5]), "n4", 512, 512, 1, shortcut=False)
    levels = zip((out3, out4, out5), (128, 256, 512), (8, 16, 32), strict=True)
    parts: list[str] = []
    total = 0
    for n, (value, channels, stride) in enumerate(levels):
        y, cells = b.head(value, f"head{n}", channels, 128, classes), (size // stride) ** 2
        shape = numpy_helper.from_array(np.array([1, 5 + classes, -1], np.int64), f"flat{n}.shape")
        b.initializers.append(shape)
        parts.append(b.node("Reshape", f"flat{n}", [y, f"flat{n}.shape"]))
        total += cells
    joined = b.node("Concat", "anchors", parts, axis=2)
    b.node("Transpose", "output", [joined], perm=[0, 2, 1])
    model = b.model((1, 3, size, size), "output", classes)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    for extent in (1, total, 5 + classes):
        model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = extent
    save(model, path)
