"""
Create mutants of files with other formats, and of values of options.

The formats are TensorFlow Lite, programs of PyTorch, `.npy`, nnet, images, names of classes,
configurations in TOML, and declarations of plugins.
"""

import io
import json
import string
import struct
import zipfile
import zlib
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, cast

import numpy as np
from backends.nnet.verdicts import mutant as nnet_mutant
from mutants import archives
from mutants.folders import Table, as_toml, mutate
from tflite_cases import CASES

NUMBERS = (
    *("0", "1", "-1", "2", "1.5", "nan", "inf", "-inf", "1e999", "1e-999", "0x10", "1_0", "٣", "½"),
    *(
        "9" * 30,
        "9" * 5000,
        str(1 << 31),
        str(1 << 63),
        "",
        " ",
        "+1",
        "--1",
        "1,2",
        "1..3",
        "..",
        "x",
    ),
)
WORDS = (
    *(
        "x",
        "y",
        "nothing",
        "",
        "*",
        "a b",
        "a\nb",
        "\x1b[31m",
        "é" * 300,
        "../x",
        "/dev/null",
        "--",
        "-",
    ),
    *("%s%n", "{}", "'", '"', "\\", "x=", "=", "\ud800"),
)


def word(random: Random) -> str:
    """Draw a name, a number, or a text of random characters."""
    match random.randrange(4):
        case 0:
            return random.choice(WORDS)
        case 1 | 2:
            return random.choice(NUMBERS)
        case _:
            return "".join(random.choices(string.printable, k=random.randrange(12)))


@cache
def tflite_sources() -> tuple[bytes, ...]:
    """Return the files of all networks for the frontend of TensorFlow Lite."""
    return tuple(build().data() for build in CASES.values())


def tflite(random: Random) -> bytes:
    """Return a TensorFlow Lite file in which offsets, numbers or bytes are changed."""
    data = bytearray(random.choice(tflite_sources()))
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(data) // 4) * 4
        old = int.from_bytes(data[at : at + 4], "little", signed=True)
        near = (old + 4, old - 4, old + 1, -old, old * 2)
        limits = (0, 1, -1, 255, 1 << 16, (1 << 31) - 1, -(1 << 31))
        number = random.choice(near if random.random() < 0.5 else limits)
        data[at : at + 4] = (number % (1 << 32)).to_bytes(4, "little")
    return archives.changed(random, bytes(data)) if random.random() < 0.3 else bytes(data)


PROGRAM: Table = {
    "archive_format": "pt2",
    "models/model.json": {
        "graph_module": {
            "graph": {"nodes": [{"target": "torch.ops.aten.relu.default", "metadata": {}}]},
            "signature": {"input_specs": [], "output_specs": []},
        },
        "guards_code": ["f()"],
    },
    "data/weights/model_weights_config.json": {
        "config": {"w": {"path_name": "weight_0", "use_pickle": False}}
    },
    "data/weights/weight_0": "1234",
    "data/sample_inputs/model.pt": "pickle",
}


def program(random: Random) -> bytes:
    """Return an archive of an exported program of PyTorch with a changed member or other bytes."""
    content = mutate(random, json.loads(json.dumps(PROGRAM)))
    members: dict[str, object] = {"archive_format": content}
    if isinstance(content, dict):
        members = {str(name): value for name, value in cast("dict[Any, object]", content).items()}
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as file:
        for name, value in members.items():
            text = value if isinstance(value, str) else json.dumps(value)
            file.writestr(f"net/{name}", text.encode(errors="replace"))
    data = buffer.getvalue()
    return archives.changed(random, data) if random.random() < 0.5 else data


def image(random: Random) -> tuple[str, bytes]:
    """Return the name and bytes of a mutant of an image."""
    size = [random.choice((0, 1, 6, 7, 1 << 15, (1 << 31) - 1)) for _ in range(2)]
    pixels = bytes(random.choice((0, 1, 108, 1000)))
    if random.random() < 0.5:
        kind, limit = random.choice(("P6", "P5", "P4", "P9")), random.choice(NUMBERS[:12])
        text = f"{kind} {size[0]} {size[1]} {limit}\n"
        data, name = text.encode() + pixels, "a.ppm"
    else:
        depth, colour = random.choice((1, 8, 16, 99)), random.choice((0, 2, 3, 6, 7))
        header = struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, random.choice((0, 1)))
        chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(pixels)), (b"IEND", b""))
        data, name = b"\x89PNG\r\n\x1a\n", "a.png"
        for kind, body in chunks:
            check = struct.pack(">I", zlib.crc32(kind + body))
            data += struct.pack(">I", len(body)) + kind + body + check
    return name, archives.changed(random, data) if random.random() < 0.4 else data


