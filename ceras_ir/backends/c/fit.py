"""
List remedies for a network that is too large for a board, and report the memory of one that fits.

For a model that is too large, `remedies` lists changes that were computed to fit, in the order of
accuracy and work lost. `ceras-compile` tries remedies that require another compilation, such as
int8. `on_board` adds memory and time to the report.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import numpy as np

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.costs import Footprint, latency_of
from ceras_ir.backends.c.costs import annotate as note_times
from ceras_ir.backends.c.machines import Board, board_names, load_board
from ceras_ir.backends.c.model import PrintedModel
from ceras_ir.backends.c.optimize import Choice
from ceras_ir.backends.c.ordered_rows import (
    KERNEL_ATTRIBUTE,
    LOSSLESS,
    Encoding,
    quantized_like_s4,
    weight_bytes,
)
from ceras_ir.backends.c.stack import measured_stack
from ceras_ir.dialects import graph
from ceras_ir.network.artefacts import Artefact, TensorInfo
from ceras_ir.pipeline.report import Entry, entries_of
from ceras_ir.support.diagnostics import MAX_REMEDIES, DoesNotFitError
from ceras_ir.targets import Emission


def _smallest_bytes(weights: Array) -> int:
    return min(weight_bytes(encoding, weights) for encoding in LOSSLESS)


@dataclass(frozen=True)
class EncodedLayer:
    """
    A float matrix product after the pass `encode-weights`, and its weights before the encoding.
    """

    op: graph.LinearOperation
    weights: Array

    @property
    def nbytes(self) -> int:
        if KERNEL_ATTRIBUTE in self.op.attributes:
            return weight_bytes(Encoding.CODE, self.weights)
        encoded = self.op.encoded_weights
        return self.weights.nbytes if encoded is None else encoded.nbytes


def check_fit(model: PrintedModel, footprint: Footprint) -> None:
    """
    Raise `DoesNotFitError` with the first remedies if a model exceeds the flash or SRAM of the
    board.
    """
    if not footprint.fits:
        ways = list(islice(remedies(model, footprint), MAX_REMEDIES))
        raise DoesNotFitError(footprint.line(), _largest(footprint), ways, totals=footprint.sizes())


def _largest(footprint: Footprint) -> str:
    board = footprint.board
    if footprint.flash > board.free_flash:
        layer = max(footprint.layers, key=lambda item: item.flash)
        return f"'{layer.name}' with {layer.flash:,} bytes of flash"
    layer = max(footprint.layers, key=lambda item: item.sram)
    return f"'{layer.name}' with {layer.sram:,} bytes of SRAM"


def remedies(model: PrintedModel, footprint: Footprint) -> Iterator[str]:
    """
    Yield sentences about changes of the network, the options or the board with which the network
    fits flash and SRAM. Changes that cost little accuracy and work are first.
    """
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
        frames = [t for t in model.program.inputs if t.pixels is not None and t.pixels.frame]
        if len(frames) == 1:
            yield from _smaller_frame(frames[0], footprint)
        else:
            yield from _smaller_input(model, footprint)
        yield from _fewer_channels(footprint, sum(tensor.size for tensor in frames))
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
    """
    Yield the remedy `--prune` with the lowest sparsity, in percent, at which the encoded weights
    fit the flash. `rest` is the bytes of flash for all except these weights.
    """

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
    """
    Return the smallest integer in [low, high] for which `is_good` holds, or `None`. If `is_good`
    holds for an integer, it must hold for all larger integers (binary search).
    """
    number = bisect_left(range(low, high + 1), True, key=is_good) + low
    return number if number <= high else None


def widest(model: PrintedModel, footprint: Footprint) -> tuple[int, int] | None:
    """
    Return the width (outputs) of the widest hidden layer, and the maximum width that would fit the
    board if all hidden layers were scaled by the same factor. Density and encodings do not change.

    Return `None` if the network is not a chain of matrix products with encoded weights, or if no
    width fits.
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
    """
    Yield a remedy: the size of the input image in pixels at which the intermediate values fit the
    SRAM. Height and width shrink by the same factor. Yield nothing if the flash is exceeded or the
    network does not have exactly one image input.
    """
    maps = [t.shape for t in model.program.inputs if len(t.shape) == 4]
    if len(maps) != 1 or footprint.flash > footprint.board.free_flash:
        return
    size = max(maps[0][1:])

    def fits(lost: int) -> bool:
        return footprint.sram * ((size - lost) / size) ** 2 <= footprint.board.free_sram

    if (lost := _smallest(1, size - 1, fits)) is not None:
        yield f"an input of about {size - lost} pixels a side, now {size}"


def _smaller_frame(tensor: TensorInfo, footprint: Footprint) -> Iterator[str]:
    """
    Yield a remedy: the size of camera frames at which the network fits the SRAM, with the ratio of
    height and width of the frame in `tensor`. Yield nothing if no size is sufficient.
    """
    assert tensor.pixels is not None and tensor.pixels.frame is not None
    board, (rows, columns) = footprint.board, tensor.pixels.frame.size
    rest = footprint.sram - tensor.size
    if rest >= board.free_sram or footprint.flash > board.free_flash:
        return

    def smaller(lost: int) -> tuple[int, int]:
        # Formats with 2x2 pixels need even sizes.
        return rows * (columns - lost) // columns & ~1, (columns - lost) & ~1

    def fits(lost: int) -> bool:
        height, width = smaller(lost)
        return rest + tensor.size * height * width // (rows * columns) <= board.free_sram

    if (lost := _smallest(1, columns - 2, fits)) is not None and min(smaller(lost)) > 0:
        height, width = smaller(lost)
        yield (
            f"frames of {height}x{width} (--frame-size), now {rows}x{columns} in {tensor.size:,} "
            "bytes"
        )


def _fewer_channels(footprint: Footprint, fixed: int) -> Iterator[str]:
    """
    Yield a remedy: the largest percentage of channels of all layers with which the network fits.
    The bytes of constants are quadratic in it. `fixed` bytes of SRAM, such as camera frames, do not
    change.
    """
    board = footprint.board

    def fits(lost: int) -> bool:
        factor = 1 - lost / 100
        flash = footprint.constants * factor**2 + footprint.code
        sram = fixed + (footprint.sram - fixed) * factor
        return flash <= board.free_flash and sram <= board.free_sram

    if (lost := _smallest(1, 99, fits)) is not None:
        yield f"layers of about {100 - lost}% of their channels, trained again"


def _fewer_nodes(footprint: Footprint) -> Iterator[str]:
    """
    Yield a remedy: the largest percentage of tree nodes with which the network fits the flash. The
    bytes of constants are linear in it.
    """
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


def on_board(files: list[Artefact], manifest: Mapping[str, object], choice: Choice) -> Emission:
    """
    Return the emitted `files` and `manifest`. The bytes of flash and SRAM and the modelled
    microseconds on the board are added to the report, for each layer and in total. `choice` has the
    printed network and the sizes.
    """
    model = choice.model
    footprint = replace(choice.footprint, widest=widest(model, choice.footprint))
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
        notes=[*choice.lines(), *filter(None, [footprint.width_line()])],
        figures={} if latency else {"time": f"no model of core {footprint.board.core}"},
        size_line=footprint.line(),
        prediction=None if latency is None else latency.prediction,
        buffers=model.added_buffers,
        details={"optimize": choice.to_json()},
        measure=partial(measured_stack, model, footprint.board),
    )
