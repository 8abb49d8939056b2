"""
Print updates of states and products that read a part of a state.

A state is updated in place if the previous state is not used any more. Appended rows then either
move the other rows, or the state is a ring (`Program.rings`): the rows overwrite the oldest rows,
and the index of the oldest row is stored after the elements. Products read the two segments of a
ring in order, so results do not depend on this index.
"""

from collections.abc import Callable
from math import prod

from ceras_ir.backends.c.integer_layer import IntegerLayer
from ceras_ir.backends.c.layer import Layer, prints
from ceras_ir.backends.c.linear import print_packed
from ceras_ir.backends.c.linear_float import epilogue_lines, float_nest
from ceras_ir.backends.c.register_tiles import FLOAT_LANES
from ceras_ir.backends.c.sums import ROW_TYPES, Geometry, analyse_computed
from ceras_ir.backends.c.values import centred_bound, half_of, quantized, value_type, zero_point_of
from ceras_ir.dialects.graph import StridedMatmulOp, UpdateOp, shape_of
from ceras_ir.transforms.memory.read_states import MAX_ROWS


@prints(UpdateOp)
def update(layer: Layer, op: UpdateOp) -> None:
    """Print `graph.update`; in place, only the rows are written."""
    shape, axis, count = shape_of(op.result), op.axis.value.data, op.row_count
    outer, extent, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    in_place = op.input in layer.in_place
    x = None if in_place else layer.read(op.input, "x")
    rows, at = layer.read(op.rows, "rows"), layer.read_if(op.position, "at")
    y = layer.write(op.result)

    def row(place: str, source: str) -> str:
        return (
            f"(void)memcpy({y} + (i * {extent} + {place}) * {inner}, {rows} + {source} * {inner}, "
            f"{inner}U * sizeof *{y});"
        )

    if at is not None:
        if x is not None:
            layer.line(f"(void)memcpy({y}, {x}, {prod(shape)}U * sizeof *{y});")
        layer.line(f"int64_t row = (int64_t){at}[0];")
        if op.wraps is not None:
            layer.line(f"row = row < 0 ? row + {extent} : row;")
        layer.line(f"if (row < 0 || row >= {extent}) return;")
        layer.loop("i", outer, [row("row", "i")])
    elif op.result in layer.rings:
        _open_ring(layer, y, prod(shape))
        layer.line(f"for (int32_t r = 0; r < {count}; ++r) {{")
        layer.loop("i", outer, [row("first", f"(i * {count} + r)")], 1)
        layer.line(f"first = first + 1 == {extent} ? 0 : first + 1;", 1)
        layer.line("}")
        layer.line(f"(void)memcpy({y} + {prod(shape)}, &first, sizeof first);")
    else:
        kept = (extent - count) * inner
        line, new = f"{y} + i * {extent * inner}", count * inner
        body = [
            f"(void)memmove({line}, {x or y} + i * {extent * inner} + {new}, "
            f"{kept}U * sizeof *{y});",
            f"(void)memcpy({line} + {kept}, {rows} + i * {new}, {new}U * sizeof *{y});",
        ]
        layer.loop("i", outer, body)


def _open_ring(layer: Layer, state: str, size: int) -> None:
    """Print the declaration of `first`, the index of the oldest row, after `size` elements."""
    layer.line("int32_t first;")
    layer.line(f"(void)memcpy(&first, {state} + {size}, sizeof first);")


@prints(StridedMatmulOp)
def strided_matmul(layer: Layer, op: StridedMatmulOp) -> None:
    """Print a product that reads the weights where they are stored."""
    (integer_product if op.is_quantized else float_product)(layer, op)


def float_product(layer: Layer, op: StridedMatmulOp) -> None:
    (m, k), (_, n) = shape_of(op.input), shape_of(op.result)
    x, w, y = layer.read(op.input, "x"), layer.read(op.weights, "w"), layer.write(op.result)
    bias, residual = layer.read_if(op.bias, "bias"), layer.read_if(op.residual, "residual")
    geometry = Geometry(m, k, n, 1, k, is_direct=True, is_depthwise=False)
    nest = None
    if m > MAX_ROWS and bias is None:
        nest = float_nest(layer, op, geometry, common=layer.options.common_tiles)
    if nest is None:
        _float_rows(layer, op, (x, w, y), bias, residual)
        return
    row, column = op.strides.get_values()
    start = f"{w} + {offset}" if (offset := op.offset.value.data) else w
    way, pitch = ("pack_tiles", row) if column == 1 else ("pack_columns", column)
    with layer.variants(FLOAT_LANES) as otherwise:
        print_packed(layer, op, nest, (x, y, residual or ""), way, start, pitch)
        otherwise()
        _float_rows(layer, op, (x, w, y), bias, residual)


