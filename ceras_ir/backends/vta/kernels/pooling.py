"""Build the loops of poolings: maxima along rows and columns in place, and averages by GEMMs."""

from collections.abc import Iterator
from itertools import product

from xdsl.ir import SSAValue

from ceras_ir.backends.vta.kernels.builder import Index, KernelBuilder
from ceras_ir.backends.vta.machine.isa import is_immediate
from ceras_ir.backends.vta.machine.scratchpads import Clip
from ceras_ir.backends.vta.schedule.search import Pooling, doubled
from ceras_ir.dialects import tile
from ceras_ir.dialects.tile.memory import ACC, INP, WGT


def pooling_of(op: tile.MaxPoolOp | tile.AveragePoolOp) -> Pooling:
    n, c, h, w, *_ = tile.memref_type(op.input).get_shape()
    _, _, rows, columns, *_ = tile.memref_type(op.output).get_shape()
    (kh, kw), (sh, sw) = op.kernel.get_values(), op.strides.get_values()
    top, left, bottom, right = op.padding.get_values()
    padding = (top, left, bottom, right)
    return Pooling(n * c, h, w, rows, columns, (kh, kw), (sh, sw), padding)


class _PoolExpansion:
    """
    The base class of the kernels of poolings: it divides the result into blocks of `rows` x
    `columns` positions, and locates the inputs of a block.
    """

    def __init__(
        self, op: tile.MaxPoolOp | tile.AveragePoolOp, shape: Pooling, rows: int, columns: int
    ):
        self.p, self.rows, self.columns = shape, rows, columns
        self.at = KernelBuilder(op)
        self.window = shape.window(rows, columns)

    def corner(self, y: Index, x: Index) -> tuple[Index, Index]:
        """
        Return the first input row and column of the windows of the block of outputs at (`y`, `x`);
        negative in the padding.
        """
        at, p = self.at, self.p
        row = at.sum(at.product(y, p.strides[0]), -p.padding[0])
        return row, at.sum(at.product(x, p.strides[1]), -p.padding[1])


