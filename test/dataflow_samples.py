"""
Build small circuits of all kinds, with counts of yosys.

`benchmarks/dataflow_estimates.py` counts them and fits the estimates.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from dataflow_circuits import addition, convolution, max_pool, plan_of, table
from xdsl.utils.hints import isa

from ceras_ir.backends.dataflow.blocks import (
    Addend,
    Block,
    Column,
    Convolution,
    Feature,
    Pipeline,
    Source,
)
from ceras_ir.backends.dataflow.board import CHIP_FAMILIES
from ceras_ir.backends.dataflow.plan import BlockLanes, PipelinePlan
from ceras_ir.backends.dataflow.resources import Resources
from ceras_ir.backends.dataflow.storage import ceiling
from ceras_ir.backends.dataflow.weights import WeightEncoding, encodings_of

COUNTS = Path(__file__).parent / "backends" / "dataflow" / "yosys_counts.json"
KINDS = ("dense", "coo", "delta", "depthwise", "parts", "residual", "pool", "other")
"""The kinds of circuits with seeds 0 to 7 modulo 8."""
NARROW_SEEDS = 64
"""The first seed of circuits with weights of 1 to 7 bits."""
TERMS_SEEDS = 96
"""The first seed of circuits with inputs of 1 to 4 bits, whose lanes add several products."""
MOST_LANES = 48
PORT_BYTES = {"xcup": 8, "xc7": 8, "ecp5": 4}
Samples: TypeAlias = dict[str, dict[int, Resources]]
"""The counts of yosys by family and seed."""


def sample(seed: int, family: str) -> tuple[Pipeline, PipelinePlan]:
    """Build the circuit of a seed, and a plan of it for a family of chips."""
    rng, kind = np.random.default_rng(seed), KINDS[seed % len(KINDS)]

    def pick(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    source = Source("input", Feature(pick(8, 40), pick(3, 24), pick(6, 26)))
    if seed >= TERMS_SEEDS:
        column = Column(pick(1, 4))
        f = source.feature
        source = Source("input", Feature(f.rows, 8 * ceiling(f.channels, 8), f.columns, column))
    channels = source.feature.channels
    spread = pick(0, 1) * pick(1, 4)
    bits = pick(1, 7) if seed >= NARROW_SEEDS else 8
    zeros = 0.0 if kind in ("dense", "depthwise") else float(rng.choice([0.5, 0.8, 0.94]))
    size = int(rng.choice([1, 3, 3, 5]))
    stride = pick(1, 2) if size > 1 else 1
    zeros = 0.8 if kind == "delta" else zeros
    blocks: list[Block] = []
    if kind == "residual":
        around = (1, 1, 1, 1)
        way = convolution(source, channels, (3, 3), rng, padding=around, zeros=zeros, spread=spread)
        layer = convolution(
            way, channels, (3, 3), rng, padding=around, zeros=zeros, residual=source, spread=spread,
            bits=bits,
        )  # fmt: skip
        blocks.append(way)
    else:
        by_channel = kind == "depthwise"
        half = size // 2
        layer = convolution(
            source,
            channels if by_channel else pick(4, 40),
            (size, size),
            rng,
            strides=(stride, stride),
            padding=(half, half, half, half),
            groups=channels if by_channel else 1,
            zeros=zeros,
            spread=spread,
            bits=bits,
            bipolar=seed >= TERMS_SEEDS and bits < 3,
        )
    blocks.append(layer)
    if kind == "pool":
        blocks.append(max_pool(layer, pick(2, 3), 2))
    if kind == "other":
        function = table(layer, rng)
        blocks += [function, addition(function, layer, (Addend(pick(0, 2)), Addend(1)))]
    lanes: dict[Block, BlockLanes] = {
        block: _lanes(block, kind, zeros, rng) for block in blocks if isinstance(block, Convolution)
    }
    if seed >= TERMS_SEEDS and lanes[layer].encoding is WeightEncoding.DENSE:
        terms = min(1 << pick(1, 5), channels & -channels)
        lanes[layer] = replace(lanes[layer], in_tables=True, terms=terms)
    pipeline = Pipeline(source, blocks)
    return pipeline, plan_of(pipeline, lanes, paired=CHIP_FAMILIES[family].paired)


def _lanes(layer: Convolution, kind: str, zeros: float, rng: np.random.Generator) -> BlockLanes:
    def pick(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    known, encoding = encodings_of(layer), WeightEncoding.DENSE
    if kind == "delta" and WeightEncoding.DELTA in known:
        encoding = WeightEncoding.DELTA
    elif zeros:
        encoding = WeightEncoding(str(rng.choice(known)))
    columns, parts = layer.feature.columns, 1
    if kind == "parts" or pick(0, 3) == 0:
        parts = -(-columns // pick(2, 8))
    room = max(1, MOST_LANES // -(-columns // parts))
    rows = 1 if parts > 1 else pick(1, min(6, room, layer.feature.rows))
    per_group = len(layer.weights) // layer.groups
    filters = pick(1, max(1, min(6, room // rows, per_group)))
    while per_group % filters:
        filters -= 1
    in_tables = layer.weight_bits == 1 or (layer.is_narrow and bool(pick(0, 1)))
    return BlockLanes(rows, filters, encoding, parts=parts, in_tables=in_tables)


def counted() -> Samples:
    """Load the counts of yosys."""
    content: object = json.loads(COUNTS.read_text())
    assert isa(content, dict[str, dict[str, dict[str, int]]])
    return {
        family: {int(seed): Resources(**found) for seed, found in seeds.items()}
        for family, seeds in content.items()
    }


def keep(found: Samples) -> None:
    """Write the counts."""
    text = json.dumps(
        {
            family: {str(seed): seeds[seed].to_json() for seed in sorted(seeds)}
            for family, seeds in found.items()
        },
        indent=1,
    )
    unfinished = COUNTS.with_suffix(".new")
    unfinished.write_text(text + "\n")
    unfinished.replace(COUNTS)
