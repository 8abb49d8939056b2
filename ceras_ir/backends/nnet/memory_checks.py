"""
Whether the values of an nnet file are where they are read.

The layers are replayed over the arena: a plan in which one value overwrites another that is
still needed is refused. Written from `docs/nnet-format.md`, as the reader.
"""

from ceras_ir.backends.nnet.file import NnetFile, Place, Tensor, expect


def check_memory(file: NnetFile) -> None:
    """Refuse a plan in which a value is read that is not, or no longer, there."""
    alive: dict[int, Tensor] = {}

    def write(id: int, kept: list[Place]) -> None:
        """Whatever lies under `id` is gone, but for what lies in bytes that are `kept`."""
        for other, old in list(alive.items()):
            if not _survives(old.place, file.tensors[id].place, kept):
                del alive[other]
        alive[id] = file.tensors[id]

    for id, name in file.inputs:
        expect(file.tensors[id].location == "arena", f"input '{name}' is a constant")
        write(id, [])
    expect(len(alive) == len({i for i, _ in file.inputs}), "two inputs overlap")
    for number, layer in enumerate(file.layers):
        result = file.tensors[layer.result]
        kept = layer.kind.kept(file, layer)
        for i, id in enumerate(layer.operands):
            operand = file.tensors[id]
            if operand.location != "arena":
                continue
            where = f"layer {number} '{layer.name}': operand {i}"
            expect(id in alive, f"{where} is not there when it is read")
            last_residual = layer.residual and i == len(layer.operands) - 1
            allowed = layer.kind.in_place or last_residual
            there = operand.place in kept or (allowed and _replaces(result, operand))
            apart = not _shared(operand.place, result.place)
            expect(apart or there, f"{where} overlaps the result")
        write(layer.result, kept)
    for id, name in file.outputs:
        here = id in alive or file.tensors[id].location != "arena"
        expect(here, f"output '{name}' is not there at the end")


def _replaces(result: Tensor, operand: Tensor) -> bool:
    """Whether the result begins where the operand does, and reaches no further."""
    if operand.pitch or result.pitch:
        return operand.place == result.place
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
