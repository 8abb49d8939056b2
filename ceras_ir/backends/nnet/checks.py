"""
Check that the tables of an nnet file agree: the layers, and the places of values in memory.

The checks of all layers use the fields of `Kind`; a check of a single kind is the `check` of the
kind. The layers are replayed over the arena: a plan in which a value overwrites another value that
a later layer reads is refused. Written from `docs/nnet-format.md`, as the reader.
"""

from ceras_ir.backends.nnet.file import BYTES, ONLY_PLAIN, Case, FileTensor, NnetFile, Place, expect


def check(file: NnetFile) -> None:
    """Refuse a file whose parts do not agree."""
    for number, layer in enumerate(file.layers):
        check_layer(Case(file, number, layer))
    check_states(file)
    check_memory(file)


def check_states(file: NnetFile) -> None:
    """The last inputs, which are the last outputs of the run before."""
    count, inputs, outputs = file.states, file.inputs, file.outputs
    expect(count <= min(len(inputs), len(outputs)), f"{count} states, more than inputs or outputs")
    tensors, ids = file.tensors, [id for id, _ in inputs]
    for i in range(-count, 0):
        (id, name), (last, _) = inputs[i], outputs[i]
        expect(ids.count(id) == 1, f"state '{name}' is an input twice")
        same = tensors[id].shape == tensors[last].shape and tensors[id].type == tensors[last].type
        expect(same, f"state '{name}' and what follows it are of different types")


def check_layer(case: Case) -> None:
    """Counts, types and shapes of one layer."""
    layer, result, must = case.layer, case.result, case.must
    kind = layer.kind
    own = max(1, len(case.operands)) if kind.operands is None else kind.operands
    expected = own + layer.bias + layer.multipliers + layer.residual
    must(len(case.operands) == expected, f"{expected} operands expected, got {len(case.operands)}")
    extra = layer.bias or layer.residual or layer.multipliers
    must(kind.epilogue or not extra, "it takes no bias, residual or multipliers")
    must(layer.residual or layer.residual_shift == 0, "it has no residual to shift")
    counted = kind.words is None or layer.fused
    must(counted or kind.words == len(case.words), f"{kind.words} attributes expected")
    must(result.location == "arena", "its result is a constant")
    plain = any(t.storage in ONLY_PLAIN for t in (*case.operands, result))
    must(kind.all_storages or not plain, "it takes no integers of 64 bits and no booleans")
    must(kind.epilogue or not layer.fused, "it takes no table behind a requantization")
    tabulated = kind.table or layer.fused
    must((layer.table is not None) == tabulated, "a wrong lookup table")
    if layer.fused:
        check_fused_tables(case)
    must(kind.function or layer.function == "none", "it takes no function")
    _check_requant(case)
    must(not kind.same_shape or case.operands[0].shape == result.shape, "its shapes differ")
    if kind.same_type:
        case.keeps_type()
    kind.check(case)


def _check_requant(case: Case) -> None:
    layer, result, must = case.layer, case.result, case.must
    needed = layer.kind.requant(layer)
    must((layer.requant is not None) == (needed and case.is_quantized), "a wrong requantization")
    if needed:
        same = all(t.is_quantized == case.is_quantized for t in case.operands)
        must(same, "it mixes float and quantized tensors")
        # Of a table it says what function that is of.
        plain = layer.fused or not result.is_quantized or layer.function == "none"
        must(plain, "a quantized layer has no function")
    if (requant := layer.requant) is not None:
        must(1 <= requant.multiplier < 1 << 31 and requant.shift <= 62, "its rescaling")
        low, high = (-128, 127) if layer.fused else result.limits
        must(low <= requant.low <= requant.high <= high, "its clamp range")


def check_fused_tables(case: Case) -> None:
    """One table, or one for each channel, of 256 entries of the result's storage."""
    layer, result, must = case.layer, case.result, case.must
    must(result.storage in ("i8", "f32"), "a table makes int8 or floats")
    must(layer.kind.words is not None, "no attributes of its own")
    first = layer.table
    assert first is not None
    own = case.words[layer.kind.words or 0 :]
    must(len(case.words) >= (layer.kind.words or 0), "attributes are missing")
    must(len(own) in (0, result.channels), "one table, or one for each channel")
    must(not own or own[0] == first, "its table is not that of its first channel")
    stored, pieces = len(case.file.sections["tables"]) // 256, BYTES[result.storage]
    must(all(t + pieces <= stored for t in (first, *own)), "no such lookup table")


def check_window(case: Case, words: tuple[int, ...], kernel: tuple[int, ...]) -> None:
    """Strides, padding and dilations in `words` give the shape of the result."""
    x, y, must = case.operands[0], case.result, case.must
    must(len(x.shape) == len(y.shape) == 4 and x.shape[0] == y.shape[0], "rank 4 expected")
    for axis in (0, 1):
        stride, dilation = words[axis], words[6 + axis]
        before, after = words[2 + axis], words[4 + axis]
        must(stride > 0 and dilation > 0 and kernel[axis] > 0, "a window attribute is zero")
        padded = x.shape[1 + axis] + before + after - (kernel[axis] - 1) * dilation - 1
        must(padded >= 0 and padded // stride + 1 == y.shape[1 + axis], "its window does not fit")


def check_memory(file: NnetFile) -> None:
    """Refuse a plan in which a value is read that is not, or no longer, there."""
    alive: dict[int, FileTensor] = {}

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


def _replaces(result: FileTensor, operand: FileTensor) -> bool:
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
