"""Draw docs/images/levels.svg: the levels of the compiler.

Boxes have a light background and dark text. All other parts are gray, which is visible on white
and on black, so a single file serves light and dark pages.
"""

from html import escape

WIDTH, HEIGHT = 912, 724
BOX = 46
GREY = "#7a828c"
INK = "#1f2328"
GRAPH, MEMORY, MACHINE = "#dbeafe", "#fef3c7", "#dcfce7"
LANES = {"C": 20, "nnet": 307, "VTA": 594}
LANE_WIDTH = 250


def text(x: float, y: float, words: str, *, css: str = "note", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{css}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: float, y: float, title: str, below: str, fill: str) -> list[str]:
    middle = x + LANE_WIDTH / 2
    return [
        f'<rect x="{x}" y="{y}" width="{LANE_WIDTH}" height="{BOX}" rx="7" fill="{fill}"/>',
        text(middle, y + 20, title, css="title", anchor="middle"),
        text(middle, y + 37, below, css="below", anchor="middle"),
    ]


def arrow(x: float, y: float, end: float, label: str = "") -> list[str]:
    line = f'<path class="line" d="M{x:g} {y:g}V{end - 7:g}" marker-end="url(#head)"/>'
    return [line, text(x + 10, (y + end) / 2 + 3, label, css="pass")] if label else [line]


def trunk() -> list[str]:
    """Return the levels of all targets, with a note next to each."""
    x, middle = LANES["C"], LANES["C"] + LANE_WIDTH / 2
    rows = (
        (20, "", "model.onnx", "as exported", "#e5e7eb", ""),
        (96, "import", "float graph", "graph on f32 tensors, NHWC",
         GRAPH, "Shapes, folded constants, node names. Unsupported nodes are refused."),
        (172, "--fuse", "fused graph", "graph",
         GRAPH, "Batch norm, SiLU, activations and residuals are fused."),
        (248, "--quantize", "quantized graph", "graph on !quant.uniform tensors",
         GRAPH, "Scales, shifts, rounding, clamps: the reference for all later levels."),
        (324, "--place", "placed graph", "+ mem.device on each operation",
         GRAPH, "The device of each operation, and the reason for the CPU."),
    )  # fmt: skip
    parts: list[str] = []
    for y, how, title, below, fill, note in rows:
        parts += box(x, y, title, below, fill)
        if how:
            parts += arrow(middle, y - 76 + BOX, y, how)
        if note:
            parts.append(text(x + LANE_WIDTH + 22, y + 28, note))
    return parts


def lanes() -> list[str]:
    """Return the levels of each target."""
    parts: list[str] = []
    spread, top = 392, 324 + BOX
    middles = {name: x + LANE_WIDTH / 2 for name, x in LANES.items()}
    first, last = middles["C"], middles["VTA"]
    parts.append(f'<path class="line" d="M{first:g} {top}V{spread}H{last:g}"/>')
    for name, end in (("C", 568), ("nnet", 568), ("VTA", 416)):
        parts += arrow(middles[name], spread, end)
        if end == 568:
            parts.append(text(middles[name] + 10, 553, "--allocate-blocks", css="pass"))
        parts.append(text(middles[name] + 10, spread + 15, f"--target {name.lower()}", css="pass"))
    x, middle = LANES["VTA"], middles["VTA"]
    parts += box(x, 416, "packed graph", "mem.launch, vectors of 16 channels", GRAPH)
    parts += arrow(middle, 416 + BOX, 492, "--tile")
    parts += box(x, 492, "tile", "tile, scf, memref: blocks, loop order", GRAPH)
    parts += arrow(middle, 492 + BOX, 568, "--allocate-blocks")
    plans = {"C": "byte offsets", "nnet": "byte offsets", "VTA": "a flat DRAM image"}
    machines = {
        "C": ("C99", "model.c, model.h, weights"),
        "nnet": ("nnet", "a file: layer table, blocks, weights"),
        "VTA": ("vta", "128-bit instructions, DRAM image"),
    }
    runners = {"C": "host compiler", "nnet": "C++17 engine", "VTA": "simulator, or your program"}
    for name, x in LANES.items():
        middle = middles[name]
        parts += box(x, 568, "memory", f"mem.block: {plans[name]}", MEMORY)
        parts += arrow(middle, 568 + BOX, 644)
        parts += box(x, 644, *machines[name], MACHINE)
        parts.append(text(middle, 708, f"run by: {runners[name]}", anchor="middle"))
    return parts


def band() -> list[str]:
    """Return the bracket at the right: the levels that ceras-verify compares."""
    x = 864
    return [
        f'<path class="line" d="M{x} 248h8V690h-8"/>',
        f'<g transform="translate({x + 24} 469) rotate(90)">',
        text(0, 0, "ceras-verify: each level runs, integers are equal", anchor="middle"),
        "</g>",
    ]


def picture(width: int, height: int, label: str, parts: list[str]) -> str:
    """Return an SVG document in the style of all pictures."""
    style = (
        "text{font-family:-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}"
        f".title{{font-size:14px;font-weight:600;fill:{INK}}}"
        f".below{{font-size:12px;fill:{INK}}}"
        f".note{{font-size:13px;fill:{GREY}}}"
        f".pass{{font-size:12px;fill:{GREY};font-family:ui-monospace,Consolas,monospace}}"
        f".line{{fill:none;stroke:{GREY};stroke-width:1.5}}"
    )
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="2" refY="4" markerWidth="6" markerHeight="6" '
        f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{GREY}"/></marker>'
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" aria-label="{escape(label)}">',
            f"<style>{style}</style>",
            f"<defs>{head}</defs>",
            *parts,
            "</svg>",
        ]
    )


def levels_picture() -> str:
    return picture(WIDTH, HEIGHT, "Levels of the compiler", [*trunk(), *lanes(), *band()])
