"""
Print operations that combine several elements.

The operations are reductions, argmax and top-k, pooling, normalization and integer softmax. Pooling
computes a window at a time, with channels innermost.
"""

from math import prod
from typing import Literal

from ceras_ir.backends.c.exponentials import exponentials
from ceras_ir.backends.c.layer import Layer, from_row, merge, prints, row_major
from ceras_ir.backends.c.sums import window
from ceras_ir.backends.c.values import (
    Refused,
    Rescaling,
    centred_bound,
    combine,
    int_literal,
    quantized,
    rescaling,
    value_type,
    zero_point_of,
)
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Pool2dOp, Reduce, shape_of
from ceras_ir.dialects.graph.normalization import IntegerNormalizeOp, IntegerSoftmaxOp, NormalizeOp
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters.float_text import float_literal

COMBINING_OPERATORS = {
    Reduce.SUM: Binary.ADD,
    Reduce.PRODUCT: Binary.MUL,
    Reduce.MAX: Binary.MAX,
    Reduce.MIN: Binary.MIN,
}


def _index(name: str, strides: list[int]) -> str:
    return " + ".join(f"{name}{d} * {s}" for d, s in enumerate(strides) if s) or "0"


SUMS_AT_ONCE, VECTOR_SUMS = 8, 16
"""The rows that `sum_last_f32` adds together, and the rows whose sums fill a vector."""


@prints(graph.ReduceOp)
def reduce(layer: Layer, op: graph.ReduceOp) -> None:
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    shape, strides, axes = shape_of(op.input), row_major(shape_of(op.input)), op.axes.get_values()
    kept = [i for i in range(len(shape)) if i not in axes]
    outer, (outer_steps,) = merge([shape[i] for i in kept], [[strides[i] for i in kept]])
    inner, (steps,) = merge([shape[i] for i in axes], [[strides[i] for i in axes]])
    ctype = value_type(op.result)
    if op.function is Reduce.SUM and ctype == "float" and steps == [1]:
        kernel = layer.kernels.use("sum_last_rows" if layer.options.vectors else "sum_last_f32")
        layer.rows(
            prod(shape_of(op.result)),
            prod(shape),
            lambda first, count: (
                f"{kernel}({from_row(x, first, prod(inner))}, {from_row(y, first, 1)}, {count}, "
                f"{prod(inner)});"
            ),
            VECTOR_SUMS if layer.options.vectors else SUMS_AT_ONCE,
        )
        return
    value = combine(layer.kernels, COMBINING_OPERATORS[op.function], ctype, "total", "v")
    if outer_steps and outer_steps[-1] == 1 and outer[-1] > 1:
        _reduce_rows(layer, (x, y, ctype, value), (outer, outer_steps), (inner, steps))
        return
    layer.line("int32_t to = 0;")
    with layer.nested("i", outer) as depth:
        layer.line(f"const {ctype} *from = {x} + {_index('i', outer_steps)};", depth)
        layer.line(f"{ctype} total = from[0];", depth)
        layer.line("int first = 1;", depth)
        with layer.nested("k", inner, depth) as below:
            layer.line(f"const {ctype} v = from[{_index('k', steps)}];", below)
            layer.line(f"total = first ? v : {value};", below)
            layer.line("first = 0;", below)
        layer.line(f"{y}[to++] = total;", depth)


def _reduce_rows(
    layer: Layer,
    names: tuple[str, str, str, str],
    outer: tuple[list[int], list[int]],
    inner: tuple[list[int], list[int]],
) -> None:
    """
    Print a reduction in which a row of adjacent results is computed together, so that memory is
    read in order. The order of each sum is unchanged.

    `names` are the C names of input, result and type, and the C expression that combines `total`
    and `v`. `outer` and `inner` are the shape and strides of the kept and of the reduced axes.
    """
    x, y, ctype, value = names
    (*outer_extents, size), (*other_steps, _) = outer
    with layer.nested("i", outer_extents) as depth:
        at = _index("i", [size * step for step in row_major(outer_extents)])
        layer.line(f"const {ctype} *from = {x} + {_index('i', other_steps)};", depth)
        layer.line(f"{ctype} *to = {y} + {at};", depth)
        layer.loop("j", size, ["to[j] = from[j];"], depth)
        with layer.nested("k", inner[0], depth) as below:
            layer.line(f"const {ctype} *row = from + {_index('k', inner[1])};", below)
            layer.line("if (row == from) continue;", below)
            lines = [f"const {ctype} v = row[j];", f"const {ctype} total = to[j];"]
            lines.append(f"to[j] = {value};")
            layer.loop("j", size, lines, below)


