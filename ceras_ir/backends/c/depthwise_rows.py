"""
Print integer depthwise convolutions for 64-bit Arm and RISC-V, a row of the result at a time.

A function computes a row: for 16 channels on Arm, or as many as the vectors of RISC-V hold, all
positions. Products of bytes have 16 bits, which hold the sum of two unless a weight is -128.
Windows that exceed the map load a row of zero points instead.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from ceras_ir.backends.c.column_words import STEP
from ceras_ir.backends.c.depthwise_tiled import PackedFilters, Windows
from ceras_ir.backends.c.integer_layer import Epilogue, IntegerLayer, padded
from ceras_ir.backends.c.neon_tiles import neon_output
from ceras_ir.backends.c.register_tiles import NEON, RVV, Stores
from ceras_ir.backends.c.tile_functions import output_name, output_parameters
from ceras_ir.backends.c.tile_loops import is_shared
from ceras_ir.backends.c.values import value_type, zero_point_of
from ceras_ir.dialects.graph import shape_of

LANES = 16
"""The channels that a function for Arm computes at once."""

UNSIGNED_OFFSET = 128
"""The number that is subtracted from unsigned bytes, which are multiplied as signed bytes."""

ROWS = f"({NEON} || {RVV})"
"""The preprocessor condition of these kernels."""

Address = Callable[[int, int], str]
"""A function that returns the C address of the first channel of the tap (row, column)."""


@dataclass(frozen=True)
class RowFunction:
    """A C function that computes a row of the result."""

    windows: Windows
    stored: str
    """The C type of the input."""
    stores: Stores
    is_full: bool
    """Whether a weight can be -128: the sum of two products may then exceed 16 bits."""

    @property
    def name(self) -> str:
        kernel = "x".join(map(str, self.windows.kernel))
        step, dilation = self.windows.strides[1], self.windows.dilations[1]
        full = "_full" if self.is_full and self.stored != "int16_t" else ""
        kind = f"{self.stored[:-2]}{full}{output_name(self.stores)}"
        return f"depthwise_row_{kernel}_{step}_{dilation}_{kind}"

    def texts(self) -> Iterator[tuple[str, str]]:
        """Return the preprocessor condition and the text of each variant."""
        for condition, lines in ((NEON, self._neon()), (RVV, self._rvv())):
            rows = output_parameters(self.stores, f"{self.stored} *const", "rows")
            text = [
                "/* A row of a depthwise convolution. `border` is a row of padding; the weights",
                " * have `padded` channels. */",
                f"MODEL_TILE void {self.name}({rows},",
                f"  const {self.stored} *border, int32_t columns, int32_t width, int32_t left,",
                "  int32_t channels, int32_t padded)",
                "{",
                *(f"  {line}" for line in lines),
                "}",
                "",
            ]
            yield condition, "\n".join(text)

    @property
    def _groups(self) -> list[list[tuple[int, int]]]:
        """The taps (row, column), of which the products of a group are added in 16 bits."""
        rows, columns = self.windows.kernel
        taps = [(k, j) for k in range(rows) for j in range(columns)]
        size = 1 if self.is_full or self.stored == "int16_t" else 2
        return [taps[at : at + size] for at in range(0, len(taps), size)]

    def _bounds(self) -> list[str]:
        stores, lines = self.stores, list[str]()
        lowest = -(1 << (stores.bits - 1)) if stores.is_signed else 0
        if not stores.low:
            lines.append(f"const int32_t low = {lowest};")
        if not stores.high:
            lines.append(f"const int32_t high = {lowest + (1 << stores.bits) - 1};")
        return lines

    def _positions(
        self, products: Callable[[Address], Sequence[str]], output: Sequence[str], start: str
    ) -> list[str]:
        """
        Return the loop over positions. `products` are the statements that compute the sums from the
        addresses of taps, and `start` declares the sums.
        """
        (rows, columns), stride = self.windows.kernel, self.windows.strides[1]
        dilation = self.windows.dilations[1]

        def inside(row: int, column: int) -> str:
            step = column * dilation
            return f"x{row}" + (f" + {step} * channels" if step > 1 else " + channels" * step)

        def at_edge(row: int, column: int) -> str:
            step = column * dilation
            return f"(is_in{column} ? x{row} + {step} * channels : edge)"

        first = f"p * {stride}" if stride > 1 else "p"
        return [
            *(f"const {self.stored} *const r{k} = rows[{k}] + c;" for k in range(rows)),
            f"const {self.stored} *const edge = border + c;",
            "for (int32_t p = 0; p < columns; ++p) {",
            f"  const int32_t first = {first} - left, at = p * channels;",
            f"  {start}",
            f"  if (first >= 0 && first + {(columns - 1) * dilation} < width) {{",
            *(
                f"    const {self.stored} *const x{k} = r{k} + first * channels;"
                for k in range(rows)
            ),
            *(f"    {line}" for line in products(inside)),
            "  } else {",
            *(
                f"    const {self.stored} *const x{k} = r{k} + first * channels;"
                for k in range(rows)
            ),
            *(
                f"    const int is_in{j} = first + {j * dilation} >= 0"
                f" && first + {j * dilation} < width;"
                for j in range(columns)
            ),
            *(f"    {line}" for line in products(at_edge)),
            "  }",
            *(f"  {line}" for line in output),
            "}",
        ]

    def _neon(self) -> list[str]:
        rows, columns = self.windows.kernel
        fours, is_wide = -(-rows // STEP), self.stored == "int16_t"
        weights: list[str] = []
        for j, g in product(range(columns), range(fours)):
            place = f"4 * ({j * fours + g} * padded + c)"
            weights.append(f"const int8x16x4_t w{j}_{g} = vld4q_s8(w + {place});")
        for k, j in product(range(rows), range(columns)) if is_wide else ():
            w = f"w{j}_{k // STEP}.val[{k % STEP}]"
            weights.append(
                f"const int16x8_t u{k}_{j} = vmovl_s8(vget_low_s8({w})), "
                f"v{k}_{j} = vmovl_high_s8({w});"
            )

        def products(address: Address) -> Iterator[str]:
            sums = "b0, b1, b2, b3"
            if not is_wide:
                yield "int16x8_t l, h;"
            for group in self._groups:
                for i, (k, j) in enumerate(group):
                    if is_wide:
                        yield f"NEON_ADD_WORDS({sums}, {address(k, j)}, u{k}_{j}, v{k}_{j});"
                        continue
                    load = f"NEON_LOAD({address(k, j)})"
                    load = f"NEON_FLIPPED({load})" if self.stored == "uint8_t" else load
                    tap = "NEON_NEXT_TAP" if i else "NEON_TAP"
                    w = f"w{j}_{k // STEP}.val[{k % STEP}]"
                    yield f"{{ const int8x16_t x = {load}; {tap}(x, {w}); }}"
                if not is_wide:
                    yield f"NEON_ADD_TAPS({sums});"
                sums = "s0, s1, s2, s3"

        output: list[str] = []
        for half in range(2):
            place = f"c + {8 * half}" if half else "c"
            output += [
                "{",
                f"  const int32_t o = {place};",
                f"  int32x4_t a = s{2 * half}, b = s{2 * half + 1};",
                *(f"  {line}" for line in neon_output(self.stores)),
                "}",
            ]
        start = "int32x4_t s0, s1, s2, s3;"
        return [
            *self._bounds(),
            f"for (int32_t block = 0; block < channels; block += {LANES}) {{",
            f"  const int32_t c = block < channels - {LANES} ? block : channels - {LANES};",
            *(f"  {line}" for line in weights),
            *(f"  const int32x4_t b{i} = vld1q_s32(bias + c + {4 * i});" for i in range(4)),
            *(f"  {line}" for line in self._positions(lambda a: [*products(a)], output, start)),
            "}",
        ]

    def _rvv(self) -> list[str]:
        columns, is_wide = self.windows.kernel[1], self.stored == "int16_t"

        def products(address: Address) -> Iterator[str]:
            if not is_wide:
                yield "vint16m4_t t;"
            for group in self._groups:
                for i, (k, j) in enumerate(group):
                    tap = k * columns + j
                    w = f"taps + {tap} * channels" if tap else "taps"
                    if is_wide:
                        yield f"RVV_ADD_WORDS(s, {address(k, j)}, {w});"
                        continue
                    load = "RVV_FLIPPED" if self.stored == "uint8_t" else "RVV_BYTES"
                    macro = "RVV_NEXT_TAP" if i else "RVV_TAP"
                    yield f"{macro}({load}({address(k, j)}), {w});"
                if not is_wide:
                    yield "RVV_ADD_TAPS(s);"

        start = "vint32m8_t s = __riscv_vle32_v_i32m8(bias + c, vl);"
        output = [*_rvv_output(self.stores)]
        return [
            "(void)padded;",
            "for (int32_t c = 0, taken; c < channels; c += taken) {",
            "  const size_t vl = __riscv_vsetvl_e32m8((size_t)(channels - c));",
            "  const int8_t *const taps = w + c;",
            "  taken = (int32_t)vl;",
            *(f"  {line}" for line in self._positions(lambda a: [*products(a)], output, start)),
            "}",
        ]


def _rvv_output(stores: Stores) -> Iterator[str]:
    """Return the C statements of the output stage of the sums `s` for RISC-V."""
    if stores.has_residual:
        bits, factor = stores.residual_bits, 32 // stores.residual_bits
        load = f"__riscv_vle{bits}_v_i{bits}m{8 // factor}(&residual[at + c], vl)"
        yield f"const vint32m8_t skip = __riscv_vsext_vf{factor}_i32m8({load}, vl);"
        if stores.has_factors:
            yield "s = __riscv_vmacc_vv_i32m8(s, skip, __riscv_vle32_v_i32m8(&factors[c], vl), vl);"
        else:
            yield "s = __riscv_vmacc_vx_i32m8(s, 1 << left_shift, skip, vl);"
    multipliers = "__riscv_vle32_v_i32m8(&multipliers[c], vl)"
    shift = "(size_t)shift"
    if stores.scale_bits == 64:
        yield "s = rvv_scaled_64(s, &multipliers[c], after, shift, vl);"
        shift = "0"
    elif stores.scale_bits:
        yield f"s = __riscv_vmul_vv_i32m8(s, {multipliers}, vl);"
        yield "s = __riscv_vadd_vx_i32m8(s, after, vl);"
    elif stores.has_shifts:
        by = "__riscv_vreinterpret_v_i32m8_u32m8(__riscv_vle32_v_i32m8(&shifts[c], vl))"
        yield f"s = __riscv_vsra_vv_i32m8(s, {by}, vl);"
        shift = "0"
    yield f"vint16m4_t n = __riscv_vnclip_wx_i16m4(s, {shift}, __RISCV_VXRM_RDN, vl);"
    if stores.low or not stores.is_signed:
        yield f"n = __riscv_vmax_vx_i16m4(n, (int16_t){'low' if stores.low else '0'}, vl);"
    if stores.high:
        yield "n = __riscv_vmin_vx_i16m4(n, (int16_t)high, vl);"
    if stores.bits == 16:
        yield "__riscv_vse16_v_i16m4(&y[at + c], n, vl);"
    elif stores.is_signed:
        narrow = "__riscv_vnclip_wx_i8m2(n, 0, __RISCV_VXRM_RDN, vl)"
        yield f"__riscv_vse8_v_i8m2(&y[at + c], {narrow}, vl);"
    else:
        words = "__riscv_vreinterpret_v_i16m4_u16m4(n)"
        narrow = f"__riscv_vnclipu_wx_u8m2({words}, 0, __RISCV_VXRM_RDN, vl)"
        yield f"__riscv_vse8_v_u8m2(&y[at + c], {narrow}, vl);"


def print_depthwise_rows(of: IntegerLayer, filters: PackedFilters) -> None:
    """
    Print the statements of a depthwise layer for 64-bit Arm and RISC-V. `filters` are the constants
    that all vectors share. `has_columns` must hold.
    """
    layer, op, sums, x = of.layer, of.window, of.sums, of.x
    epilogue = Epilogue.of(op, sums, of.rescale)
    assert epilogue is not None
    windows, stored, channels = Windows.of(op), value_type(op.input), shape_of(op.input)[3]
    (height, width), (rows, columns) = windows.size, windows.result
    (kernel_h, kernel_w), (top, left) = windows.kernel, windows.before
    (stride_h, stride_w), (dilation_h, dilation_w) = windows.strides, windows.dilations
    images, count = shape_of(op.input)[0], filters.count
    offset = UNSIGNED_OFFSET if stored == "uint8_t" else 0
    values = sums.bias + offset * sums.per_output + epilogue.extra
    bias = layer.constant("bias", "int32_t", count, 4, lambda: padded(values, count), ROWS)
    factors = [1 << shift for shift in op.residual_shifts] if of.factors else []
    stores = Stores(0, 0, bool(of.residual), is_masked=False).with_epilogue(epilogue, factors)
    is_full = bool((sums.centred() == -128).any())
    function = RowFunction(windows, stored, stores, is_full)
    layer.kernels.use("depthwise_rows")
    for condition, text in function.texts():
        layer.kernels.add(f"{function.name} of {condition}", text, condition)
    taps = layer.scratch("int8_t", "filters", prod(windows.kernel) * channels, 1)
    weights = filters.expanded(layer)
    layer.lines.append(f"#if {RVV}")
    layer.line(f"rvv_filters({taps}, {weights}, {kernel_h}, {kernel_w}, {channels}, {count});")
    layer.lines.append("#endif")
    exceeds_rows = top > 0 or (rows - 1) * stride_h - top + (kernel_h - 1) * dilation_h >= height
    exceeds = (
        exceeds_rows or left > 0
        or (columns - 1) * stride_w - left + (kernel_w - 1) * dilation_w >= width
    )  # fmt: skip
    border = "rows[0]"
    if exceeds:
        size = width * channels if exceeds_rows else channels
        border = layer.scratch(stored, "border", size, 2 if stored == "int16_t" else 1)
        layer.loop("i", size, [f"border[i] = {zero_point_of(sums.x)};"])
    row = f"n % {rows}" if images > 1 else "n"
    start = f"{row} * {stride_h}" if stride_h > 1 else row
    places: list[str] = []
    for k in range(kernel_h):
        source = f"first + {k * dilation_h}" if k else "first"
        image = f"n / {rows} * {height} + " if images > 1 else ""
        place = f"{x} + ({image}{source}) * {width * channels}"
        if exceeds_rows:
            place = f"{source} >= 0 && {source} < {height} ? {place} : border"
        places.append(place)
    arguments = of.output_arguments(
        epilogue, f"n * {columns * channels}", "", filters.multipliers, filters.shifts
    )
    body = [
        f"const int32_t first = {start}{f' - {top}' if top else ''};",
        f"const {stored} *const rows[{kernel_h}] = {{",
        *(f"  {place}," for place in places),
        "};",
        f"{function.name}(rows, {RVV} ? {taps} : {weights}, {bias}, {arguments},",
        f"  {border}, {columns}, {width}, {left}, {channels}, {count});",
    ]
    if is_shared(layer):
        layer.line("MODEL_THREADS(1)")
    layer.loop("n", images * rows, body)
