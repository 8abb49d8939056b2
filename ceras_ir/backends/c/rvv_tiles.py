"""
Small register tiles of RISC-V's vector extension, by intrinsics: a few positions by `taken` outputs
in groups of four registers, whatever their length. An element of the input is a scalar factor.
"""

from ceras_ir.backends.c.walk import FLOATS, Lanes, inner_loops, pieces_parameters


def rvv_products(name: str, positions: int, lanes: Lanes, *, has_pieces: bool) -> str:
    """The text of the function `name`: sums of `positions` by `taken` outputs."""
    body = _float_step if lanes is FLOATS else _integer_step
    kind, number = ("f32", "float") if lanes is FLOATS else ("i32", "int32_t")
    weights = "float" if lanes is FLOATS else "int8_t"
    vector = f"v{'float' if lanes is FLOATS else 'int'}32m4_t"
    step = f"{lanes.step} * width" if lanes.step > 1 else "width"
    each = range(positions)
    start = [f"  {vector} s0 = __riscv_vle32_v_{kind}m4(bias, vl);"]
    if lanes is FLOATS:
        start = [
            f"  {vector} s0 = __riscv_vfmv_v_f_f32m4(0.0f, vl);",
            "  if (bias) s0 = __riscv_vle32_v_f32m4(bias, vl);",
        ]
    opening, closing = inner_loops(lanes.element, has_pieces=has_pieces)
    lines = [
        f"/* {positions} positions, `column` apart, by `taken` of `width` outputs. */",
        f"MODEL_TILE void {name}(const {lanes.element} *x, "
        f"{pieces_parameters(has_pieces=has_pieces)}int32_t runs, int32_t steps, int32_t pitch,",
        f"    int32_t column, const {weights} *w, int32_t width, int32_t taken,",
        f"    const {number} *bias, {number} *sums)",
        "{",
        *(["  (void)column;"] if positions == 1 else []),
        "  const size_t vl = (size_t)taken;",
        *start,
        *([f"  {vector} {', '.join(f's{p} = s0' for p in each[1:])};"] if positions > 1 else []),
        "  for (int32_t run = 0; run < runs; ++run, x += pitch) {",
        *opening,
        "    MODEL_ROLLED",
        f"    for (int32_t i = 0; i < steps; ++i, at += {lanes.step}, w += {step}) {{",
        *(f"      {text}" for text in body(positions, lanes)),
        *closing,
        "  }",
    ]
    for p in each:
        to = f"sums + {_times(p, 'width')}" if p else "sums"
        lines.append(f"  __riscv_vse32_v_{kind}m4({to}, s{p}, vl);")
    return "\n".join([*lines, "}", ""])


def _times(count: int, name: str) -> str:
    return f"{count} * {name}" if count > 1 else name


def _at(position: int, element: int) -> str:
    """An element of a position."""
    terms = [_times(position, "column")] if position else []
    return f"at[{' + '.join([*terms, *([str(element)] if element or not terms else [])])}]"


def _integer_step(positions: int, lanes: Lanes) -> list[str]:
    """The bytes of one output lie side by side: a segment load parts them, one after the other."""
    tuples = f"i8m1x{lanes.step}"
    lines = [
        f"const vint8m1x{lanes.step}_t bytes = __riscv_vlseg{lanes.step}e8_v_{tuples}(w, vl);",
        "vint16m2_t v;",
    ]
    for element in range(lanes.step):
        part = f"__riscv_vget_v_{tuples}_i8m1(bytes, {element})"
        lines.append(f"v = __riscv_vsext_vf2_i16m2({part}, vl);")
        lines += [
            f"s{p} = __riscv_vwmacc_vx_i32m4(s{p}, {_at(p, element)}, v, vl);"
            for p in range(positions)
        ]
    return lines


def _float_step(positions: int, lanes: Lanes) -> list[str]:
    assert lanes.step == 1
    return [
        "const vfloat32m4_t v = __riscv_vle32_v_f32m4(w, vl);",
        *(f"s{p} = __riscv_vfmacc_vf_f32m4(s{p}, {_at(p, 0)}, v, vl);" for p in range(positions)),
    ]