@prints(graph.ArgOp)
def arg(layer: Layer, op: graph.ArgOp) -> None:
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    shape, axis = shape_of(op.input), op.axis.value.data
    inner, extent = prod(shape[axis + 1 :]), shape[axis]
    sign = ">" if op.function is Reduce.MAX else "<"
    sign += "=" * op.takes_last
    layer.line(f"for (int32_t i = 0; i < {prod(shape[:axis])}; ++i) {{")
    body = [
        f"const {value_type(op.input)} *from = {x} + i * {extent * inner} + j;",
        "int32_t best = 0;",
        f"for (int32_t k = 1; k < {extent}; ++k) {{",
        f"  best = from[k * {inner}] {sign} from[best * {inner}] ? k : best;",
        "}",
        f"{y}[i * {inner} + j] = best;",
    ]
    layer.loop("j", inner, body, 1)
    layer.line("}")


@prints(graph.TopKOp)
def top_k(layer: Layer, op: graph.TopKOp) -> None:
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    (*rows, extent), count = shape_of(op.input), shape_of(op.result)[-1]
    stored, is_max = value_type(op.input), op.function is Reduce.MAX
    function = layer.kernels.use(
        "top_k",
        NAME=f"{'greatest' if is_max else 'least'}_{stored}",
        TYPE=stored,
        WHAT="greater" if is_max else "less",
        SIGN=">" if is_max else "<",
        NO_SIGN="<=" if is_max else ">=",
        UNORDERED="  if ((u != u) != (v != v)) return v != v;\n" if stored == "float" else "",
    )
    layer.loop(
        "i", prod(rows), [f"{function}(&{x}[i * {extent}], {extent}, &{y}[i * {count}], {count});"]
    )


MIN_TABLE_ELEMENTS = 64
"""The minimum number of elements of a reduced axis for which a table of results pays."""


@prints(NormalizeOp)
def normalize(layer: Layer, op: NormalizeOp) -> None:
    x, scale = layer.read(op.input, "x"), layer.read(op.scale, "scale")
    bias = layer.read_if(op.bias, "bias") or "NULL"
    y, kernel = layer.write(op.result), layer.kernels.use("normalize")
    n = shape_of(op.input)[-1]
    layer.rows(
        prod(shape_of(op.input)) // n,
        prod(shape_of(op.input)),
        lambda first, count: (
            f"{kernel}({from_row(x, first, n)}, {from_row(y, first, n)}, {scale}, {bias}, {count}, "
            f"{n}, {int(op.is_centred)}, {float_literal(op.epsilon.value.data)});"
        ),
    )


ROWS_OF_TABLE = 32
"""Rows of a softmax of bytes for each preparation of the table, which takes as long as six rows."""

MAX_SHORT_SOFTMAX = 16
"""The maximum elements of a row of a softmax of bytes if a vector has four rows."""

MAX_SHORT_ROW = 1 << 15
"""The maximum elements of a row of 16 bits for which differences from the mean fit 32 bits."""

LOADS_OF_16 = {
    "int8_t": "_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(lanes, x + k))",
    "int16_t": "_mm512_cvtepi16_epi32(_mm256_maskz_loadu_epi16(lanes, x + k))",
}
STORES_OF_16 = {
    "int8_t": "_mm_mask_storeu_epi8(y + k, lanes, _mm512_cvtepi32_epi8(v))",
    "int16_t": "_mm256_mask_storeu_epi16(y + k, lanes, _mm512_cvtepi32_epi16(v))",
}
"""The C expressions that load, or store, the elements k to k + 15 of a row in 32 bits."""


@prints(IntegerNormalizeOp)
def integer_normalize(layer: Layer, op: IntegerNormalizeOp) -> None:
    x, scale, bias = (
        layer.read(value, name)
        for value, name in ((op.input, "x"), (op.scale, "scale"), (op.bias, "bias"))
    )
    y, n = layer.write(op.result), shape_of(op.input)[-1]
    kernel = _normalize_kernel(layer, op, n)
    centre = zero_point_of(graph.stored_element(op.input))
    layer.rows(
        prod(shape_of(op.input)) // n,
        prod(shape_of(op.input)),
        lambda first, count: (
            f"{kernel}({from_row(x, first, n)}, {from_row(y, first, n)}, {scale}, {bias}, {count}, "
            f"{n}, {centre}, {int(op.is_centred)}, {op.shift}, "
            f"{int_literal(op.epsilon.value.data)}, {op.root}, {op.root_shift}, "
            f"{_rescaling(op.requant)});"
        ),
    )


