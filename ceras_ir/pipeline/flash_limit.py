"""
Find the bytes of weights with which the flash of a network fits a limit: the option `--flash`.

The flash of code and constants depends on the kernels, so the network is compiled for each trial.
`set-weight-bits` chooses the widths for a number of bytes.
"""

from collections.abc import Callable
from dataclasses import replace
from math import prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.hints import isa

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import BYTE_BITS
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.build import build
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import (
    DoesNotFitError,
    UnsupportedError,
    UsageError,
    no_remarks,
    node_name,
    progress,
    remark,
)
from ceras_ir.transforms.quantization_options import MIN_BITS

FLASH = "flash_bytes"

MAX_TRIALS = 6
"""The number of compilations after the first, at most."""

UNUSED_SHARE = 0.01
"""The share of the limit that may remain unused."""


def within_flash(read: Callable[[], ModuleOp], options: BuildOptions) -> BuildOptions:
    """
    Return `options` with the bytes of weights for which the total `flash_bytes` of the report is at
    most `options.flash`, or without, if the network fits with weights of 8 bits. `read` imports the
    network again. Raise `DoesNotFitError`, with the smallest flash that is possible, if the network
    does not fit, and `UsageError` if the target stores weights only in bytes or data is missing.
    """
    limit = options.flash
    assert limit is not None
    options = replace(options, flash=None).resolved(read())
    if min(options.target.arithmetic.weight_widths) >= BYTE_BITS:
        raise UsageError(f"--flash: target {options.target.name} stores weights in bytes")
    if options.calibration is None:
        raise UsageError("--flash chooses widths by the noise on samples: add --calibrate DATA.npz")
    size = _flash(read(), options)
    if size <= limit:
        remark(f"note: {size:,} bytes of flash fit with weights of {BYTE_BITS} bits")
        return options
    layers = [
        op
        for op in main_function(read()).body.block.ops
        if isinstance(op, graph.LinearOperation) and isinstance(op.weights.owner, graph.ConstantOp)
    ]
    if not layers:
        raise UnsupportedError(
            f"unsupported size: {size:,} bytes of flash exceed the limit of {limit:,}, and no "
            "layer has weights whose bits can be chosen"
        )
    counts = {op.weights: prod(graph.shape_of(op.weights)) for op in layers}
    total = sum(counts.values())
    least = total * MIN_BITS // BYTE_BITS
    good, too_large, budget = None, total, total + limit - size
    for number in progress(range(MAX_TRIALS), "searching widths of weights"):
        # The last trial has the smallest widths, unless a larger number of bytes fits.
        if budget <= least or (good is None and number == MAX_TRIALS - 1):
            budget = 0
        size = _flash(read(), replace(options, weight_bytes=budget))
        if size > limit and budget == 0:
            break
        if size > limit:
            too_large = budget
        else:
            good = budget
        budget += limit - size
        if good is not None and size <= limit and limit - size <= UNUSED_SHARE * limit:
            break
        if good is not None and not good < budget < too_large:
            budget = (good + too_large) // 2
            if budget - good <= UNUSED_SHARE * total:
                break
    if good is not None:
        return replace(options, weight_bytes=good)
    largest = max(layers, key=lambda op: counts[op.weights])
    least_text = f"{-(-size // 1024)}K"
    raise DoesNotFitError(
        f"flash {size:,} bytes with weights of {MIN_BITS} bits, the limit is {limit:,}",
        f"'{node_name(largest)}' with {counts[largest.weights]:,} weights",
        [f"--flash {least_text}, the smallest with weights of few bits"],
    )


def _flash(module: ModuleOp, options: BuildOptions) -> int:
    """
    Return the bytes of flash of a network. Raise `DoesNotFitError` if it fits the flash but not
    another memory of the board.
    """
    try:
        # The notes of the last compilation are sufficient.
        with no_remarks():
            totals = build(module, options).report["totals"]
    except DoesNotFitError as error:
        found = error.totals.get(FLASH)
        if found is None or found <= error.totals.get("board_flash_bytes", 0):
            raise
        return int(found)
    assert isa(totals, dict[str, object])
    found = totals.get(FLASH)
    if not isinstance(found, int):
        raise UsageError(f"--flash: target {options.target.name} reports no {FLASH}")
    return found
