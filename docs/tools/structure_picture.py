"""Draw docs/images/structure.svg: the core of the compiler and the extensions."""

from levels_picture import GRAPH, MACHINE, MEMORY, box, picture, text

WIDTH, HEIGHT = 912, 494
CORE = (20, 20, 560, 388)
"""Left, top, width and height of the frame of the core."""
COLUMNS = (44, 306)
EXTENSIONS = (
    ("VTA", "tiles, streams, simulator", MACHINE),
    ("nnet", "C++ engine, circuits", MACHINE),
    ("dataflow", "a circuit for each layer", MACHINE),
    ("ONNX, MLIR", "export: Q/DQ, linalg", MACHINE),
    ("TFLite, TOSA", "import of .tflite, MLIR text", GRAPH),
    ("workbench", "reports, exploration, retraining", MEMORY),
)
ROWS = (
    (("commands and Python API", "driver, api"), ("ONNX importer", "frontends")),
    (("stages, pass execution", "pipeline"), ("passes by subject", "transforms")),
    (("target protocol", "targets"), ("C, Arduino, interp", "backends")),
    (("operations in numpy", "interpreters"), ("graph, quant, mem, sparse", "dialects")),
    (("network facts, samples", "network, data"), ("diagnostics, caches", "support")),
)
"""Parts of the core, from users to used parts."""


def frame() -> list[str]:
    x, y, width, height = CORE
    return [
        f'<rect class="line" x="{x}" y="{y}" width="{width}" height="{height}" rx="10"/>',
        text(x + width / 2, y + 24, "core: ONNX to C, verified", anchor="middle"),
    ]


def core() -> list[str]:
    parts: list[str] = []
    for i, row in enumerate(ROWS):
        for x, (title, below) in zip(COLUMNS, row, strict=True):
            parts += box(x, 60 + 66 * i, title, below, GRAPH)
    return parts


def extensions() -> list[str]:
    left, right = CORE[0] + CORE[2], 642
    parts = [text(right, 44, "extensions: each can be deleted")]
    for i, (title, below, fill) in enumerate(EXTENSIONS):
        y = 60 + 66 * i
        parts += box(right, y, title, below, fill)
        arrow = f"M{right} {y + 23}H{left + 9}"
        parts.append(f'<path class="line" d="{arrow}" marker-end="url(#head)"/>')
    parts.append(text(right, 470, "They register themselves by entry points."))
    return parts


def structure_picture() -> str:
    label = "The core of the compiler and the extensions"
    return picture(WIDTH, HEIGHT, label, [*frame(), *core(), *extensions()])