def _normalize_kernel(layer: Layer, op: IntegerNormalizeOp, n: int) -> str:
    """Add the C function that normalizes rows of `n` elements, in vectors if possible."""
    types = _types(op)
    load, store = LOADS_OF_16.get(types["IN"]), STORES_OF_16.get(types["OUT"])
    if not layer.options.vectors or n > MAX_SHORT_ROW or load is None or store is None:
        return layer.kernels.use("integer_normalize", **types)
    layer.kernels.use("integer_normalize", **types)
    return layer.kernels.use("integer_normalize_rows", **types, LOAD=load, STORE=store)


@prints(IntegerSoftmaxOp)
def integer_softmax(layer: Layer, op: IntegerSoftmaxOp) -> None:
    x, table = layer.read(op.input, "x"), exponentials(layer, op)
    y, shape, axis = layer.write(op.result), shape_of(op.input), op.axis.value.data
    outer, n, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    entries, row = shape_of(op.table)[0] - 1, n * inner

    def rows(kernel: str, last: str, unit: int = 1) -> None:
        layer.rows(
            outer,
            outer * row,
            lambda first, count: (
                f"{kernel}({from_row(x, first, row)}, {from_row(y, first, row)}, "
                f"{table.arguments}, {entries}, {count}, {n}{last}, {_rescaling(op.requant)});"
            ),
            unit,
        )

    types = _types(op)
    types["NAME"] += table.name
    kernel = layer.kernels.use(
        "integer_softmax", **types, TABLE=table.parameters, ENTRY=table.entry
    )
    if not _has_byte_rows(layer, op, n, inner):
        rows(kernel, f", {inner}")
        return
    lookup = layer.kernels.use("softmax_short" if n <= MAX_SHORT_SOFTMAX else "softmax_bytes")
    with layer.variants("MODEL_LOOKUP") as otherwise:
        rows(lookup, "", ROWS_OF_TABLE)
        otherwise()
        rows(kernel, f", {inner}")


@prints(graph.FixedPointSoftmaxOp)
def fixed_point_softmax(layer: Layer, op: graph.FixedPointSoftmaxOp) -> None:
    x, table = layer.read(op.input, "x"), layer.read(op.table, "table")
    y, target = layer.write(op.result), value_type(op.result)
    kernel = layer.kernels.use("fixed_point_softmax", NAME=target, OUT=target)
    n = shape_of(op.input)[-1]
    layer.line(f"{kernel}({x}, {y}, {table}, {prod(shape_of(op.input)) // n}, {n});")


def _has_byte_rows(layer: Layer, op: IntegerSoftmaxOp, n: int, inner: int) -> bool:
    """
    Return whether vector instructions can look up the table of an integer softmax: rows of `n`
    contiguous bytes that are long or have at most 16 elements, and table entries of 16 bits.
    `inner` is the distance between the elements of a row.
    """
    is_bytes = value_type(op.input) == value_type(op.result) == "int8_t"
    has_length = n <= MAX_SHORT_SOFTMAX or n >= MIN_TABLE_ELEMENTS
    if not (layer.options.vectors and is_bytes and inner == 1 and has_length):
        return False
    table = graph.constant_array(op.table)
    return table is not None and table.min() >= 0 and table.max() < 1 << 16


def _types(op: IntegerNormalizeOp | IntegerSoftmaxOp) -> dict[str, str]:
    source, target = value_type(op.input), value_type(op.result)
    return {"NAME": f"{source}_{target}", "IN": source, "OUT": target}


def _rescaling(requant: RequantAttr) -> str:
    """
    Return shift, zero point and clamp bounds of `requant` as C text, the last arguments of a call.
    """
    fields = (requant.shift, requant.zero_point, requant.low, requant.high)
    return ", ".join(str(field.data) for field in fields)


@prints(Pool2dOp)
def pool2d(layer: Layer, op: Pool2dOp) -> None:
    if op.function is graph.Pool.MAX:
        _maximum(layer, op)
    elif op.is_quantized:
        _integer_average(layer, op)
    else:
        _float_average(layer, op)


def _positions(op: Pool2dOp) -> tuple[int, int]:
    *positions, channels = shape_of(op.result)
    return prod(positions), channels


