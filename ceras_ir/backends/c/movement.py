"""Print operations that move elements: reshape, transpose, concat, resize, pack and unpack."""

from collections.abc import Callable
from itertools import accumulate, groupby
from math import prod

import numpy as np

from ceras_ir.backends.c.layer import (
    SHARED_PARTS,
    Layer,
    from_row,
    merge,
    nest,
    part_step,
    prints,
    row_major,
)
from ceras_ir.backends.c.register_tiles import FLOAT_VECTORS
from ceras_ir.backends.c.values import quantized, value_type
from ceras_ir.dialects.graph import ConcatOp, ReshapeOp, Resize, ResizeOp, TransposeOp, shape_of
from ceras_ir.dialects.mem import PackOp, PackWindowsOp, UnpackOp
from ceras_ir.interpreters.selection import (
    FIXED_BITS,
    fixed_weights,
    linear_weights,
    nearest_indices,
)


@prints(ReshapeOp)
def reshape(layer: Layer, op: ReshapeOp) -> None:
    """Print a reshape as a copy. No code is needed if operand and result share memory."""
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    layer.line(f"(void)memcpy({y}, {x}, {prod(shape_of(op.result))}U * sizeof *{y});")


BLOCKS = {
    "float": ("words", 4),
    "int32_t": ("words", 4),
    "int16_t": ("halves", 8),
    "int8_t": ("bytes", 16),
    "uint8_t": ("bytes", 16),
}
"""For each element type, the name and the size of a block that is transposed in registers."""


