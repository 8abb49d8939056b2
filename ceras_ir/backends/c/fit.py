"""
What to do about a model that is too large: remedies that were computed to fit, cheapest first.

Cheap means: what costs the least accuracy and work. A remedy that would not fit is not named. What
only another compile can tell, such as int8, `ceras-compile` tries.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ceras_ir.backends.c.board import Board, board_names, load_board
from ceras_ir.backends.c.encodings import KERNEL, Array, Encoding, quantized_like_s4, weight_bytes
from ceras_ir.backends.c.model import Model
from ceras_ir.backends.c.sizes import Footprint
from ceras_ir.dialects import graph
from ceras_ir.support.diagnostics import MAX_WAYS, DoesNotFitError

SMALLEST = (Encoding.DENSE, Encoding.CSR_DELTA8, Encoding.CSR_INDEX16)


@dataclass(frozen=True)
class Layer:
    """An encoded layer, as its weights were before any quantization of them."""

    op: graph.LinearOperation
    weights: Array

    @property
    def nbytes(self) -> int:
        if KERNEL in self.op.attributes:
            return weight_bytes(Encoding.CODE, self.weights)
        encoded = self.op.encoded_weights
        return self.weights.nbytes if encoded is None else encoded.nbytes


def check_fit(model: Model, footprint: Footprint) -> None:
    """Refuse what does not fit, with the cheapest remedies."""
    if not footprint.fits:
        ways = list(islice(remedies(model, footprint), MAX_WAYS))
        raise DoesNotFitError(footprint.line(), _largest(footprint), ways)


def _largest(footprint: Footprint) -> str:
    board = footprint.board
    if footprint.flash > board.free_flash:
        layer = max(footprint.layers, key=lambda item: item.flash)
        return f"'{layer.name}' with {layer.flash:,} bytes of flash"
    layer = max(footprint.layers, key=lambda item: item.sram)
    return f"'{layer.name}' with {layer.sram:,} bytes of SRAM"


def remedies(model: Model, footprint: Footprint) -> Iterator[str]:
    """Ways out that fit both memories, in words, cheapest first."""
    board = footprint.board
    layers = _encoded_layers(model)
    rest = footprint.flash - sum(layer.nbytes for layer in layers)
    multiplies = _multiplies(model)
    if footprint.sram <= board.free_sram and layers:
        yield from _encodings(layers, rest, board)
        yield from _pruned(layers, rest, board)
    if layers and len(layers) == len(multiplies):
        yield from _narrower(model, footprint)
    elif any(isinstance(op, graph.TreeEnsembleOp) for op in model.program.steps):
        yield from _fewer_nodes(footprint)
    else:
        yield from _smaller_input(model, footprint)
        yield from _fewer_channels(footprint)
    yield from _other_boards(footprint)


def _encodings(layers: Sequence[Layer], rest: int, board: Board) -> Iterator[str]:
    def smallest(layer: Layer) -> int:
        return min(weight_bytes(e, layer.weights) for e in SMALLEST)

    def as_int8(layer: Layer) -> int:
        if layer.weights.dtype == np.int8:
            return smallest(layer)
        stored, _ = quantized_like_s4(layer.weights.astype(np.float32))
        return min(weight_bytes(e, stored) for e in SMALLEST)

    last = smallest(layers[-1])
    quantized = sum(map(as_int8, layers[:-1])) + last if len(layers) > 1 else as_int8(layers[0])
    sizes = {"csr": sum(map(smallest, layers)), "csr-int8": quantized}
    now = sum(layer.nbytes for layer in layers)
    for name, size in sizes.items():
        if size < now and rest + size <= board.free_flash:
            yield f"--encoding {name}: {rest + size:,} bytes of flash"


def _pruned(layers: Sequence[Layer], rest: int, board: Board) -> Iterator[str]:
    """The least sparsity, in percent, at which the layers as they are stored fit."""

    def size(percent: int) -> int:
        total = 0
        for layer in layers:
            weights = layer.weights.copy()
            order = np.argsort(np.abs(weights.astype(np.float32)).reshape(-1), kind="stable")
            weights.reshape(-1)[order[: percent * weights.size // 100]] = 0
            total += min(weight_bytes(e, weights) for e in SMALLEST)
        return rest + total

    percent = _least(1, 99, lambda p: size(p) <= board.free_flash)
    if percent is not None:
        yield (
            f'--prune="sparsity={percent / 100:.2f}" --encoding csr: {size(percent):,} bytes of '
            "flash (retrain what is left)"
        )


def _least(low: int, high: int, good: Callable[[int], bool]) -> int | None:
    """The least number in [low, high] that is good, where all above a good one are."""
    if not good(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if good(middle):
            high = middle
        else:
            low = middle + 1
    return low


def widest(model: Model, footprint: Footprint) -> tuple[int, int] | None:
    """
    Of a chain of encoded layers: the widest hidden layer now, and the widest with which all,
    scaled alike, would fit at the density and in the encodings that they have.
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

    most = now * max(board.free_flash // max(footprint.flash, 1), 1) * 8
    lost = _least(0, most - 1, lambda lost: fits(most - lost))
    return None if lost is None else (now, most - lost)


def _narrower(model: Model, footprint: Footprint) -> Iterator[str]:
    if found := widest(model, footprint):
        now, width = found
        yield f"hidden layers of at most {width}, now {now}, trained again"


def _multiplies(model: Model) -> list[graph.GraphOperation]:
    return [op for op in model.program.steps if isinstance(op, graph.GraphOperation) and op.macs]


def _encoded_layers(model: Model) -> list[Layer]:
    return [
        Layer(op, weights)
        for op in model.program.steps
        if isinstance(op, graph.MatmulOp)
        and op.ordered is not None
        and (weights := graph.constant_array(op.weights)) is not None
    ]


def _smaller_input(model: Model, footprint: Footprint) -> Iterator[str]:
    """The largest square maps at which the results fit, all maps shrinking alike."""
    maps = [t.shape for t in model.program.inputs if len(t.shape) == 4]
    if len(maps) != 1 or footprint.flash > footprint.board.free_flash:
        return
    size = max(maps[0][1:])

    def fits(lost: int) -> bool:
        return footprint.sram * ((size - lost) / size) ** 2 <= footprint.board.free_sram

    lost = _least(1, size - 1, fits)
    if lost is not None:
        yield f"an input of about {size - lost} pixels a side, now {size}"


def _fewer_channels(footprint: Footprint) -> Iterator[str]:
    """The greatest share of all channels that fits: constants shrink with its square."""
    board = footprint.board

    def fits(lost: int) -> bool:
        factor = 1 - lost / 100
        flash = footprint.constants * factor**2 + footprint.code
        return flash <= board.free_flash and footprint.sram * factor <= board.free_sram

    lost = _least(1, 99, fits)
    if lost is not None:
        yield f"layers of about {100 - lost}% of their channels, trained again"


def _fewer_nodes(footprint: Footprint) -> Iterator[str]:
    """The greatest share of all nodes of trees that fits: constants shrink with it."""
    board = footprint.board

    def fits(lost: int) -> bool:
        return footprint.constants * (1 - lost / 100) + footprint.code <= board.free_flash

    lost = _least(1, 99, fits)
    if lost is not None and footprint.sram <= board.free_sram:
        yield f"fewer or shallower trees, of about {100 - lost}% of the nodes, trained again"


def _other_boards(footprint: Footprint) -> Iterator[str]:
    tools = footprint.board.known_core.tools
    boards = [(load_board(name), name) for name in board_names()]
    # Another instruction set has other sizes.
    boards = [item for item in boards if item[0].known_core.tools == tools]
    for board, name in sorted(boards, key=lambda b: (b[0].flash_bytes, b[0].sram_bytes)):
        if footprint.flash <= board.free_flash and footprint.sram <= board.free_sram:
            yield (
                f"--board {name}, {board.title}, with {board.free_flash:,} bytes of flash and "
                f"{board.free_sram:,} of SRAM"
            )
            return
