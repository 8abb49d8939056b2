"""
Print the conversion of camera frames to images.

The template `decode_frame.c` is filled with the C code that decodes a pixel of the format.
"""

from ceras_ir.backends.c.layer import Layer, prints
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import FrameFormat, shape_of
from ceras_ir.dialects.graph.camera import BAYER, PACKED, PLANAR, Channels


@prints(graph.DecodeFrameOp)
def decode_frame(layer: Layer, op: graph.DecodeFrameOp) -> None:
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    format, channels, kind = op.format.data, op.channels.data, op.kind.data
    _, rows, columns, depth = shape_of(op.result)
    if format in PACKED | PLANAR:
        layer.kernels.use("upper_byte")
    function = layer.kernels.use(
        "decode_frame",
        NAME=f"{format}_{channels}_{kind}",
        CHANNELS=str(depth),
        PLACE=layer.kernels.use(f"{kind}_place"),
        PIXEL="".join(f"  {line}\n" for line in (*_color(format), *_stored(format, channels))),
    )
    top, left, height, width = op.region
    numbers = (op.layout.height, op.layout.width, top, left, height, width, rows, columns)
    layer.line(f"static const struct frame f = {{{', '.join(map(str, numbers))}}};")
    layer.line(f"{function}({x}, {y}, &f);")


def _color(format: FrameFormat) -> list[str]:
    """
    Return the C lines that read the pixel at `row` and `column` of a frame in `format`. They set
    `red`, `green` and `blue`, or for YUV formats `luma`, `u` and `v`.
    """
    at = "const int32_t at = row * f->width + column;"
    if format in PACKED:
        luma, chroma = (0, 1) if format is FrameFormat.YUYV else (1, 0)
        return [
            at,
            "const uint8_t *const pair = x + 2 * (at & ~1);",
            f"const int32_t luma = x[2 * at + {luma}];",
            f"const int32_t u = pair[{chroma}], v = pair[{chroma + 2}];",
        ]
    if format in PLANAR:
        u, v = (0, 1) if format is FrameFormat.NV12 else (1, 0)
        return [
            at,
            "const uint8_t *const pair = x + (f->height + row / 2) * f->width + (column & ~1);",
            f"const int32_t luma = x[at], u = pair[{u}], v = pair[{v}];",
        ]
    if format in BAYER:
        (ry, rx), (by, bx) = BAYER[format]
        place = "corner[{} * f->width + {}]"
        red, blue = place.format(ry, rx), place.format(by, bx)
        greens = place.format(ry, bx), place.format(by, rx)
        return [
            "const uint8_t *const corner = x + (row & ~1) * f->width + (column & ~1);",
            f"const int32_t red = {red}, blue = {blue};",
            f"const int32_t green = ({greens[0]} + {greens[1]} + 1) / 2;",
        ]
    match format:
        case FrameFormat.GRAY:
            return [at, "const int32_t red = x[at], green = red, blue = red;"]
        case FrameFormat.RGB888 | FrameFormat.BGR888:
            red, blue = (0, 2) if format is FrameFormat.RGB888 else (2, 0)
            return [
                at,
                f"const int32_t red = x[3 * at + {red}], green = x[3 * at + 1];",
                f"const int32_t blue = x[3 * at + {blue}];",
            ]
        case _:
            upper = 0 if format is FrameFormat.RGB565_BE else 1
            return [
                at,
                f"const int32_t word = x[2 * at + {upper}] * 256 + x[2 * at + {1 - upper}];",
                "const int32_t five = word >> 11, six = word >> 5 & 63, last = word & 31;",
                "const int32_t red = five << 3 | five >> 2, green = six << 2 | six >> 4;",
                "const int32_t blue = last << 3 | last >> 2;",
            ]


def _stored(format: FrameFormat, channels: Channels) -> list[str]:
    """
    Return the C lines that convert the pixel of `_color` to the channels of the image (RGB, BGR or
    gray) and store them in `rgb`.
    """
    red, blue = (0, 2) if channels is Channels.RGB else (2, 0)
    if format in PACKED | PLANAR:
        lines = ["const int32_t c = 298 * (luma - 16) + 128;"]
        if channels is Channels.GRAY:
            return [*lines, "(void)u;", "(void)v;", "rgb[0] = upper_byte(c);"]
        return [
            *lines,
            "const int32_t d = u - 128, e = v - 128;",
            f"rgb[{red}] = upper_byte(c + 409 * e);",
            "rgb[1] = upper_byte(c - 100 * d - 208 * e);",
            f"rgb[{blue}] = upper_byte(c + 516 * d);",
        ]
    if channels is not Channels.GRAY:
        return [f"rgb[{red}] = red;", "rgb[1] = green;", f"rgb[{blue}] = blue;"]
    if format is FrameFormat.GRAY:
        return ["(void)green;", "(void)blue;", "rgb[0] = red;"]
    return ["rgb[0] = (77 * red + 150 * green + 29 * blue + 128) >> 8;"]
