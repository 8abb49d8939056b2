"""
Whether the values of an nnet file are where they are read.

The layers are replayed over the arena: a plan in which one value overwrites another that is
still needed is refused. Written from `docs/nnet-format.md`, as the reader.
"""

from math import prod

from ceras_ir.backends.nnet.file import BYTES, Layer, NnetFile, Tensor, expect

IN_PLACE = {
    "unary", "binary", "lookup", "softmax", "quantize", "requantize", "reshape", "shift_swish",
}  # fmt: skip
"""Besides the residual of a convolution or product: results that may replace an operand."""

Place = tuple[int, int, int, int]
"""First byte, number of rows, bytes of each, and from one to the next."""


def check_memory(file: NnetFile) -> None:
    """Refuse a plan in which a value is read that is not, or no longer, there."""
    alive: dict[int, Tensor] = {}

    def write(id: int, kept: list[Place]) -> None:
        """Whatever lies under `id` is gone, but for what lies in bytes that are `kept`."""
        for other, old in list(alive.items()):
            if not _survives(_place(old), _place(file.tensors[id]), kept):
                del alive[other]
        alive[id] = file.tensors[id]

    for id, name in file.inputs:
        expect(file.tensors[id].location == "arena", f"input '{name}' is a constant")
        write(id, [])
    expect(len(alive) == len({i for i, _ in file.inputs}), "two inputs overlap")
    for number, layer in enumerate(file.layers):
        result = file.tensors[layer.result]
        kept = _kept(file, layer)
        for i, id in enumerate(layer.operands):
            operand = file.tensors[id]
            if operand.location != "arena":
                continue
            where = f"layer {number} '{layer.name}': operand {i}"
            expect(id in alive, f"{where} is not there when it is read")
            last_residual = layer.residual and i == len(layer.operands) - 1
            allowed = layer.opcode in IN_PLACE or last_residual
            there = _place(operand) in kept or (allowed and _replaces(result, operand))
            apart = not _shared(_place(operand), _place(result))
            expect(apart or there, f"{where} overlaps the result")
        write(layer.result, kept)
    for id, name in file.outputs:
        here = id in alive or file.tensors[id].location != "arena"
        expect(here, f"output '{name}' is not there at the end")


def _place(tensor: Tensor) -> Place:
    return tensor.offset, *tensor.rows


def _replaces(result: Tensor, operand: Tensor) -> bool:
    """Whether the result begins where the operand does, and reaches no further."""
    if operand.pitch or result.pitch:
        return _place(operand) == _place(result)
    return operand.offset == result.offset and operand.nbytes >= result.nbytes


def _survives(old: Place, new: Place, kept: list[Place]) -> bool:
    """Whether all that `new` has of `old` is in bytes that are `kept`."""
    if not (under := _shared(new, old)):
        return True
    are_unlike = old[1] > 1 and new[1] > 1 and old[3] != new[3]
    return not are_unlike and under == sum(_shared(k, old) for k in kept)


def _below(place: Place, address: int) -> int:
    """How many bytes of `place` are below an address."""
    start, count, width, pitch = place
    whole, rest = divmod(address - start, pitch)
    return min(max(whole * width + min(rest, width), 0), count * width)


def _shared(a: Place, b: Place) -> int:
    """
    How many bytes two values share. Columns of two different pitches share all that their ranges
    do: so the format has it.
    """
    ends = [start + (count - 1) * pitch + width for start, count, width, pitch in (a, b)]
    if ends[0] <= b[0] or ends[1] <= a[0]:
        return 0
    if a[1] > 1 and b[1] > 1:
        if a[3] == b[3]:
            return _shared_columns(a, b)
        return min(ends) - max(a[0], b[0])
    one, rows = (a, b) if a[1] == 1 else (b, a)
    return _below(rows, one[0] + one[2]) - _below(rows, one[0])


def _shared_columns(a: Place, b: Place) -> int:
    """The same of one pitch: rows of `b` begin in one row of `a`, and may end in its next."""
    pitch = a[3]
    row, column = divmod(b[0] - a[0], pitch)
    here = max(min(a[2], column + b[2]) - column, 0)
    beyond = max(min(a[2], column + b[2] - pitch), 0)

    def pairs(shift: int) -> int:
        return max(min(a[1], b[1] + shift) - max(0, shift), 0)

    return here * pairs(row) + beyond * pairs(row + 1)


def _kept(file: NnetFile, layer: Layer) -> list[Place]:
    """Bytes of operands that are already where a reshape or a concatenation has them."""
    result = file.tensors[layer.result]
    if layer.opcode == "reshape":
        x = file.tensors[layer.operands[0]]
        return [_place(x)] if x.location == "arena" and _place(x) == _place(result) else []
    if layer.opcode != "concat":
        return []
    axis, rank = layer.attributes[0], len(result.shape)
    is_run, unit = prod(result.shape[:axis]) == 1, BYTES[result.storage]
    if not is_run and axis != rank - 1:
        return []
    row = result.shape[-1] * unit
    pitch = result.pitch or row
    found: list[Place] = []
    index = 0
    for id in layer.operands:
        operand = file.tensors[id]
        width = operand.shape[-1] * unit
        count = prod(operand.shape[:-1])
        start = result.offset + index // row * pitch + index % row
        place: Place = (start, count, width, pitch)
        if count == 1 or pitch == width:
            place = (start, 1, count * width, count * width)
        if operand.location == "arena" and _place(operand) == place:
            found.append(place)
        index += width * (count if is_run else 1)
    return found