@prints(TransposeOp)
def transpose(layer: Layer, op: TransposeOp) -> None:
    """Print `graph.transpose`, in square blocks if there are vector instructions."""
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    shape, strides = shape_of(op.result), row_major(shape_of(op.input))
    source = [strides[p] for p in op.permutation.get_values()]
    operands = [row_major(shape), source]

    def loops() -> None:
        nest(layer, shape, operands, lambda at: [f"{y}[{at[0]}] = {x}[{at[1]}];"])

    extents, (to, of) = merge(shape, operands)
    rows = of.index(1) if 1 in of else -1
    name, block = BLOCKS.get(value_type(op.result), ("", 0))
    is_matrix = of[-1] > 1 and rows >= 0 and min(extents[rows], extents[-1]) >= block
    if not is_matrix or not name:
        loops()
        return
    with layer.variants(FLOAT_VECTORS) as otherwise:
        turn = layer.kernels.use(
            "transpose",
            NAME=name,
            ELEMENT=f"int{128 // block}_t",
            BLOCK=str(block),
            LOWER=_interleaved(range(block // 2), block),
            UPPER=_interleaved(range(block // 2, block), block),
        )
        outer_axes = [d for d in range(len(extents) - 1) if d != rows]

        def matrix(at: list[str]) -> list[str]:
            to_at, of_at = (f" + {index}" for index in at) if at else ("", "")
            sizes = f"{extents[rows]}, {extents[-1]}"
            return [f"{turn}({x}{of_at}, {of[-1]}, {y}{to_at}, {to[rows]}, {sizes});"]

        if outer_axes:
            outer = [[s[d] for d in outer_axes] for s in (to, of)]
            nest(layer, [extents[d] for d in outer_axes], outer, matrix)
        else:
            sides = extents[rows], extents[-1]
            # Threads share the longer side. Each part has at least a block.
            side, by_rows = max(sides), sides[0] > sides[1]

            def part(first: str, count: str) -> str:
                of_at, to_at = (1, to[rows]) if by_rows else (of[-1], 1)
                sizes = f"{count}, {sides[1]}" if by_rows else f"{sides[0]}, {count}"
                return (
                    f"{turn}({from_row(x, first, of_at)}, {of[-1]}, {from_row(y, first, to_at)}, "
                    f"{to[rows]}, {sizes});"
                )

            units = (block * n for n in range(1, side))
            fits = (n for n in units if not 0 < side % part_step(side, n) < block)
            layer.rows(side, prod(shape), part, next(fits))
        otherwise()
        loops()


def _interleaved(lanes: range, block: int) -> str:
    """
    Return the index operand of a shuffle as text: the given lanes of two vectors of `block` lanes,
    in alternation. Lanes (0, 1) of 4 -> `0, 4, 1, 5`.
    """
    return ", ".join(f"{lane}, {lane + block}" for lane in lanes)


@prints(ConcatOp)
def concat(layer: Layer, op: ConcatOp) -> None:
    """
    Print `graph.concat` as copies. Operands that are already stored inside the result need no copy.
    """
    shape, axis = shape_of(op.result), op.axis.value.data
    outer, stride = prod(shape[:axis]), prod(shape[axis:])
    runs = [prod(shape_of(value)[axis:]) for value in op.inputs]
    starts = accumulate(runs[:-1], initial=0)
    copied = [
        (layer.read(value, f"x{i}"), start, run)
        for i, (value, start, run) in enumerate(zip(op.inputs, starts, runs, strict=True))
        if value not in layer.in_place
    ]
    y = layer.write(op.result)
    body = [
        f"(void)memcpy({y} + i * {stride}{f' + {start}' * (start > 0)}, {x} + i * {run}, "
        f"{run}U * sizeof *{y});"
        for x, start, run in copied
    ]
    if layer.shares(sum(outer * run for _, _, run in copied)) and outer > SHARED_PARTS:
        layer.line("MODEL_THREADS(1)")
    layer.loop("i", outer, body)


@prints(ResizeOp)
def resize(layer: Layer, op: ResizeOp) -> None:
    n, height, width, channels = shape_of(op.input)
    _, rows, columns, _ = shape_of(op.result)
    mode = op.coordinates.data
    sizes = ((height, rows), (width, columns))
    scales = op.scales.get_values()
    x, y = layer.read(op.input, "x"), layer.write(op.result)

    def indices(name: str, values: list[int]) -> str:
        return layer.array(name, np.array(values, np.int32), "int32_t")

    def line(of_row: str) -> str:
        return f"{x} + (n * {height} + {of_row}) * {width * channels}"

    if op.function is Resize.NEAREST:
        rounding = op.rounding.data
        from_row, from_column = (
            indices(name, nearest_indices(size, out, scale, mode, rounding))
            for name, (size, out), scale in zip(("rows", "columns"), sizes, scales, strict=True)
        )
        body = [
            f"const {value_type(op.input)} *from = {line(f'{from_row}[i]')}"
            f" + {from_column}[j] * {channels};",
            f"(void)memcpy({y} + ((n * {rows} + i) * {columns} + j) * {channels}, from, "
            f"{channels}U * sizeof *{y});",
        ]
    elif op.has_kernel_form:
        body = _fixed_point_body(layer, op, (line, indices), y)
    else:
        names: list[tuple[str, str, str]] = []
        for name, (size, out), scale in zip(("rows", "columns"), sizes, scales, strict=True):
            low, high, weight = linear_weights(size, out, scale, mode)
            names.append(
                (
                    indices(f"{name}_low", low),
                    indices(f"{name}_high", high),
                    layer.array(f"{name}_weight", weight, "float"),
                )
            )
        (top, bottom, down), (left, right, across) = names
        body = [
            f"const float *above = {line(f'{top}[i]')};",
            f"const float *below = {line(f'{bottom}[i]')};",
            f"const int32_t l = {left}[j] * {channels};",
            f"const int32_t r = {right}[j] * {channels};",
            f"const float t = {down}[i];",
            f"const float u = {across}[j];",
            f"for (int32_t c = 0; c < {channels}; ++c) {{",
            "  const float a = above[l + c] * (1.0f - t) + below[l + c] * t;",
            "  const float b = above[r + c] * (1.0f - t) + below[r + c] * t;",
            f"  {y}[((n * {rows} + i) * {columns} + j) * {channels} + c] = a * (1.0f - u) + b * u;",
            "}",
        ]
    if layer.shares(prod(shape_of(op.result))):
        layer.line("MODEL_THREADS(2)")
    layer.line(f"for (int32_t n = 0; n < {n}; ++n) {{")
    layer.line(f"for (int32_t i = 0; i < {rows}; ++i) {{", 1)
    layer.loop("j", columns, body, 2)
    layer.line("}", 1)
    layer.line("}")


def _fixed_point_body(
    layer: Layer,
    op: ResizeOp,
    texts: tuple[Callable[[str], str], Callable[[str, list[int]], str]],
    y: str,
) -> list[str]:
    """
    Return the C lines that compute row `i` and column `j` of a resize by interpolation of stored
    integers. `y` is the C array of the result. The first of `texts` returns the C expression of an
    input row; the second adds an array of integers, and returns its C name.
    """
    line, indices = texts
    _, *sizes, channels = shape_of(op.input)
    _, rows, columns, _ = shape_of(op.result)
    names: list[list[str]] = []
    for name, size, out in zip(("rows", "columns"), sizes, (rows, columns), strict=True):
        found = fixed_weights(size, out, op.coordinates.data)
        kinds = ("low", "high", "weight")
        names.append(
            [indices(f"{name}_{kind}", a.tolist()) for kind, a in zip(kinds, found, strict=True)]
        )
    (top, bottom, down), (left, right, across) = names
    storage, one, shift = value_type(op.input), 1 << FIXED_BITS, 2 * FIXED_BITS
    # A product of 16 bits with both weights exceeds 32 bits.
    sums = "int64_t" if quantized(op.input, "input").storage.width.data > 8 else "int32_t"
    factor = "" if sums == "int32_t" else "(int64_t)"
    return [
        f"const {storage} *above = {line(f'{top}[i]')};",
        f"const {storage} *below = {line(f'{bottom}[i]')};",
        f"const int32_t l = {left}[j] * {channels};",
        f"const int32_t r = {right}[j] * {channels};",
        f"const int32_t t = {down}[i];",
        f"const int32_t u = {across}[j];",
        f"for (int32_t c = 0; c < {channels}; ++c) {{",
        f"  const int32_t a = above[l + c] * ({one} - t) + below[l + c] * t;",
        f"  const int32_t b = above[r + c] * ({one} - t) + below[r + c] * t;",
        f"  const {sums} v = {factor}a * ({one} - u) + {factor}b * u;",
        f"  {y}[((n * {rows} + i) * {columns} + j) * {channels} + c] = "
        f"({storage})((v + {1 << shift - 1} - (v < 0)) >> {shift});",
        "}",
    ]


def _packed_loops(
    layer: Layer, shape: tuple[int, ...], vector: tuple[int, ...], body: list[str]
) -> None:
    """
    Print C loops over images (n), positions (p) and channels (c) between a plain tensor of `shape`
    and its packed layout. In `body`, `PLAIN` and `VECTOR` are replaced by the index of the element
    in the plain and in the packed tensor.

    `vector` is the shape of a vector of the packed layout: [B] channels, or [R, B] for R rows or
    images.
    """
    image = len(shape) == 4
    rows, lanes = (1, *vector)[-2:]
    n, points = (shape[0], shape[1] * shape[2]) if image else (1, shape[0])
    stride = points if image else -(-points // rows) * rows
    blocks = -(-shape[-1] // lanes)
    layer.line(f"for (int32_t n = 0; n < {n}; ++n) {{")
    layer.line(f"for (int32_t p = 0; p < {points}; ++p) {{", 1)
    place = f"(n * {blocks} + c / {lanes}) * {stride} + p"
    if image and rows > 1:
        place = f"((n / {rows} * {blocks} + c / {lanes}) * {points} + p) * {rows} + n % {rows}"
    packed = f"({place}) * {lanes} + c % {lanes}"
    plain = f"(n * {points} + p) * {shape[-1]} + c"
    layer.block([b.replace("VECTOR", packed).replace("PLAIN", plain) for b in body], 2)
    layer.line("}", 1)
    layer.line("}")


@prints(PackOp)
def pack(layer: Layer, op: PackOp) -> None:
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    shape, packed = shape_of(op.input), shape_of(op.result)
    channels, vector = shape[-1], packed[len(shape) :]
    if shape[0] % prod(vector[:-1]):
        layer.line(f"(void)memset({y}, 0, {prod(packed)}U * sizeof *{y});")
    body = [f"for (int32_t c = 0; c < {channels}; ++c) {y}[VECTOR] = {x}[PLAIN];"]
    padded = -(-channels // vector[-1]) * vector[-1]
    if padded != channels:
        body.append(f"for (int32_t c = {channels}; c < {padded}; ++c) {y}[VECTOR] = 0;")
    _packed_loops(layer, shape, vector, body)


@prints(PackWindowsOp)
def pack_windows(layer: Layer, op: PackWindowsOp) -> None:
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    _, height, width, channels = shape_of(op.input)
    shape, packed = op.plain_shape, shape_of(op.result)
    (kh, kw), (sh, sw), (top, left) = (
        extents.get_values() for extents in (op.kernel, op.strides, op.offset)
    )
    if shape[0] % prod(packed[4:-1]):
        layer.line(f"(void)memset({y}, 0, {prod(packed)}U * sizeof *{y});")
    source = f"{x}[((n * {height} + row) * {width} + column) * {channels} + k]"
    body = [
        "int32_t c = 0;",
        f"for (int32_t i = 0; i < {kh}; ++i) {{",
        f"  const int32_t row = p / {shape[2]} * {sh} + i - {top};",
        f"  for (int32_t j = 0; j < {kw}; ++j) {{",
        f"    const int32_t column = p % {shape[2]} * {sw} + j - {left};",
        f"    const int inside = row >= 0 && row < {height} && column >= 0 && column < {width};",
        f"    for (int32_t k = 0; k < {channels}; ++k) {{",
        f"      {y}[VECTOR] = inside ? {source} : {op.value.value.data};",
        "      ++c;",
        "    }",
        "  }",
        "}",
    ]
    end = shape[-1] - len(op.constants)
    padding = packed[1] * packed[-1] - shape[-1]
    for number, run in groupby([*op.constants.get_values(), *(0,) * padding]):
        end += len(list(run))
        body.append(f"for (; c < {end}; ++c) {y}[VECTOR] = {number};")
    _packed_loops(layer, shape, packed[4:], body)


@prints(UnpackOp)
def unpack(layer: Layer, op: UnpackOp) -> None:
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    shape = shape_of(op.result)
    body = [f"for (int32_t c = 0; c < {shape[-1]}; ++c) {y}[PLAIN] = {x}[VECTOR];"]
    _packed_loops(layer, shape, shape_of(op.input)[len(shape) :], body)
