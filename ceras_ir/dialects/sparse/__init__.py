"""
The dialect `sparse`: constants that list what is not zero, and masks of what was pruned.

It has attributes alone: `graph.constant` holds them, and every operation that reads weights
reads those.
"""

from xdsl.ir import Dialect

from ceras_ir.dialects.sparse.encoded import Encoded
from ceras_ir.dialects.sparse.lists import BlockAttr, CooAttr, CsrAttr
from ceras_ir.dialects.sparse.masks import MASK, BitmapAttr, MaskAttr

Sparse = Dialect("sparse", [], [CooAttr, CsrAttr, BitmapAttr, BlockAttr, MaskAttr])

__all__ = [
    "MASK",
    "BitmapAttr",
    "BlockAttr",
    "CooAttr",
    "CsrAttr",
    "Encoded",
    "MaskAttr",
    "Sparse",
]
