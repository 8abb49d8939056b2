"""Replace scores of a network by decisions: the best classes, the symbols of a text, or boxes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from math import inf, isfinite, prod
from typing import TYPE_CHECKING, Literal, NamedTuple

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    Float32Type,
    FunctionType,
    NameLoc,
    StringAttr,
    UnknownLoc,
    f32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.data.labels import read_labels
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Compare, Reduce, element_of, shape_of
from ceras_ir.dialects.graph.reduction import SuppressOp
from ceras_ir.network.function import LABELS, NAME, output_names, result_values
from ceras_ir.network.storage import FLOAT, PRECISION
from ceras_ir.support.diagnostics import InputError, UsageError, did_you_mean
from ceras_ir.transforms.pass_kinds import NetworkPass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SEVERAL_BOXES = 20
"""The default number of boxes."""

COMMON = ("name", "kind", "scores", "labels")
APPLIES = {
    "top": ("count",),
    "ctc": ("blank",),
    "boxes": ("count", "boxes", "corners", "objectness", "background", "overlap", "least"),
}
"""The options that a kind of decisions has in addition to `COMMON`."""


class Decision(NamedTuple):
    """
    A graph output with decisions, such as the best classes, that replaces an output with scores.
    """

    name: str
    value: SSAValue
    has_labels: bool = False
    """Whether the elements are numbers of classes."""


@dataclass(frozen=True)
class DecodeOutputsPass(NetworkPass):
    """
    Replace an output of scores by decisions, so that an application needs a single call.

    The decisions are those that an application would compute from the outputs of the program: their
    operations are not quantized.

    - `top` replaces an output `y` [..., C] by `y_classes` [..., K] of i64 and `y_scores` [..., K]:
      the K largest elements of each row, the largest first, equal elements by index.
    - `ctc` decodes connectionist temporal classification greedily. It replaces `y` [N, T, C], [T,
      N, C] or [T, C] by `y_symbols` [N, T] of i64 and `y_length` [N]: the best class of each step,
      without repetitions, then without `blank`. Unused elements are -1. Of equal classes the first
      is the best.
    - `boxes` replaces the outputs of a detector by `boxes` [K, 4] of f32 (left, top, right,
      bottom), `scores` [K], `classes` [K] of i64 and `count` [1], by decreasing score. Boxes are
      selected for each class by non-maximum suppression (`graph.suppress`), and are not clipped to
      the image. In unused rows, boxes and scores are 0 and classes -1.

    Before, with `count=1`:

        func.func @main(%x: tensor<1x4xf32>) -> (tensor<1x4xf32> {graph.name = "y"}) {
          %y = graph.unary <relu> %x : tensor<1x4xf32>
          func.return %y : tensor<1x4xf32>
        }

    After:

        func.func @main(%x: tensor<1x4xf32>) -> (tensor<1x1xi64> {graph.name = "y_classes"},
            tensor<1x1xf32> {graph.name = "y_scores"}) {
          %y = graph.unary <relu> %x : tensor<1x4xf32>
          %i = graph.top_k max %y {graph.precision = "f32"}
              : (tensor<1x4xf32>) -> tensor<1x1xi64>
          %c = graph.reshape %y {graph.precision = "f32"}
              : (tensor<1x4xf32>) -> tensor<4x1xf32>
          %f = graph.reshape %i {graph.precision = "f32"}
              : (tensor<1x1xi64>) -> tensor<1xi64>
          %t = graph.take %c[%f] {graph.precision = "f32"}
              : (tensor<4x1xf32>, tensor<1xi64>) -> tensor<1x1xf32>
          func.return %i, %t : tensor<1x1xi64>, tensor<1x1xf32>
        }
    """

    name = "decode-outputs"

    kind: Literal["top", "ctc", "boxes"] = "top"
    """The kind of decisions."""
    scores: str = ""
    """The output with scores; by default the only one."""
    labels: str = ""
    """A text file with a line per class, which becomes part of the interface of the program."""
    count: int = 0
    """The number of classes (default: 5) or boxes (default: 20)."""
    blank: int = 0
    """The class that is no symbol (ctc); negative numbers count from the end."""
    boxes: str = ""
    """
    The output [1, N, 4] or [1, 4, N] with the coordinates of boxes. By default, the output with
    scores has them first, as [1, 4 + C, N] or [1, N, 4 + C].
    """
    corners: Literal["yxyx", "xyxy", "cxcywh"] = "cxcywh"
    """The coordinates of a box: two corners, or the middle, width and height."""
    objectness: bool = False
    """Whether a score of the box itself follows its coordinates; it multiplies the others."""
    background: bool = False
    """Whether class 0 is the background, which is omitted (boxes)."""
    overlap: float = 0.5
    """Omit boxes with a larger ratio of intersection to union with a better box of the class."""
    least: float = 0.25
    """Omit boxes with a score that is not above this."""

    def __post_init__(self) -> None:
        if self.count < 0:
            raise UsageError(f"--decode {self.kind}: count must be positive, got {self.count}")
        if not (isfinite(self.overlap) and isfinite(self.least)):
            raise UsageError(f"--decode {self.kind}: overlap and least must be finite")
        for each in fields(self):
            is_used = each.name in APPLIES[self.kind] or each.name in COMMON
            if not is_used and getattr(self, each.name) != each.default:
                raise UsageError(f"--decode {self.kind}: {each.name} has no effect; remove it")

    def change(self, main: FuncOp) -> None:
        names, values = output_names(main), result_values(main)
        scores = self._find(names, self.scores)
        value, removed = values[scores], {scores}
        builder = _Builder(main, names[scores])
        if self.kind == "boxes":
            coordinates: SSAValue | None = None
            if self.boxes:
                place = self._find(names, self.boxes)
                coordinates = values[place]
                removed.add(place)
            decisions, classes = _boxes(builder, self, value, coordinates)
        elif self.kind == "ctc":
            decisions, classes = _symbols(builder, self, value, names[scores])
        else:
            decisions, classes = _top(builder, self, value, names[scores])
        labels = read_labels(self.labels) if self.labels else ()
        if self.labels and len(labels) != classes:
            raise InputError(
                f"{len(labels)} labels for {classes} classes of output '{names[scores]}': the "
                "file must have a line per class",
                self.labels,
            )
        _replace(main, removed, decisions, labels)

    def _find(self, names: Sequence[str], name: str) -> int:
        if name in names:
            return names.index(name)
        if not name and len(names) == 1:
            return 0
        if not name:
            raise UsageError(
                f"--decode {self.kind}: the network has the outputs {', '.join(names)}: name one "
                f"with scores={names[0]}"
            )
        hint = did_you_mean(name, names) or f"; the outputs are {', '.join(names)}"
        raise UsageError(f"--decode {self.kind}: no output '{name}'{hint}")


class _Builder:
    """
    Adds operations at the end of a network. They have the location of a graph output and remain in
    float.
    """

    def __init__(self, main: FuncOp, name: str):
        self.output = name
        last = main.body.block.last_op
        assert last is not None
        self._point = InsertPoint.before(last)
        self._location = NameLoc(StringAttr(name), UnknownLoc())

    def add(self, op: graph.GraphOperation) -> SSAValue:
        op.location = self._location
        if not isinstance(op, graph.ConstantOp):
            op.attributes[PRECISION] = StringAttr(FLOAT)
        Rewriter.insert_op(op, self._point)
        return op.results[0]

    def constant(self, array: NDArray[np.generic], element: Attribute = i64) -> SSAValue:
        return self.add(graph.ConstantOp.from_array(array, element))

    def numbers(self, value: int, shape: Sequence[int]) -> SSAValue:
        """Return a constant of i64 with `value` as each element."""
        import numpy as np

        return self.constant(np.full(shape, value, np.int64))

    def number(self, value: float) -> SSAValue:
        import numpy as np

        return self.constant(np.array(value, np.float32), f32)

    def reshape(self, value: SSAValue, *shape: int) -> SSAValue:
        return value if shape_of(value) == shape else self.add(graph.ReshapeOp(value, shape))

    def binary(self, kind: Binary, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.add(graph.BinaryOp(kind, lhs, rhs, result_element=element_of(lhs)))

    def choose(self, condition: SSAValue, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.add(graph.SelectOp(condition, lhs, rhs))

    def compare(self, kind: Compare, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.add(graph.CompareOp(kind, lhs, rhs))

    def take(self, rows: SSAValue, indices: SSAValue) -> SSAValue:
        return self.add(graph.TakeOp(rows, indices))

    def part(self, value: SSAValue, axis: int, start: int, size: int) -> SSAValue:
        shape = list(shape_of(value))
        starts = [start if i == axis else 0 for i in range(len(shape))]
        shape[axis] = size
        return self.add(graph.SliceOp(value, starts, shape))

    def best(self, rows: SSAValue, count: int) -> SSAValue:
        """
        Return the indices [R, count] of the largest elements of each row of `rows` [R, C], the
        largest first.
        """
        return self.add(graph.TopKOp(Reduce.MAX, rows, count))

    def of_rows(self, rows: SSAValue, indices: SSAValue) -> SSAValue:
        """
        Return, as [R * K, 1], the elements of `rows` [R, C] with the column indices `indices` [R,
        K] in each row.
        """
        import numpy as np

        count, extent = shape_of(rows)
        if count > 1:
            starts = extent * np.arange(count, dtype=np.int64).reshape(count, 1)
            indices = self.binary(Binary.ADD, indices, self.constant(starts))
        column = self.reshape(rows, count * extent, 1)
        return self.take(column, self.reshape(indices, prod(shape_of(indices))))


def _top(
    builder: _Builder, options: DecodeOutputsPass, value: SSAValue, name: str
) -> tuple[list[Decision], int]:
    *outer, extent = shape_of(value) or (0,)
    count = options.count or min(5, extent)
    if not 1 <= count <= extent:
        raise UsageError(
            f"--decode top: count must be in [1, {extent}] for output '{name}' of "
            f"{list(shape_of(value))}, got {count}"
        )
    rows = builder.reshape(value, prod(outer), extent)
    indices = builder.best(rows, count)
    scores = builder.of_rows(rows, indices)
    classes = builder.reshape(indices, *outer, count)
    return [
        Decision(f"{name}_classes", classes, has_labels=True),
        Decision(f"{name}_scores", builder.reshape(scores, *outer, count)),
    ], extent


def _symbols(
    builder: _Builder, options: DecodeOutputsPass, value: SSAValue, name: str
) -> tuple[list[Decision], int]:
    shape = shape_of(value)
    if len(shape) == 3 and shape[1] == 1:
        shape = (1, shape[0], shape[2])
    elif len(shape) == 2:
        shape = (1, *shape)
    if len(shape) != 3:
        raise UsageError(
            f"--decode ctc: output '{name}' must be [batch, time, classes], [time, 1, classes] or "
            f"[time, classes], got {list(shape)}"
        )
    batch, steps, classes = shape
    if not -classes <= options.blank < classes:
        raise UsageError(
            f"--decode ctc: blank must be one of {classes} classes, got {options.blank}"
        )
    best = builder.add(graph.ArgOp(Reduce.MAX, builder.reshape(value, *shape), 2))
    best = builder.reshape(best, batch, steps)
    # A step counts if its class is neither the blank nor that of the step before it.
    before = builder.numbers(-1, (batch, 1))
    if steps > 1:
        parts = [before, builder.part(best, 1, 0, steps - 1)]
        before = builder.add(graph.ConcatOp(parts, 1))
    none, one = builder.numbers(0, ()), builder.numbers(1, ())
    blank = builder.numbers(options.blank % classes, ())
    counts = builder.choose(builder.compare(Compare.EQUAL, best, before), none, one)
    counts = builder.choose(builder.compare(Compare.EQUAL, best, blank), none, counts)
    # The steps that count are first, in order of time: equal keys are ordered by index.
    order = builder.best(counts, steps)
    symbols = builder.reshape(builder.of_rows(best, order), batch, steps)
    valid = builder.reshape(builder.of_rows(counts, order), batch, steps)
    is_used = builder.compare(Compare.EQUAL, valid, one)
    symbols = builder.choose(is_used, symbols, builder.numbers(-1, ()))
    length = builder.add(graph.ReduceOp(Reduce.SUM, counts, [1]))
    return [
        Decision(f"{name}_symbols", symbols, has_labels=True),
        Decision(f"{name}_length", builder.reshape(length, batch)),
    ], classes


def _boxes(
    builder: _Builder, options: DecodeOutputsPass, scores: SSAValue, coordinates: SSAValue | None
) -> tuple[list[Decision], int]:
    scores, corners = _detections(builder, options, scores, coordinates)
    _, classes, boxes = shape_of(scores)
    skipped = int(options.background)
    if skipped:
        if classes == 1:
            raise UsageError("--decode boxes: background needs at least two classes, got 1")
        classes -= skipped
        scores = builder.part(scores, 1, skipped, classes)
    count = options.count or SEVERAL_BOXES
    each = min(count, boxes)
    rows = classes * each
    count = min(count, rows)
    bounds = (options.overlap, options.least)
    found = builder.add(SuppressOp(corners, scores, rows, each, bounds))
    category = builder.reshape(builder.part(found, 1, 1, 1), rows)
    none, unused = builder.numbers(0, ()), builder.numbers(-1, ())
    is_used = builder.compare(Compare.LESS, unused, category)
    # Unused rows refer to the first box, and are last in the order.
    box = builder.reshape(builder.part(found, 1, 2, 1), rows)
    box = builder.choose(is_used, box, none)
    at = builder.binary(Binary.MUL, category, builder.numbers(boxes, ()))
    at = builder.choose(is_used, builder.binary(Binary.ADD, at, box), none)
    score = builder.take(builder.reshape(scores, classes * boxes, 1), at)
    score = builder.reshape(score, rows)
    key = builder.choose(is_used, score, builder.number(-inf))
    order = builder.reshape(builder.best(builder.reshape(key, 1, rows), count), count)
    column = builder.take(builder.reshape(category, rows, 1), order)
    if skipped:
        shifted = builder.binary(Binary.ADD, column, builder.numbers(skipped, ()))
        is_object = builder.compare(Compare.LESS, unused, column)
        column = builder.choose(is_object, shifted, unused)
    is_valid = builder.compare(Compare.LESS, unused, column)
    chosen = builder.take(builder.reshape(box, rows, 1), order)
    places = builder.take(builder.reshape(corners, boxes, 4), builder.reshape(chosen, count))
    places = builder.add(graph.GatherOp(places, 1, (1, 0, 3, 2)))
    best = builder.take(builder.reshape(score, rows, 1), order)
    zero = builder.number(0.0)
    total = builder.choose(is_valid, builder.numbers(1, ()), none)
    return [
        Decision("boxes", builder.choose(is_valid, places, zero)),
        Decision("scores", builder.reshape(builder.choose(is_valid, best, zero), count)),
        Decision("classes", builder.reshape(column, count), has_labels=True),
        Decision("count", builder.reshape(builder.add(graph.ReduceOp(Reduce.SUM, total, [0])), 1)),
    ], classes + skipped


def _detections(
    builder: _Builder, options: DecodeOutputsPass, scores: SSAValue, coordinates: SSAValue | None
) -> tuple[SSAValue, SSAValue]:
    """
    Return the scores [1, C, N] of C classes, and the boxes [1, N, 4] as y0, x0, y1, x1. Without
    `coordinates`, the output `scores` contains both. Raise `UsageError` for other shapes.
    """
    first = 4 + options.objectness
    shape = shape_of(scores)
    problem = f"--decode boxes: output '{builder.output}' of {list(shape)}"
    for value in (scores, coordinates):
        if value is not None and (
            len(shape_of(value)) != 3
            or shape_of(value)[0] != 1
            or not isinstance(element_of(value), Float32Type)
        ):
            raise UsageError(f"{problem}: expected f32 of [1, boxes, values] of a single image")
    if coordinates is None:
        # There are more boxes than values of a box.
        columns = (
            scores if shape[1] > shape[2] else builder.add(graph.TransposeOp(scores, (0, 2, 1)))
        )
        _, boxes, values = shape_of(columns)
        if values <= first:
            raise UsageError(f"{problem}: a box has {values} values, expected {first} and scores")
        places = builder.part(columns, 2, 0, 4)
        found = builder.part(columns, 2, first, values - first)
        if options.objectness:
            found = builder.binary(Binary.MUL, found, builder.part(columns, 2, 4, 1))
        return builder.add(graph.TransposeOp(found, (0, 2, 1))), _corners(builder, options, places)
    if options.objectness:
        raise UsageError("--decode boxes: objectness needs scores and boxes in one output")
    extents = shape_of(coordinates)
    if extents[2] != 4 and extents[1] == 4:
        coordinates = builder.add(graph.TransposeOp(coordinates, (0, 2, 1)))
    _, boxes, values = shape_of(coordinates)
    if values != 4 or boxes not in shape[1:]:
        raise UsageError(
            f"{problem}: boxes of {list(extents)} do not fit; expected [1, N, 4] and [1, N, C]"
        )
    if shape[1] == boxes:
        scores = builder.add(graph.TransposeOp(scores, (0, 2, 1)))
    return scores, _corners(builder, options, coordinates)


def _corners(builder: _Builder, options: DecodeOutputsPass, places: SSAValue) -> SSAValue:
    parts = [builder.part(places, 2, i, 1) for i in range(4)]
    if options.corners == "cxcywh":
        half = builder.number(0.5)
        ends = list[SSAValue]()
        for kind in (Binary.SUB, Binary.ADD):
            for i in (1, 0):
                ends.append(
                    builder.binary(kind, parts[i], builder.binary(Binary.MUL, parts[i + 2], half))
                )
        return builder.add(graph.ConcatOp(ends, 2))
    if options.corners == "xyxy":
        parts = [parts[i] for i in (1, 0, 3, 2)]
    sides = [
        builder.binary(kind, parts[i], parts[i + 2])
        for kind in (Binary.MIN, Binary.MAX)
        for i in range(2)
    ]
    return builder.add(graph.ConcatOp(sides, 2))


def _replace(
    main: FuncOp, removed: Iterable[int], decisions: Sequence[Decision], labels: Sequence[str]
) -> None:
    """
    Change the outputs of the network: `decisions` replace the outputs with indices in `removed`, at
    the position of the first removed output. `labels` are the names of classes.
    """
    removed = sorted(removed)
    names, values = output_names(main), result_values(main)
    known = main.res_attrs.data if main.res_attrs is not None else ()
    rest = [name for i, name in enumerate(names) if i not in removed]
    if taken := [each.name for each in decisions if each.name in rest]:
        raise UsageError(f"--decode: the network has another output '{taken[0]}'")
    results, entries = list[SSAValue](), list[DictionaryAttr]()
    for i, value in enumerate(values):
        if i == removed[0]:
            for each in decisions:
                results.append(each.value)
                texts: dict[str, Attribute] = {NAME: StringAttr(each.name)}
                if each.has_labels and labels:
                    texts[LABELS] = ArrayAttr(map(StringAttr, labels))
                entries.append(DictionaryAttr(texts))
        elif i not in removed:
            results.append(value)
            entries.append(known[i] if known else DictionaryAttr({NAME: StringAttr(names[i])}))
    last = main.body.block.last_op
    assert isinstance(last, ReturnOp)
    Rewriter.replace_op(last, ReturnOp(*results))
    main.properties["function_type"] = FunctionType.from_lists(
        list(main.function_type.inputs), [value.type for value in results]
    )
    main.res_attrs = ArrayAttr(entries)
