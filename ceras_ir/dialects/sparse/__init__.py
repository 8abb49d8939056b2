"""
The dialect `sparse`: constants that list what is not zero, and masks of what was pruned.

It has attributes alone: `graph.constant` holds them, and every operation that reads weights
reads those.
"""

from xdsl.ir import Dialect

from ceras_ir.dialects.sparse.bitmap import BitmapAttr
from ceras_ir.dialects.sparse.block import BlockAttr
from ceras_ir.dialects.sparse.coo import CooAttr
from ceras_ir.dialects.sparse.csr import CsrAttr
from ceras_ir.dialects.sparse.encoded import Encoded
from ceras_ir.dialects.sparse.mask import MASK, MaskAttr

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