class MaxExpansion(_PoolExpansion):
    """
    Builds the kernel of a maximum pooling. A plane, which is a channel block of an image, is
    computed at a time.
    """

    def __init__(self, op: tile.MaxPoolOp, shape: Pooling, rows: int, columns: int):
        super().__init__(op, shape, rows, columns)
        self.op = op

    def build(self) -> None:
        at, p = self.at, self.p
        source = at.view(self.op.input, p.planes, p.height, p.width, *at.packed)
        target = at.view(self.op.output, p.planes, p.rows, p.columns, *at.packed)
        one = at.view(self.op.identity, 1, *at.tile)
        inp_ring = at.alloc(INP, 2, *self.window)
        identity = at.alloc(WGT, 1)
        inputs = at.alloc(ACC, *self.window)
        results = at.alloc(ACC, 2, self.rows, self.columns)
        at.add(tile.LoadOp(one, [at.value(0)], identity, [], (1, 1)))
        with at.loop(0, p.planes) as plane:
            for y, x in self._corners():
                vectors = at.rotate(inp_ring)
                start = [at.value(i) for i in (plane, *self.corner(y, x))]
                at.add(tile.LoadOp(source, start, vectors, [], self.window))
                at.add(tile.ClearOp(inputs, [], self.window[0] * self.window[1]))
                ih, iw = self.window
                loops = [(ih, iw, iw, 0), (iw, 1, 1, 0)]
                at.add(tile.GemmOp((inputs, []), (vectors, []), (identity, []), loops))
                self._pad(inputs, y, x)
                self._along_rows(inputs)
                result = at.rotate(results)
                self._down_columns(inputs, result)
                start = [at.value(i) for i in (plane, y, x)]
                at.add(tile.StoreOp(result, [], target, start, (self.rows, self.columns)))

    def _corners(self) -> Iterator[tuple[Index, Index]]:
        """
        Yield the first output row and column of each block. All blocks share loops if the padding
        is 0; otherwise the caller builds separate code for each block.
        """
        at, p = self.at, self.p
        if self.op.least.value.data:
            yield from product(range(0, p.rows, self.rows), range(0, p.columns, self.columns))
            return
        with at.loop(0, p.rows, self.rows) as y, at.loop(0, p.columns, self.columns) as x:
            yield y, x

    def _pad(self, inputs: SSAValue, y: Index, x: Index) -> None:
        """
        Replace the zeros that a load writes outside the input by the value of the padding
        (`op.least`), which is negative.
        """
        at, (row, column), (ih, iw) = self.at, self.corner(y, x), self.window
        if not isinstance(row, int) or not isinstance(column, int):
            return
        down, right = Clip.of(row, ih, self.p.height), Clip.of(column, iw, self.p.width)
        for start, rows, columns in (
            ((0, 0), down.before, iw),
            ((ih - down.after, 0), down.after, iw),
            ((0, 0), ih, right.before),
            ((0, iw - right.after), ih, right.after),
        ):
            if rows and columns and (minimum := self.op.least.value.data):
                where, loops = (inputs, at.values(*start)), [(rows, iw), (columns, 1)]
                at.add(tile.AluOp(tile.AluFunction.MIN, where, loops, immediate=minimum))

    def _along_rows(self, inputs: SSAValue) -> None:
        """
        Compute the maximum of each window along rows, and store it in the first element of the
        window.

        With a stride above 1, a window may overlap the first element of the next window. That
        element is read first, because later operations write it. Iterations of an operation only
        write elements that earlier iterations have read.
        """
        (_, kw), (_, sw), (ih, iw) = self.p.kernel, self.p.strides, self.window
        if sw == 1:
            left = iw
            for step in doubled(kw):
                left -= step
                self._combine(inputs, inputs, step, (ih, left), (iw, 1), (iw, 1))
            return
        offsets = sorted(range(1, kw), key=lambda j: j != sw)
        for j in offsets:
            self._combine(inputs, inputs, j, (ih, self.columns), (iw, sw), (iw, sw))

    def _down_columns(self, inputs: SSAValue, result: SSAValue) -> None:
        (kh, _), (sh, sw), (left, iw) = self.p.kernel, self.p.strides, self.window
        if sh == 1:
            for step in doubled(kh):
                left -= step
                rows = (iw, sw)
                self._combine(inputs, inputs, step * iw, (left, self.columns), rows, rows)
        self.at.add(tile.ClearOp(result, [], self.rows * self.columns))
        loops, source = (self.rows, self.columns), (sh * iw, sw)
        for i in range(1 if sh == 1 else kh):
            kind = tile.AluFunction.ADD if i == 0 else tile.AluFunction.MAX
            self._combine(result, inputs, i * iw, loops, (self.columns, 1), source, kind)

    def _combine(
        self,
        target: SSAValue,
        source: SSAValue,
        source_at: int,
        extents: tuple[int, int],
        target_steps: tuple[int, int],
        source_steps: tuple[int, int],
        kind: tile.AluFunction = tile.AluFunction.MAX,
    ) -> None:
        at = self.at
        row, column = divmod(source_at, self.window[1])
        loops = list(zip(extents, target_steps, source_steps, strict=True))
        where = (source, at.values(row, column))
        at.add(tile.AluOp(kind, (target, []), loops, source=where))


