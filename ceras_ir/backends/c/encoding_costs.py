"""
How long encoded weights take on a microcontroller: a model, measured once on generated code
(`benchmarks/arduino_mlp.py` prints both).
"""

import numpy as np

from ceras_ir.backends.c.encodings import Array, Encoding, stored_weights

INSTRUCTIONS_PER_WEIGHT = {Encoding.DENSE: 2.8, Encoding.CODE: 3.1}
INSTRUCTIONS_PER_ROW = {Encoding.DENSE: 10.0, Encoding.CODE: 11.0}
INSTRUCTIONS_PER_SPARSE_WEIGHT, INSTRUCTIONS_PER_SPARSE_ROW = 6.4, 25.0
INSTRUCTIONS_PER_CONVERSION = 2.2
"""Of a Cortex-M4, the core that encodings were measured on."""


def instructions(encoding: Encoding, weights: Array) -> float:
    """Modelled instructions of one product with a vector."""
    count = stored_weights(encoding, weights)
    each = INSTRUCTIONS_PER_WEIGHT.get(encoding, INSTRUCTIONS_PER_SPARSE_WEIGHT)
    if weights.dtype == np.int8 and encoding is not Encoding.CODE:
        each += INSTRUCTIONS_PER_CONVERSION
    per_row = INSTRUCTIONS_PER_ROW.get(encoding, INSTRUCTIONS_PER_SPARSE_ROW)
    return count * each + per_row * weights.shape[0]
