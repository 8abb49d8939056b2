"""`graph.encoded_matmul`: sums in the order of columns, every step rounded to float32."""

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects.graph.encoded import EncodedMatmulOp
from ceras_ir.interpreters.float_functions import apply_function
from ceras_ir.network.weight_encoding import stored_weights

Floats = NDArray[np.float32]


def encoded_matmul(
    op: EncodedMatmulOp, x: Floats, weights: NDArray[np.generic], bias: Floats | None
) -> Floats:
    """The result as the operation's docstring defines it."""
    factors = weights.astype(np.float32)
    stored = stored_weights(op.kind, weights)
    acc = np.zeros((x.shape[0], factors.shape[0]), np.float32)
    for k in range(x.shape[1]):
        rows = stored[:, k]
        acc[:, rows] = acc[:, rows] + x[:, k, None] * factors[rows, k]
    if op.scale is not None:
        acc = acc * np.float32(op.scale)
    if bias is not None:
        acc = acc + bias
    return acc if op.activation is None else apply_function(op.activation, acc)