class AverageExpansion(_PoolExpansion):
    """
    Builds the kernel of an average over windows of `planes` planes at a time; a plane is a channel
    block of an image. Each window position is a separate GEMM, so that no accumulator is written
    twice within the pipeline of the hardware. A global average of several planes needs a single
    GEMM, because an iteration over the planes separates two sums of an accumulator.
    """

    def __init__(
        self, op: tile.AveragePoolOp, shape: Pooling, planes: int, rows: int, columns: int
    ):
        super().__init__(op, shape, rows, columns)
        self.op, self.planes = op, planes

    def build(self) -> None:
        at, op, p = self.at, self.op, self.p
        self.tiles = tile.memref_type(op.weights).get_shape()[0]
        plane = (p.height * p.width,) if p.is_global else (p.height, p.width)
        result = () if p.is_global else (p.rows, p.columns)
        source = at.view(op.input, p.planes, *plane, *at.packed)
        target = at.view(op.output, p.planes, *result, *at.packed)
        inp_ring = at.alloc(INP, 2, self.planes, *self.window)
        self.weights = at.alloc(WGT, self.tiles)
        results = at.alloc(ACC, 2, self.planes, self.rows, self.columns)
        self.bias = None if is_immediate(op.addend.value.data) else at.alloc(ACC, 1)
        at.add(tile.LoadOp(op.weights, [at.value(0)], self.weights, [], (1, self.tiles)))
        if self.bias is not None:
            bias = at.view(op.bias, 1, *at.packed)
            at.add(tile.LoadOp(bias, [at.value(0)], self.bias, [], (1, 1)))
        for plane_at, count in at.blocks(p.planes, self.planes):
            with at.loop(0, p.rows, self.rows) as y, at.loop(0, p.columns, self.columns) as x:
                vectors, acc = at.rotate(inp_ring), at.rotate(results)
                self._load(source, vectors, plane_at, count, y, x)
                self._sum(acc, vectors, count)
                self._finish(acc, count * self.rows * self.columns)
                self._store(acc, target, plane_at, count, y, x)

    def _load(
        self, source: SSAValue, vectors: SSAValue, plane: Index, count: int, y: Index, x: Index
    ) -> None:
        at = self.at
        if self.p.is_global:
            box = (count, self.p.height * self.p.width)
            at.add(tile.LoadOp(source, [at.value(plane), at.value(0)], vectors, [], box))
            return
        corner = self.corner(y, x)
        with at.loop(0, count) as i:
            start = [at.value(j) for j in (at.sum(plane, i), *corner)]
            at.add(tile.LoadOp(source, start, vectors, at.values(i), self.window))

    def _store(
        self, acc: SSAValue, target: SSAValue, plane: Index, count: int, y: Index, x: Index
    ) -> None:
        at = self.at
        if self.p.is_global:
            at.add(tile.StoreOp(acc, [], target, [at.value(plane)], (1, count)))
            return
        with at.loop(0, count) as i:
            start = [at.value(j) for j in (at.sum(plane, i), y, x)]
            box = (self.rows, self.columns)
            at.add(tile.StoreOp(acc, at.values(i), target, start, box))

    def _sum(self, acc: SSAValue, vectors: SSAValue, count: int) -> None:
        at, p = self.at, self.p
        vectors_out = count * self.rows * self.columns
        at.add(tile.ClearOp(acc, [], vectors_out))
        (sh, sw), (ih, iw) = p.strides, self.window
        box = [
            (self.rows, self.columns, sh * iw, 0),
            (self.columns, 1, sw, 0),
            (count, self.rows * self.columns, ih * iw, 0),
        ]
        loops = [loop for loop in box if loop[0] > 1] or box[:1]
        for t in range(self.tiles):
            if t:
                self._apply(tile.AluFunction.SHR, acc, vectors_out, -self.op.DIGIT_BITS)
            if p.has_merged_taps(count):
                merged = [(ih * iw, 0, 1, 0), (count, 1, ih * iw, 0)]
                weights = self.weights, at.values(t)
                at.add(tile.GemmOp((acc, []), (vectors, []), weights, merged))
                continue
            with at.loop(0, p.kernel[0]) as i, at.loop(0, p.kernel[1]) as j:
                operands = (vectors, at.values(0, i, j)), (self.weights, at.values(t))
                at.add(tile.GemmOp((acc, []), *operands, loops))

    def _finish(self, acc: SSAValue, count: int) -> None:
        at, op = self.at, self.op
        if self.bias is not None:
            loops = [(count, 1, 0)]
            at.add(tile.AluOp(tile.AluFunction.ADD, (acc, []), loops, source=(self.bias, [])))
        elif addend := op.addend.value.data:
            self._apply(tile.AluFunction.ADD, acc, count, addend)
        if shift := op.shift.value.data:
            self._apply(tile.AluFunction.SHR, acc, count, shift)
        self._apply(tile.AluFunction.MAX, acc, count, op.low.value.data)
        self._apply(tile.AluFunction.MIN, acc, count, op.high.value.data)

    def _apply(self, kind: tile.AluFunction, acc: SSAValue, count: int, immediate: int) -> None:
        self.at.add(tile.AluOp(kind, (acc, []), [(count, 1)], immediate=immediate))
