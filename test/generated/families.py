"""Select a family of generated networks: `generate(seed)` builds the network of a seed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np
from generated import chains, classical, control, integers, quantized, states, transformers
from generated.builder import Builder, Case, Unfit

FAMILIES: dict[str, Callable[[Builder], Case]] = {
    "transformer": transformers.transformer,
    "decoder": transformers.cached_decoder,
    "streaming": states.streaming,
    "control": control.control_flow,
    "arithmetic": integers.integer_arithmetic,
    "indices": integers.indices,
    "qdq rows": quantized.rows,
    "qdq images": quantized.images,
    "integer operators": quantized.operators,
    "classical": classical.classical,
    "chain": chains.chain,
    "front end": chains.front_end,
}

OPSETS = range(7, 25)


def generate(seed: int, family: str = "") -> tuple[str, Case]:
    """Return the family and the network of a seed; the families alternate."""
    name = family or list(FAMILIES)[seed % len(FAMILIES)]
    for attempt in count():
        random = np.random.default_rng([seed, attempt])
        opset = int(random.choice(OPSETS))
        try:
            return name, FAMILIES[name](Builder(random, opset))
        except Unfit:
            # The operator set lacks an operator of this draw.
            continue
    raise AssertionError