def array(random: Random) -> bytes:
    """Return a mutant of an `.npy` file."""
    np.save(buffer := io.BytesIO(), np.zeros((1, 2, 6, 6), np.float32))
    return archives.changed(random, buffer.getvalue())


def nnet(random: Random, original: bytes) -> bytes:
    """Return a mutant of an nnet file, with or without right checksums."""
    rng = np.random.default_rng(random.randrange(1 << 32))
    data = nnet_mutant(original, rng)
    return archives.changed(random, data) if random.random() < 0.3 else data


def labels(random: Random) -> bytes:
    """Return names of classes, a name per line."""
    lines = [
        word(random).encode(errors="surrogatepass") for _ in range(random.choice((0, 1, 3, 50)))
    ]
    return random.choice((b"\n", b"\r\n", b"\r", b"\0")).join(lines)


REGIONS: Table = {
    "memory": {
        "region": [
            {"name": "fast", "bytes": 4096, "bytes_per_us": 400.0},
            {"name": "slow", "bytes": 1 << 20, "bytes_per_us": 40.0},
        ]
    }
}


def regions(random: Random) -> str:
    """Return a mutant of a table of memories in TOML."""
    text = as_toml(mutate(random, json.loads(json.dumps(REGIONS))))
    return text if random.random() < 0.7 else text[: random.randrange(len(text) + 1)]


DECLARATIONS = (
    "{name} = {value}",
    "size: int = {value}",
    "names: tuple[str, ...] = {value}",
    "other: {value} = None",
    "choice: 'nothing' = 1",
    "name = {value}",
    "def apply(self, ctx, op): pass",
    "def apply(self): pass",
    "apply = {value}",
    "{value}",
)
VALUES = (
    "None",
    "1",
    "'x'",
    "(1, 'a')",
    "[]",
    "int",
    "print",
    "...",
    "object()",
    "lambda: 0",
    "1 / 0",
)


def plugin(random: Random) -> str:
    """Return a plugin with a pass, a dialect or a target, and random declarations."""
    base = random.choice(("ModulePass", "Target", "Dialect", "object"))
    lines = [
        "from dataclasses import dataclass",
        "from xdsl.ir import Dialect",
        "from xdsl.passes import ModulePass",
        "from ceras_ir.targets import Target",
        random.choice(("@dataclass(frozen=True)", "@dataclass", "")),
        f"class Mine({base}):",
        f"    name = {random.choice(WORDS)!r}" if random.random() < 0.3 else "    name = 'mine'",
    ]
    for _ in range(random.randrange(4)):
        line = random.choice(DECLARATIONS)
        name, value = random.choice(("a", "_b", "name", "board")), random.choice(VALUES)
        lines.append(f"    {line.format(name=name, value=value)}")
    if base == "Dialect":
        lines = [*lines[:4], f"mine = Dialect({random.choice(WORDS)!r}, [{random.choice(VALUES)}])"]
    return "\n".join([*lines, ""])


OPTIONS = (
    "--set", "--shape", "--batch", "--fail-if", "--image-size", "--image-mean", "--image-scale",
    "--calibration-samples", "--budget", "--goal", "--float", "--int16", "--recipe", "--prune",
    "--at", "--board", "--sample-memory", "--compiler-timeout", "--observer", "--frame-size",
    "--frame-crop", "--input-image", "--quantize", "--silu", "--rows", "--encoding", "--name",
)  # fmt: skip


def options(random: Random) -> list[str]:
    """Return one to three options of `ceras-compile` with random values."""
    found: list[str] = []
    for name in random.sample(OPTIONS, random.randint(1, 3)):
        values = [word(random) for _ in range(random.choice((1, 1, 2, 4)))]
        value = random.choice(("x", ",", "=", "..", ":")).join(values)
        if name in ("--set", "--shape") and random.random() < 0.7:
            value = f"x={value}"
        found.append(f"{name}={value}".replace("\0", ""))
    return found


def condition(random: Random) -> str:
    """Return a condition on figures of a study."""
    parts = ("flash", "macs", "top_1", "<", ">", "==", "and", "or", "not", "(", ")", "+", "/", "**")
    tokens = [random.choice((*parts, random.choice(NUMBERS))) for _ in range(random.randint(1, 30))]
    text = " ".join(tokens)
    return text if random.random() < 0.5 else f"flash < 10 and {'(' * 200}{text}{')' * 200}"


def nnet_file(folder: Path) -> bytes:
    """Return the nnet file of a compiled folder."""
    return (folder / "nnet" / "model.nnet").read_bytes()