def _maximum(layer: Layer, op: Pool2dOp) -> None:
    element, ctype = graph.quantized_element(op.input), value_type(op.input)
    minimum = float_literal(float("-inf")) if element is None else int_literal(element.low)
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    place = window(layer, op)
    kernel = _helium_window(layer, op, "largest")
    if kernel is None:
        name = "f32" if element is None else ctype
        or_nan = " || tap[c] != tap[c]" if element is None else ""
        kernel = layer.kernels.use("max_window", NAME=name, IN=ctype, OR_NAN=or_nan)
    positions, channels = _positions(op)
    if layer.shares(positions * channels):
        layer.line("MODEL_THREADS(1)")
    layer.loop("p", positions, [f"{kernel}(&{y}[p * {channels}], {x}, {place}, p, {minimum});"])


def _helium_window(layer: Layer, op: Pool2dOp, kind: Literal["largest", "sum"]) -> str | None:
    """
    Return the name of the C function that computes the maximum or sum of a pooling window with
    Helium. Return `None` if the core has no Helium or the input is not int8.
    """
    if not layer.options.helium or value_type(op.input) != "int8_t":
        return None
    from ceras_ir.backends.c.helium_elementwise import window_kernel

    return window_kernel(layer, kind)


def _float_average(layer: Layer, op: Pool2dOp) -> None:
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    place = window(layer, op)
    kernel = layer.kernels.use("sum_rows")
    positions, channels = _positions(op)
    layer.scratch("float", "row", channels, 4)
    size = prod(op.kernel.get_values())
    call = f"{kernel}(to, row, {x}, {place}, p)"
    count = f"(void){call};" if op.includes_padding else f"const int32_t count = {call};"
    divisor = float_literal(size) if op.includes_padding else "(float)count"
    body = [
        f"float *to = &{y}[p * {channels}];",
        count,
        f"for (int32_t c = 0; c < {channels}; ++c) to[c] /= {divisor};",
    ]
    layer.loop("p", positions, body)


def _clamp(requant: RequantAttr, storage: str) -> Rescaling:
    bounds = requant.low.data, requant.high.data
    return rescaling(RequantAttr(0, low=bounds[0], high=bounds[1]), 1 << 16, storage)


def _integer_average(layer: Layer, op: Pool2dOp) -> None:
    element, size = quantized(op.input, "input"), prod(op.kernel.get_values())
    assert op.requant is not None
    bound, full = size * centred_bound(element), op.requant.multiplier.data
    if bound >= 1 << 31:
        raise Refused(f"a sum of {size} elements can reach {bound}, beyond 32 bits; pool in steps")
    varies = any(op.padding.get_values()) and not op.includes_padding
    if varies and any(d > 1 for d in op.dilations.get_values()):
        raise Refused("a dilated, padded average over elements inside; set count_include_pad")
    storage = value_type(op.result)
    if op.divides is not None:
        # The sum of the stored integers is divided; the requantization only clamps.
        element, rescale = UniformType(1.0, storage=element.storage), _clamp(op.requant, storage)
    elif varies:
        # A window of a single element has the largest multiplier, but also the smallest sum.
        max_scaled = bound * (full * size + 1)
        rescale = rescaling(
            op.requant, bound, storage, multiplier="multiplier", scaled_bound=max_scaled
        )
    else:
        rescale = rescaling(op.requant, bound, storage)
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    place = window(layer, op)
    point = zero_point_of(element)
    kernel = _helium_window(layer, op, "sum") or layer.kernels.use(
        "sum_window",
        NAME=value_type(op.input) + ("_centred" if point else ""),
        SUM="int32_t",
        IN=value_type(op.input),
        CENTRE=" - zero_point" if point else "",
    )
    positions, channels = _positions(op)
    layer.scratch("int32_t", "sums", channels, 4)
    call = f"{kernel}(sums, {x}, {place}, p, {point})"
    head = [f"(void){call};"]
    terms = ["sums[c]"]
    if op.divides is not None:
        count = "count" if varies else str(size)
        head = [f"const int32_t count = {call};"] if varies else head
        half = f"({count} / 2)" if varies else str(size // 2)
        terms = [f"(sums[c] + (sums[c] < 0 ? -{half} : {half})) / {count}"]
    elif varies:
        numerator = int_literal(2 * full * size)
        head = [
            f"const int32_t count = {call};",
            f"const {rescale.type} multiplier = (({rescale.type}){numerator} + count) "
            "/ (2 * count);",
        ]
    body = [
        *head,
        f"for (int32_t c = 0; c < {channels}; ++c) {{",
        *(f"  {t}" for t in rescale.lines(terms, f"{y}[p * {channels} + c]")),
        "}",
    ]
    layer.loop("p", positions, body)
