"""The kernels and the workspace with which a network fits a microcontroller board."""

from dataclasses import replace
from itertools import product

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c import emitter
from ceras_ir.backends.c.board import Board
from ceras_ir.backends.c.machine import NATIVE, Machine
from ceras_ir.backends.c.model import Model
from ceras_ir.backends.c.options import COptions
from ceras_ir.backends.c.prefix import MODEL, Prefix
from ceras_ir.backends.c.sizes import Footprint
from ceras_ir.backends.c.stored_filters import stored_filters

WORKSPACES = (24 << 10, 16 << 10, 12 << 10, 8 << 10, 4 << 10, 2 << 10, 1 << 10, 0)
"""Bytes of scratch memory that a layer may take, the fastest first."""


def printed_model(
    module: ModuleOp,
    board: Board,
    title: str,
    machine: Machine = NATIVE,
    prefix: Prefix = MODEL,
) -> tuple[Model, COptions, Footprint]:
    """
    The network in C, with the fastest kernels and the largest workspace that fit the board, else
    with those that exceed it least; transformed filters where flash is left.
    """
    found: list[tuple[Model, COptions, Footprint]] = []
    kernels = (True, False) if board.has_dsp else (False,)
    for dsp, workspace in product(kernels, WORKSPACES):
        options = COptions(
            title=title,
            prefix=prefix,
            machine=machine,
            workspace=workspace,
            vectors=False,
            dsp=dsp,
        )
        model = emitter.build(module, options)
        found.append((model, options, Footprint.of(model, board)))
        if found[-1][2].fits or not model.scratch_bytes:  # nothing to save without a workspace
            break
    model, options, footprint = min(found, key=lambda item: item[2].excess)
    if chosen := stored_filters(model, footprint, board):
        options = replace(options, stored_filters=chosen)
        model = emitter.build(module, options)
        footprint = Footprint.of(model, board)
    return model, options, footprint