def _float_rows(
    layer: Layer,
    op: StridedMatmulOp,
    names: tuple[str, str, str],
    bias: str | None,
    residual: str | None,
) -> None:
    x, w, y = names
    (m, k), (_, n) = shape_of(op.input), shape_of(op.result)
    if op.ordered is None and layer.options.vectors:
        kernel = layer.kernels.use(f"{_form(op)}_f32")
    else:
        kernel = layer.kernels.use(
            _form(op), NAME="float", SUM="float", ROW="float", WEIGHT="float"
        )
    layer.line(f"for (int32_t i = 0; i < {m * n}; ++i) {y}[i] = 0.0f;")
    multiply = _multiply(layer, op, kernel, w)
    layer.loop("r", m, multiply(f"{y} + r * {n}", f"{x} + r * {k}"))
    layer.block(epilogue_lines(layer, op, y, residual, "0", str(m * n), bias))


def integer_product(layer: Layer, op: StridedMatmulOp) -> None:
    """
    Print a quantized product. The zero point of the weights is multiplied by the sum of the input,
    so that the weights are multiplied as they are stored.
    """
    (m, k), (_, n) = shape_of(op.input), shape_of(op.result)
    sums = analyse_computed(op)
    geometry = Geometry(m, k, n, 1, k, is_direct=True, is_depthwise=False)
    of = IntegerLayer.of(layer, op, geometry, sums, n)
    assert op.requant is not None
    elements = quantized(op.input, "input"), quantized(op.weights, "weights")
    row = "int16_t" if max(map(centred_bound, elements)) < 1 << 15 else "int32_t"
    stored = value_type(op.weights)
    holes = {"NAME": f"{row}_{stored}", "SUM": "int32_t", "ROW": row, "WEIGHT": stored}
    kernel = layer.kernels.use(_form(op), **holes)
    w = layer.read(op.weights, "w")
    layer.scratch(row, "row", k, ROW_TYPES[row][1])
    layer.scratch("int32_t", "sums", n, 4)
    kind = value_type(op.input)
    centre = layer.kernels.use("centre", NAME=f"{kind}_to_{row}", IN=kind, ROW=row)
    values = [f"{layer.read(op.bias, 'bias')}[o]"] if op.bias is not None else []
    if sums.half_folded and (half := half_of(op.requant)):
        values.append(str(half))
    multiply = _multiply(layer, op, kernel, w)
    body = [
        f"const int32_t at = r * {n};",
        f"{centre}(row, {of.x} + r * {k}, {k}, {zero_point_of(sums.x)});",
        f"(void)memset(sums, 0, {n}U * sizeof *sums);",
        *multiply("sums", "row"),
    ]
    if point := zero_point_of(elements[1]):
        body += [
            "int32_t total = 0;",
            f"for (int32_t i = 0; i < {k}; ++i) total += row[i];",
            f"total *= {-point};",
        ]
        values.append("total")
    lines = (f"  {text}" for text in of.epilogue("sums[o]", *values))
    body += [f"for (int32_t o = 0; o < {n}; ++o) {{", *lines, "}"]
    layer.loop("r", m, body)


def _form(op: StridedMatmulOp) -> str:
    """The kernel: elements are adjacent in a row of products, or in the columns of results."""
    return "part_rows" if op.strides.get_values()[1] == 1 else "part_columns"


def _multiply(
    layer: Layer, op: StridedMatmulOp, kernel: str, w: str
) -> Callable[[str, str], list[str]]:
    """
    Return a function that returns the calls which add the products of a row of the input to sums;
    both are C expressions. `w` is the C name of the weights.
    """
    (_, k), (_, n) = shape_of(op.input), shape_of(op.result)
    strides, offset = op.strides.get_values(), op.offset.value.data
    pitch = strides[0] if strides[1] == 1 else strides[1]
    start = f"{w} + {offset}" if offset else w
    if op.weights not in layer.rings:
        return lambda sums, x: [f"{kernel}({sums}, {x}, {start}, {n}, {k}, {pitch});"]
    update = op.weights.owner
    assert isinstance(update, UpdateOp)
    shape, axis = shape_of(op.weights), update.axis.value.data
    extent, distance = shape[axis], prod(shape[axis + 1 :])
    _open_ring(layer, w, prod(shape))
    later, rest = f"{start} + first * {distance}", f"({extent} - first)"
    if (strides[0], n) == (distance, extent):
        return lambda sums, x: [
            f"{kernel}({sums}, {x}, {later}, {rest}, {k}, {pitch});",
            f"{kernel}({sums} + {rest}, {x}, {start}, first, {k}, {pitch});",
        ]
    return lambda sums, x: [
        f"{kernel}({sums}, {x}, {later}, {n}, {rest}, {pitch});",
        f"{kernel}({sums}, {x} + {rest}, {start}, {n}, first, {pitch});",
    ]
