"""
Provide the same pass to `xdsl-opt`, which finds only installed packages, by a universe.

A package that ships the pass names this object in its `pyproject.toml`:

    [project.entry-points."xdsl.universe"]
    swap = "plugin_universe:SWAP_UNIVERSE"
"""

from xdsl.passes import ModulePass
from xdsl.universe import Universe


def _swap_function() -> type[ModulePass]:
    from swap_function import SwapFunctionPass

    return SwapFunctionPass


SWAP_UNIVERSE = Universe(all_passes={"swap-function": _swap_function})
