"""Put trained numbers into a module in the place of its constants."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from xdsl.rewriter import Rewriter

from ceras_ir.dialects import graph


def write_back(arrays: Mapping[graph.ConstantOp, NDArray[np.generic]]) -> None:
    """Replace each constant by one with these stored numbers, of the same type and name."""
    for constant, array in arrays.items():
        element = graph.element_of(constant.result)
        new = graph.ConstantOp.from_array(array, element, location=constant.location)
        Rewriter.replace_op(constant, new)
