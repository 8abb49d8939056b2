"""
Draw options of the commands at random; all fuzzers use this table.

The table omits options for search effort or parallelism (`--jobs`, `--tune`, `--workers`), options
of image folders, and combinations that the commands reject by design.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.targets.registry import find_target
from ceras_ir.workbench.explore.board_variants import board_variants

Random = np.random.Generator


@dataclass(frozen=True)
class Choices:
    """An option and its possible values; it is given in 1 of `rarity` draws."""

    flag: str
    values: Sequence[str] = ()
    """
    The values. `{layer}` is replaced by a layer of the network, and semicolons separate several
    values of an option. An empty list means that the option is a switch.
    """
    rarity: int = 4


QUANTIZATION = (
    Choices("--silu", ("table", "table16", "hardswish", "float", "piecewise")),
    Choices("--observer", ("mse", "minmax")),
    Choices("--rows", ("integer", "float")),
    Choices("--calibration-samples", ("1", "5", "16")),
    Choices("--calibration-seed", ("3",), 8),
    Choices(
        "--recipe",
        (
            "none",
            "choose-zero-points",
            "equalize-channels",
            "round-weights",
            "fit-inputs",
            "choose-precision",
            "choose-row-exponents",
            "choose-row-exponents,choose-zero-points",
            "equalize-channels,choose-row-exponents,round-weights",
        ),
    ),
)
PRECISION = (
    Choices("--budget", ("0", "0.5", "1")),
    Choices("--int16", ("*", "{layer}", "{layer}", "{layer},{layer}"), 3),
    Choices("--float", ("{layer}", "{layer}", "{layer},{layer}"), 3),
    Choices("--weight-bits", ("2", "4", "7"), 3),
)
"""Layers with more or less than int8; omitted for models that specify the quantization."""
PRUNING = (
    Choices(
        "--prune",
        (
            "threshold=0.05",
            "sparsity=0.5",
            "sparsity=0.99",
            "method=filter sparsity=0.7",
            "method=global sparsity=0.8",
            "method=nm pattern=1:4",
            "method=block sparsity=0.5",
            "ratios=*:0.4",
            "target-loss=20",
        ),
        6,
    ),
)
AGAIN = (
    Choices(
        "--at",
        (
            "fused graph;fuse",
            "fused graph;canonicalize",
            "quantized graph;fuse,quantize",
            "quantized graph;canonicalize",
            "placed graph;canonicalize",
        ),
    ),
)
"""Options for quantized networks: passes that change no value or have no effect."""
TARGETS: Mapping[str, tuple[Choices, ...]] = {
    "c": (
        Choices("--encoding", ("auto", "dense", "csr", "csr-int8", "code"), 3),
        Choices("--weights", ("source", "file", "incbin")),
        Choices("--no-winograd"),
        Choices("--regions", ("sram:700,psram:8388608", "a:8192,b:65536,c:8388608")),
    ),
    "arduino": (Choices("--encoding", ("auto", "dense", "csr", "csr-int8", "code"), 3),),
    "nnet": (),
    "onnx": (),
    "vta": (
        Choices("--convolution", ("direct", "im2col", "kn2row"), 2),
        Choices("--streams", ("layers",)),
    ),
}
FOLDERS = (Choices("--name", ("net",)), Choices("--python-wrapper", rarity=6))
"""Options of target c in ceras-compile."""


def draw(random: Random, choices: Sequence[Choices], layers: Sequence[str] = ()) -> list[str]:
    """Draw some of the options."""
    found = list[str]()
    for each in choices:
        if random.integers(each.rarity):
            continue
        values = [value for value in each.values if layers or "{layer}" not in value]
        if each.values and not values:
            continue
        found.append(each.flag)
        if values:
            value = str(random.choice(values))
            while "{layer}" in value:
                value = value.replace("{layer}", str(random.choice(layers)), 1)
            found += value.split(";")
    return found


def draw_board(random: Random, target: str, folder: Path) -> list[str]:
    """Draw a built-in board, a random board written to `folder`, or no board."""
    if random.integers(2) or target == "onnx":
        return []
    if (made := BOARDS.get(target)) is not None and random.integers(3):
        return ["--board", str(made(random, folder))]
    return ["--board", str(random.choice(sorted(find_target(target).boards())))]


def _vta_board(random: Random, folder: Path) -> Path:
    """Write a VTA board with any intrinsic and buffers of random sizes."""
    batch, block = int(random.integers(3)), int(random.integers(2, 6))
    inp, wgt, acc = (int(random.integers(6, 13)) for _ in range(3))
    uops, bus = int(random.integers(7, 14)), 1 << int(random.integers(2, 6))
    board = VtaBoard("fuzz", uops, inp, wgt, acc, bus_bytes=bus, log_batch=batch, log_block=block)
    path = folder / "board.json"
    path.write_text(json.dumps(board.config()))
    return path


def _nnet_board(random: Random, folder: Path) -> Path:
    """Write the built-in board with random sizes and speeds, so that other layers use the FPGA."""
    fields: dict[str, Sequence[object]] = {
        "array.lanes": (4, 8, 16, 32),
        "array.bus_bytes": (4, 8, 16),
        "circuits.conv2d.launch_us": (0, 1000),
        "circuits.depthwise.launch_us": (0, 1000),
        "circuits.matmul.launch_us": (0, 1000),
        "circuits.pool2d.launch_us": (0, 1000),
        "circuits.binary.launch_us": (0, 1000),
        "circuits.lookup.launch_us": (0, 1000),
        "circuits.concat.launch_us": (0, 1000),
        "circuits.transpose.launch_us": (0, 1000),
        "cpu.macs_per_us": (1, 335),
        "cpu.bytes_per_us": (1, 500),
    }
    chosen = {key: [values[int(random.integers(len(values)))]] for key, values in fields.items()}
    found = board_variants(find_target("nnet"), ["ceras_zcu104"], chosen, folder)
    return Path(next(iter(found.values())))


BOARDS: Mapping[str, Callable[[Random, Path], Path]] = {"vta": _vta_board, "nnet": _nnet_board}
"""Targets that accept random fields of a board."""
