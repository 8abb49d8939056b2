"""
Print convolutions and matrix products with sparse constant weights: sums over adjacent positions,
in planes of the input.

Processors with vectors of 16 lanes run straight-line code (`sparse_code.py`). Other processors
decode the weights of a filter at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.integer_layer import Epilogue, IntegerLayer
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.planes import Planes, shuffles
from ceras_ir.backends.c.sparse_code import (
    MAX_CODE_PRODUCTS,
    SPARSE,
    SPARSE_CONDITION,
    NarrowSums,
    SparseSource,
    block_text,
    blocks,
    host_cost,
    product_count,
    products,
)
from ceras_ir.backends.c.sums import LIMIT, Geometry, Sums
from ceras_ir.backends.c.values import (
    apply,
    constant_weights,
    steps_left,
    value_type,
    zero_point_of,
)
from ceras_ir.dialects.graph import ConstantOp, LinearOperation, quantized_element

VECTORS_OF_BYTES, VECTORS_OF_FLOATS = 4, 8
"""Vectors of positions that a block of code computes before the next, for the cache."""


def sparse_planes(layer: Layer, op: LinearOperation, geometry: Geometry) -> Planes | None:
    """
    Return the layout in which a sparse kernel loads the input of `op` from the workspace, a plane
    for each channel. Return `None` if the weights are not encoded or no sparse kernel supports the
    layer.
    """
    if op.encoded_weights is None or op.weight_scale is not None:
        return None
    if op.bias is not None and not isinstance(op.bias.owner, ConstantOp):
        return None
    item = 4 if quantized_element(op.input) is None else 1
    return Planes.of(op, geometry, item, layer.options.workspace)


def fits_sparse(op: LinearOperation, sums: Sums) -> bool:
    """
    Return whether a sparse kernel of integers is exact: inputs and weights have 8 bits, and the
    sums fit 32 bits even if 128 is added to each input.
    """
    return (
        value_type(op.input) in ("int8_t", "uint8_t")
        and sums.weight_type == "int8_t"
        and sums.raw_bound < LIMIT
    )


@dataclass(frozen=True)
class SparseLayer:
    """A layer with sparse weights, of int8 or float32, that is printed with a sparse kernel."""

    layer: Layer
    op: LinearOperation
    planes: Planes
    x: str
    weights: Array
    """The weights, with axes [filters, products]."""
    epilogue: Sequence[str]
    """
    C statements of the output stage, from the sum `sum` to the element of output `o` at index `at`.
    """
    is_float: bool
    narrow: NarrowSums | None = None
    """The output stage as vector instructions, if it consists of a shift and a clamp to 8 bits."""

    @cached_property
    def code_planes(self) -> Planes:
        return self.planes.clustered(self.weights)

    @cached_property
    def has_code(self) -> bool:
        """
        Whether straight-line code is printed in addition to portable loops: the target has vectors,
        and the number of products is at most `MAX_CODE_PRODUCTS`.
        """
        options = self.layer.options
        if options.dsp or not options.vectors:
            return False
        return product_count(self.weights, self.code_planes) <= MAX_CODE_PRODUCTS

    def print(self, biases: tuple[str, str] | None, borders: tuple[str, str]) -> None:
        """
        Print straight-line code (if `has_code`) and portable loops as alternatives for the
        preprocessor. `biases` are the C names of the bias arrays and `borders` the padding values
        of both: the first is for inputs to which 128 is added.
        """
        layer = self.layer
        layer.kernel = SPARSE
        if layer.options.vectors and (cost := host_cost(self.op, self.weights)):
            layer.modelled |= {"cycles": round(cost.sparse), "dense_cycles": round(cost.dense)}
        if self.has_code:
            with layer.variants(SPARSE_CONDITION) as otherwise:
                self._code(biases[0] if biases else "", borders[0])
                otherwise()
                self._rows(biases[1] if biases else "", borders[1])
        else:
            self._rows(biases[1] if biases else "", borders[1])

    def _open(self) -> None:
        layer, p = self.layer, self.planes
        if p.images > 1:
            layer.line(f"for (int32_t image = 0; image < {p.images}; ++image)")
        layer.line(f"for (int32_t first = 0; first < {p.rows}; first += {p.strip}) {{")
        layer.line(f"const int32_t rows = {steps_left(p.rows, 'first', p.strip)};", 1)

    def _row(self, row: str) -> str:
        image = f"image * {self.planes.rows} + " if self.planes.images > 1 else ""
        return f"{image}first + {row}"

    def _code(self, bias: str, border: str) -> None:
        layer, p = self.layer, self.code_planes
        outputs = len(self.weights)
        padded = -(-outputs // 16) * 16
        unit, item = (1, 4) if self.is_float else (4, 1)
        ctype = "float" if self.is_float else "int32_t"
        element = "float" if self.is_float else "uint8_t"
        found = products(self.weights, p)
        names: list[str] = []
        words: list[int] = []
        for block in blocks(outputs):
            name = f"sparse_{layer.index}_{block.start}"
            ordered = self.op.ordered is not None
            text, mine = block_text(
                name, block, found, len(words), ordered=ordered, is_float=self.is_float,
                narrow=self.narrow,
            )  # fmt: skip
            names.append(layer.kernels.add(name, text, SPARSE_CONDITION))
            words += mine
        read = np.array(words or [0], np.uint32)
        w = layer.constant("words", "uint32_t", read.size, 4, lambda: read, SPARSE_CONDITION)
        turn = layer.kernels.use("turn_words")
        # A word holds four outputs of bytes.
        turned, width = ("int8_t", -(-outputs // 64) * 64) if self.narrow else (ctype, padded)
        words_of = width // 4 if self.narrow else width
        vectors = VECTORS_OF_FLOATS if self.is_float else VECTORS_OF_BYTES
        layer.scratch(element, "planes", p.elements, item)
        layer.scratch(ctype, "sums", vectors * words_of * 16, 4)
        layer.scratch(turned, "turned", width * 16, 1 if self.narrow else 4)
        self._open()
        stored = "float" if self.is_float else value_type(self.op.input)
        order = ""
        if p.order:
            table = shuffles(np.array(p.order))
            order = layer.constant(
                "order", "uint8_t", table.size, 1, lambda: table, SPARSE_CONDITION
            )
        p.fill(layer, self.x, (stored, element), unit, border, order)
        last = f"(rows - 1) * {p.plane_columns} + {p.columns}"
        layer.line(f"const int32_t end = {last};", 1)
        layer.line("int32_t r = 0, c = 0;", 1)
        layer.line(f"for (int32_t q = 0; q < end; q += {16 * vectors}) {{", 1)
        layer.line(
            f"const int32_t vectors = end - q < {16 * (vectors - 1)} ? (end - q + 15) / 16 "
            f": {vectors};",
            2,
        )
        for name in names:
            layer.line("for (int32_t v = 0; v < vectors; ++v)", 2)
            scale = f"{unit} * (q + 16 * v)" if unit > 1 else "q + 16 * v"
            layer.line(f"{name}(planes + {scale}, {w}, sums + v * {words_of * 16});", 3)
        layer.line("for (int32_t v = 0; v < vectors; ++v) {", 2)
        sums = f"sums + v * {words_of * 16}"
        layer.line(f"for (int32_t o = 0; o < {words_of}; o += 16)", 3)
        to = "turned + 4 * o" if self.narrow else "turned + o"
        layer.line(f"{turn}({sums} + 16 * o, 16, {to}, {words_of}, 0, 0);", 4)
        layer.line("for (int32_t p = 0; p < 16; ++p) {", 3)
        layer.line("const int32_t row = r, column = c;", 4)
        layer.line(f"if (++c == {p.plane_columns}) c = 0, ++r;", 4)
        layer.line(f"if (row >= rows || column >= {p.columns}) continue;", 4)
        layer.line(
            f"const int32_t at = (({self._row('row')}) * {p.columns} + column) * {outputs};", 4
        )
        if self.narrow:
            layer.line(f"(void)memcpy(y + at, turned + p * {width}, {outputs});", 4)
        else:
            layer.line(f"const {ctype} *from = turned + p * {width};", 4)
            layer.loop("o", outputs, self._finished("from[o]", bias), 4)
        for depth in (3, 2, 1):
            layer.line("}", depth)
        layer.line("}")

    def _finished(self, total: str, bias: str) -> list[str]:
        ctype = "float" if self.is_float else "int32_t"
        return [
            f"const {ctype} sum = {total};",
            *(line.replace("@BIAS@", bias) for line in self.epilogue),
        ]

    def _rows(self, bias: str, border: str) -> None:
        layer, p = self.layer, self.planes
        outputs = len(self.weights)
        ctype = "float" if self.is_float else "int32_t"
        stored = "float" if self.is_float else value_type(self.op.input)
        count = min((8, 16, 32), key=lambda n: (-(-p.columns // n) * n, -n))
        taps = [plane * p.pitch + offset for plane, offset in p.taps()]
        weights = SparseSource.of(layer, self.op, self.weights, taps)
        sums = layer.kernels.use(
            "sparse_sums", NAME=f"{stored}_{count}", ELEMENT=stored, ENTRY=weights.entry, SUM=ctype,
            COUNT=str(count),
        )  # fmt: skip
        layer.scratch(stored, "planes", p.elements, 4 if self.is_float else 1)
        weights.reserve()
        self._open()
        p.fill(layer, self.x, (stored, stored), 1, border)
        weights.declare(1)
        layer.line(f"for (int32_t o = 0; o < {outputs}; ++o) {{", 1)
        layer.line(f"const int32_t n = {weights.next_filter(p.channels, p.pitch)};", 2)
        layer.line("for (int32_t r = 0; r < rows; ++r) {", 2)
        layer.line(f"for (int32_t c = 0; c < {p.columns}; c += {count}) {{", 3)
        layer.line(f"{ctype} sums[{count}];", 4)
        layer.line(f"{sums}(planes + r * {p.plane_columns} + c, entries, n, sums);", 4)
        here = f"{p.columns} - c < {count} ? {p.columns} - c : {count}"
        if p.columns % count:
            layer.line(f"const int32_t here = {here};", 4)
        layer.line(f"int32_t at = (({self._row('r')}) * {p.columns} + c) * {outputs};", 4)
        end = "here" if p.columns % count else str(count)
        layer.line(f"for (int32_t p = 0; p < {end}; ++p, at += {outputs}) {{", 4)
        layer.block(self._finished("sums[p]", bias), 5)
        for depth in (4, 3, 2, 1):
            layer.line("}", depth)
        layer.line("}")


def sparse_integer(of: IntegerLayer, planes: Planes) -> None:
    layer, op, sums = of.layer, of.op, of.sums
    if layer.options.dsp:
        # Hosts do not need this module; the import costs some milliseconds.
        from ceras_ir.backends.c.linear_dsp import sparse_pairs

        if sparse_pairs(of, planes):
            return
    is_signed = value_type(op.input) == "int8_t"
    point = zero_point_of(sums.x)
    lines = of.epilogue("sum", "@BIAS@[o]")
    weights = np.ascontiguousarray(sums.centred()).astype(np.int8)
    moved = sums.bias - (128 if is_signed else 0) * sums.per_output
    sparse = SparseLayer(
        layer, op, planes, of.x, weights, lines, is_float=False, narrow=_narrow(of, moved)
    )
    ways = [("", sums.bias)]
    if sparse.has_code:
        ways = [(SPARSE_CONDITION, moved), (f"!({SPARSE_CONDITION})", sums.bias)]
    if sparse.narrow is not None:
        # The words of straight-line code include the biases.
        ways = ways[-1:]
    biases = [layer.integers("bias", v, condition) for condition, v in ways]
    sparse.print((biases[0], biases[-1]), (str(point + (128 if is_signed else 0)), str(point)))


def _narrow(of: IntegerLayer, biases: NDArray[np.int64]) -> NarrowSums | None:
    """
    Return the output stage as vector instructions if it is only a shift and a clamp to int8,
    otherwise `None`. `biases` is the bias of each output.
    """
    found = Epilogue.to_bytes(of.op, of.sums, of.rescale)
    if found is None or value_type(of.op.result) != "int8_t":
        return None
    shifts = np.resize(np.array(found.shifts or found.shift, np.int64), len(biases))
    return NarrowSums(biases + found.extra, shifts, found.low, found.high)


def sparse_float(layer: Layer, op: LinearOperation, planes: Planes) -> None:
    stored = np.asarray(constant_weights(op).array(), np.float32)
    weights = stored.reshape(len(stored), -1)
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    value = "sum"
    if op.bias is not None:
        value += f" + {layer.read(op.bias, 'bias')}[o]"
    if op.residual is not None:
        value += f" + {layer.read(op.residual, 'residual')}[at + o]"
    result = apply(layer.kernels, op.activation, "v")
    lines = [f"const float v = {value};", f"{y}[at + o] = {result};"]
    SparseLayer(layer, op, planes, x, weights, lines, is_float=True).print(None, ("0.0f", "0.0f"))
