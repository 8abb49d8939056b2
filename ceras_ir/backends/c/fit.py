"""
Choose kernels for a microcontroller board, and list remedies for a network that is too large.

`printed_model` chooses the kernels and the workspace. For a model that is too large, `remedies`
lists changes that were computed to fit, in the order of accuracy and work lost. `ceras-compile`
tries remedies that require another compilation, such as int8. `on_board` adds memory and time to
the report.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c import emitter
from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.costs import Footprint, latency_of
from ceras_ir.backends.c.costs import annotate as note_times
from ceras_ir.backends.c.linear_dsp import Way, cheapest, fits_dsp
from ceras_ir.backends.c.machines import NATIVE, Board, COptions, Machine, board_names, load_board
from ceras_ir.backends.c.model import PrintedModel
from ceras_ir.backends.c.names import MODEL, Prefix
from ceras_ir.backends.c.ordered_rows import (
    KERNEL,
    LOSSLESS,
    Encoding,
    quantized_like_s4,
    weight_bytes,
)
from ceras_ir.backends.c.program import Occupied
from ceras_ir.backends.c.sums import Geometry, analyse
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Conv2dOp
from ceras_ir.network.artefacts import Artefact
from ceras_ir.pipeline.report import Entry, entries_of
from ceras_ir.support.diagnostics import MAX_REMEDIES, DoesNotFitError
from ceras_ir.targets import Emission

# Some layers can store transformed filters (Winograd's F(2x2, 3x3), 16-bit values). Free flash is
# used for the filters that save the most instructions per byte.


def stored_filters(model: PrintedModel, footprint: Footprint, board: Board) -> frozenset[int]:
    """
    Return the indices of layers that use transformed filters stored in flash. Filters are chosen in
    the order of instructions saved per byte. The margin for the error of the code estimate remains
    free.
    """
    flash = board.free_flash - footprint.flash - int(board.known_core.code_margin * footprint.code)
    arena, occupied = board.free_sram - footprint.buffers, Occupied(model.program)
    found: list[tuple[float, int, int]] = []
    for layer in model.layers:
        if not isinstance(layer.op, Conv2dOp) or not layer.op.is_quantized:
            continue
        now, then = _choices(layer.op, model.options)
        more = then.flash - now.flash
        end = occupied.place(layer.index, then.scratch) + then.scratch
        if then.kind != now.kind and end <= arena:
            found.append(((now.instructions - then.instructions) / more, layer.index, more))
    chosen: set[int] = set()
    for _, index, more in sorted(found, key=lambda item: (-item[0], item[1])):
        if more <= flash:
            chosen.add(index)
            flash -= more
    return frozenset(chosen)


def _choices(op: Conv2dOp, options: COptions) -> tuple[Way, Way]:
    geometry, sums = Geometry.of(op), analyse(op)
    if not options.dsp or geometry.is_direct or not fits_dsp(op, geometry, sums):
        none = Way("smlad", 0, 0, 0)
        return none, none
    now, then = (
        cheapest(op, geometry, sums, options.workspace, may_store=stored)
        for stored in (False, True)
    )
    return now, then


WORKSPACES = (24 << 10, 16 << 10, 12 << 10, 8 << 10, 4 << 10, 2 << 10, 1 << 10, 0)
"""Bytes of scratch memory that a layer may use, the fastest first."""


def printed_model(
    module: ModuleOp, board: Board, title: str, machine: Machine = NATIVE, prefix: Prefix = MODEL
) -> tuple[PrintedModel, COptions, Footprint]:
    """
    Print the network with the fastest kernels and the largest workspace that fit the board.

    If none fits, return the model with the smallest excess. Free flash holds transformed filters.
    """
    found: list[tuple[PrintedModel, COptions, Footprint]] = []
    kernels = (True, False) if board.has_dsp else (False,)
    for dsp, workspace in product(kernels, WORKSPACES):
        options = COptions(
            title, prefix, machine=machine, workspace=workspace, vectors=False, dsp=dsp
        )
        model = emitter.build(module, options)
        found.append((model, options, Footprint.of(model, board)))
        # Without a workspace there is no memory to save.
        if found[-1][2].fits or not model.scratch_bytes:
            break
    model, options, footprint = min(found, key=lambda item: item[2].excess)
    if chosen := stored_filters(model, footprint, board):
        options = replace(options, stored_filters=chosen)
        model = emitter.build(module, options)
        footprint = Footprint.of(model, board)
    return model, options, footprint


def _smallest_bytes(weights: Array) -> int:
    return min(weight_bytes(encoding, weights) for encoding in LOSSLESS)


@dataclass(frozen=True)
class EncodedLayer:
    """An encoded layer, with the weights before quantization."""

    op: graph.LinearOperation
    weights: Array

    @property
    def nbytes(self) -> int:
        if KERNEL in self.op.attributes:
            return weight_bytes(Encoding.CODE, self.weights)
        encoded = self.op.encoded_weights
        return self.weights.nbytes if encoded is None else encoded.nbytes


def check_fit(model: PrintedModel, footprint: Footprint) -> None:
    """Refuse a model that does not fit, with the cheapest remedies."""
    if not footprint.fits:
        ways = list(islice(remedies(model, footprint), MAX_REMEDIES))
        raise DoesNotFitError(footprint.line(), _largest(footprint), ways)


def _largest(footprint: Footprint) -> str:
    board = footprint.board
    if footprint.flash > board.free_flash:
        layer = max(footprint.layers, key=lambda item: item.flash)
        return f"'{layer.name}' with {layer.flash:,} bytes of flash"
    layer = max(footprint.layers, key=lambda item: item.sram)
    return f"'{layer.name}' with {layer.sram:,} bytes of SRAM"


def remedies(model: PrintedModel, footprint: Footprint) -> Iterator[str]:
    """Yield remedies that fit both memories, the cheapest first."""
    board = footprint.board
    layers = _encoded_layers(model)
    rest = footprint.flash - sum(layer.nbytes for layer in layers)
    multiplies = _multiplies(model)
    if footprint.sram <= board.free_sram and layers:
        yield from _encodings(layers, rest, board)
        yield from _pruned(layers, rest, board)
    if layers and len(layers) == len(multiplies):
        if found := widest(model, footprint):
            yield f"hidden layers of at most {found[1]}, now {found[0]}, trained again"
    elif any(isinstance(op, graph.TreeEnsembleOp) for op in model.program.steps):
        yield from _fewer_nodes(footprint)
    else:
        yield from _smaller_input(model, footprint)
        yield from _fewer_channels(footprint)
    yield from _other_boards(footprint)


def _encodings(layers: Sequence[EncodedLayer], rest: int, board: Board) -> Iterator[str]:
    def as_int8(weights: Array) -> int:
        if weights.dtype != np.int8:
            weights, _ = quantized_like_s4(weights.astype(np.float32))
        return _smallest_bytes(weights)

    plain = [_smallest_bytes(layer.weights) for layer in layers]
    int8 = [as_int8(layer.weights) for layer in layers]
    sizes = {"csr": sum(plain), "csr-int8": sum(int8[:-1] + plain[-1:] if plain[1:] else int8)}
    now = sum(layer.nbytes for layer in layers)
    for name, size in sizes.items():
        if size < now and rest + size <= board.free_flash:
            yield f"--encoding {name}: {rest + size:,} bytes of flash"


def _pruned(layers: Sequence[EncodedLayer], rest: int, board: Board) -> Iterator[str]:
    """Yield the minimum sparsity in percent at which the layers fit."""

    def size(percent: int) -> int:
        total = 0
        for layer in layers:
            weights = layer.weights.copy()
            order = np.argsort(np.abs(weights.astype(np.float32)).reshape(-1), kind="stable")
            weights.reshape(-1)[order[: percent * weights.size // 100]] = 0
            total += _smallest_bytes(weights)
        return rest + total

    percent = _smallest(1, 99, lambda p: size(p) <= board.free_flash)
    if percent is not None:
        yield (
            f'--prune="sparsity={percent / 100:.2f}" --encoding csr: {size(percent):,} bytes of '
            "flash (retrain what is left)"
        )


def _smallest(low: int, high: int, is_good: Callable[[int], bool]) -> int | None:
    """Return the smallest good number in [low, high], if all larger numbers are good too."""
    number = bisect_left(range(low, high + 1), True, key=is_good) + low
    return number if number <= high else None


def widest(model: PrintedModel, footprint: Footprint) -> tuple[int, int] | None:
    """
    Return the widest hidden layer of a chain, and the maximum width that fits.

    All layers are scaled equally, with unchanged density and encodings.
    """
    layers = _encoded_layers(model)
    widths = [graph.shape_of(layer.op.result)[1] for layer in layers[:-1]]
    if not widths or len(layers) != len(_multiplies(model)):
        return None
    board, now = footprint.board, max(widths)
    rest = footprint.flash - sum(layer.nbytes for layer in layers)

    def fits(width: int) -> bool:
        factor = width / now
        flash = float(rest)
        for i, layer in enumerate(layers):
            inside = (i > 0) + (i < len(layers) - 1)
            flash += layer.nbytes * factor**inside
        return flash <= board.free_flash and footprint.sram * factor <= board.free_sram

    max_width = now * max(board.free_flash // max(footprint.flash, 1), 1) * 8
    lost = _smallest(0, max_width - 1, lambda lost: fits(max_width - lost))
    return None if lost is None else (now, max_width - lost)


def _multiplies(model: PrintedModel) -> list[graph.GraphOperation]:
    return [op for op in model.program.steps if isinstance(op, graph.GraphOperation) and op.macs]


def _encoded_layers(model: PrintedModel) -> list[EncodedLayer]:
    return [
        EncodedLayer(op, weights)
        for op in model.program.steps
        if isinstance(op, graph.MatmulOp)
        and op.ordered is not None
        and (weights := graph.constant_array(op.weights)) is not None
    ]


def _smaller_input(model: PrintedModel, footprint: Footprint) -> Iterator[str]:
    """Yield the largest square maps at which the results fit, if all maps shrink equally."""
    maps = [t.shape for t in model.program.inputs if len(t.shape) == 4]
    if len(maps) != 1 or footprint.flash > footprint.board.free_flash:
        return
    size = max(maps[0][1:])

    def fits(lost: int) -> bool:
        return footprint.sram * ((size - lost) / size) ** 2 <= footprint.board.free_sram

    if (lost := _smallest(1, size - 1, fits)) is not None:
        yield f"an input of about {size - lost} pixels a side, now {size}"


def _fewer_channels(footprint: Footprint) -> Iterator[str]:
    """Yield the largest share of channels that fits. Constants are quadratic in the share."""
    board = footprint.board

    def fits(lost: int) -> bool:
        factor = 1 - lost / 100
        flash = footprint.constants * factor**2 + footprint.code
        return flash <= board.free_flash and footprint.sram * factor <= board.free_sram

    if (lost := _smallest(1, 99, fits)) is not None:
        yield f"layers of about {100 - lost}% of their channels, trained again"


def _fewer_nodes(footprint: Footprint) -> Iterator[str]:
    """Yield the largest share of tree nodes that fits. Constants are linear in the share."""
    board = footprint.board

    def fits(lost: int) -> bool:
        return footprint.constants * (1 - lost / 100) + footprint.code <= board.free_flash

    if (lost := _smallest(1, 99, fits)) is not None and footprint.sram <= board.free_sram:
        yield f"fewer or shallower trees, of about {100 - lost}% of the nodes, trained again"


def _other_boards(footprint: Footprint) -> Iterator[str]:
    tools = footprint.board.known_core.tools
    boards = [(load_board(name), name) for name in board_names()]
    # Sizes of other instruction sets differ.
    boards = [item for item in boards if item[0].known_core.tools == tools]
    for board, name in sorted(boards, key=lambda b: (b[0].flash_bytes, b[0].sram_bytes)):
        if footprint.flash <= board.free_flash and footprint.sram <= board.free_sram:
            yield (
                f"--board {name}, {board.title}, with {board.free_flash:,} bytes of flash and "
                f"{board.free_sram:,} of SRAM"
            )
            return


def on_board(
    files: list[Artefact], manifest: Mapping[str, object], model: PrintedModel, footprint: Footprint
) -> Emission:
    """Emit `files`, with flash, SRAM and time per layer and in total."""
    footprint = replace(footprint, widest=widest(model, footprint))
    latency = latency_of(model, footprint.board)

    def annotate(layers: list[Entry]) -> None:
        note_times(layers, model.layers, latency)
        entries = entries_of(layers, (layer.op for layer in model.layers))
        for entry, size in zip(entries, footprint.layers, strict=True):
            if entry is None:
                continue
            entry |= {"flash_bytes": size.flash, "sram_bytes": size.sram}
            if size.kernel:
                entry["kernel"] = size.kernel

    return Emission(
        files,
        dict(manifest),
        footprint.to_json() | model.memory_totals(),
        annotate,
        {"flash_bytes": ("flash", "{:,}"), "sram_bytes": ("SRAM", "{:,}")},
        [text for text in (footprint.line(), footprint.width_line()) if text],
        None if latency is None else latency.prediction,
        buffers=model.added_buffers,
    )
