"""
How IR is made smaller and stays valid: every candidate of valid IR passes the verifier.

Operations of a function are left out at any place: values that they made and that are still read
become arguments, values that nobody reads any more become results.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from io import StringIO
from itertools import count, product
from math import prod

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    FunctionType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import ConstantLike, IsTerminator
from xdsl.utils.hints import isa

from ceras_ir.network.function import NAME
from ceras_ir.pipeline.printing import print_module
from ceras_ir.pipeline.verification import find_invalid
from ceras_ir.workbench.reduce.search import Smaller, smallest_subset
from ceras_ir.workbench.reduce.smaller_shapes import flatten, shape_of_type, shrunk

EXTENTS = (1, 2, 3, 4, 8, 16)
"""What dimensions are shrunk to, if they are larger."""


class IrSubject:
    """A module of any dialects."""

    def __init__(self, module: ModuleOp, *, names: bool):
        """`names` says whether the text has locations, which are then kept."""
        self._names, self._was_valid = names, not find_invalid(module)

    def write(self, input: ModuleOp) -> bytes:
        stream = StringIO()
        print_module(input, stream, debuginfo=self._names)
        return stream.getvalue().encode()

    def size(self, input: ModuleOp) -> tuple[int, int]:
        """Operations but for modules, functions, their ends and constants; elements of values."""
        elements = (prod(shape_of_type(value.type) or ()) for value in _values(input))
        return sum(map(_counts, input.walk())), sum(elements)

    def reductions(self) -> Sequence[Callable[[ModuleOp, Smaller[ModuleOp]], None]]:
        return (
            self._leave_out_functions,
            self._leave_out_operations,
            self._leave_out_nested,
            self._skip_operations,
            self._flatten_constants,
            self._shrink_shapes,
            self._drop_attributes,
        )

    def _valid(self, module: ModuleOp) -> bool:
        return not self._was_valid or not find_invalid(module)

    def _try(
        self, module: ModuleOp, accepts: Smaller[ModuleOp], change: Callable[[ModuleOp], bool]
    ) -> bool:
        """Whether a copy that `change` has changed, and says it could, is valid and interesting."""
        copy = module.clone()
        return change(copy) and self._valid(copy) and accepts(copy)

    def _leave_out_functions(self, module: ModuleOp, accepts: Smaller[ModuleOp]) -> None:
        def only(kept: Collection[int]) -> bool:
            def change(copy: ModuleOp) -> bool:
                gone = [op for i, op in enumerate(copy.body.block.ops) if i not in kept]
                if any(u.operation not in gone for op in gone for r in op.results for u in r.uses):
                    return False
                for op in reversed(gone):
                    op.detach()
                    op.erase()
                return True

            return self._try(module, accepts, change)

        smallest_subset(range(len(module.body.block.ops)), only)

    def _leave_out_operations(self, module: ModuleOp, accepts: Smaller[ModuleOp]) -> None:
        for name in [f.sym_name.data for f in _free_functions(module)]:
            module = self._leave_out_steps(module, name, accepts)

    def _leave_out_steps(self, module: ModuleOp, name: str, accepts: Smaller[ModuleOp]) -> ModuleOp:
        """Operations of one function; returns what is left."""
        best = module

        def only(kept: Collection[int]) -> bool:
            nonlocal best
            copy = module.clone()
            function = _function(copy, name)
            ops = list(_steps(function.body.block))
            _keep_only(function, [ops[i] for i in kept])
            if not (self._valid(copy) and accepts(copy)):
                return False
            best = copy
            return True

        smallest_subset(range(len(list(_steps(_function(module, name).body.block)))), only)
        return best

    def _leave_out_nested(self, module: ModuleOp, accepts: Smaller[ModuleOp]) -> None:
        """Operations inside of others, with all that reads them."""
        free = {op for f in _free_functions(module) for op in f.body.block.ops}
        indices = [
            i
            for i, op in enumerate(module.walk())
            if op not in free and _may_go(op) and op.parent_op() not in (None, module)
        ]

        def only(kept: Collection[int]) -> bool:
            def change(copy: ModuleOp) -> bool:
                ops = list(copy.walk())
                wanted = {ops[i] for i in kept}
                gone = [ops[i] for i in indices if ops[i] not in wanted]
                # What others need stays; in reverse, so that readers go first.
                for op in reversed(gone):
                    if all(result.first_use is None for result in op.results):
                        op.detach()
                        op.erase()
                return True

            return self._try(module, accepts, change)

        smallest_subset(indices, only)

    def _skip_operations(self, module: ModuleOp, accepts: Smaller[ModuleOp]) -> None:
        """Read an operand instead of a result of the same type, so that neighbours meet."""
        i = 0
        best = module
        while i < len(ops := list(best.walk())):
            found = None
            for k, operand in enumerate(ops[i].operands):
                if len(ops[i].results) != 1 or operand.type != ops[i].results[0].type:
                    continue
                copy = best.clone()
                op = list(copy.walk())[i]
                op.results[0].replace_all_uses_with(op.operands[k])
                Rewriter.erase_op(op)
                _drop_unread(copy)
                if self._valid(copy) and accepts(copy):
                    found = copy
                    break
            # With one operation fewer, the next one stands at the same place.
            best, i = (best, i + 1) if found is None else (found, i)

    def _flatten_constants(self, module: ModuleOp, accepts: Smaller[ModuleOp]) -> None:
        """Constants of equal elements: all at once if that will do."""
        indices = [i for i, op in enumerate(module.walk()) if flatten(op.clone())]

        def only(kept: Collection[int]) -> bool:
            def change(copy: ModuleOp) -> bool:
                ops = list(copy.walk())
                return all(flatten(ops[i]) for i in indices if i not in kept)

            return self._try(module, accepts, change)

        smallest_subset(indices, only)

    def _shrink_shapes(self, module: ModuleOp, accepts: Smaller[ModuleOp]) -> None:
        """One extent after the other becomes smaller, wherever it stands, the largest first."""
        tried: set[int] = set()
        best = module
        while left := sorted(_extents(best) - tried, reverse=True):
            extent = left[0]
            tried.add(extent)
            for smaller, attributes in product(EXTENTS, (True, False)):
                if smaller >= extent:
                    break
                copy = shrunk(best, extent, smaller, attributes=attributes)
                if copy is not None and self._valid(copy) and accepts(copy):
                    best = copy
                    break

    def _drop_attributes(self, module: ModuleOp, accepts: Smaller[ModuleOp]) -> None:
        """What discardable attributes say."""
        indices = [(i, key) for i, op in enumerate(module.walk()) for key in op.attributes]

        def only(kept: Collection[tuple[int, str]]) -> bool:
            def change(copy: ModuleOp) -> bool:
                ops = list(copy.walk())
                for i, key in indices:
                    if (i, key) not in kept:
                        del ops[i].attributes[key]
                return True

            return self._try(module, accepts, change)

        smallest_subset(indices, only)


def without_places(module: ModuleOp) -> ModuleOp:
    """`module` without the lines that it was read from, which are not its own."""
    for op in module.walk():
        if isinstance(op.location, FileLineColLoc):
            op.location = UNKNOWN_LOC
    return module


def _counts(op: Operation) -> bool:
    return not isinstance(op, ModuleOp | FuncOp) and _may_go(op)


def _may_go(op: Operation) -> bool:
    return not op.has_trait(ConstantLike) and not op.has_trait(IsTerminator)


def _functions(module: ModuleOp) -> Iterator[FuncOp]:
    return (op for op in module.body.block.ops if isinstance(op, FuncOp))


def _function(module: ModuleOp, name: str) -> FuncOp:
    return next(f for f in _functions(module) if f.sym_name.data == name)


def _free_functions(module: ModuleOp) -> list[FuncOp]:
    """Functions of one block that no symbol refers to, so that their types may change."""
    named: set[str] = set()

    def look(attribute: Attribute) -> None:
        if isinstance(attribute, SymbolRefAttr):
            named.add(attribute.root_reference.data)
        elif isa(attribute, ArrayAttr[Attribute]):
            for each in attribute.data:
                look(each)
        elif isinstance(attribute, DictionaryAttr):
            for each in attribute.data.values():
                look(each)

    for op in module.walk():
        for attribute in (*op.properties.values(), *op.attributes.values()):
            look(attribute)
    return [
        f
        for f in _functions(module)
        if f.sym_name.data not in named
        and f.body.blocks
        and f.body.first_block is f.body.last_block
        and isinstance(f.body.block.last_op, ReturnOp)
    ]


def _steps(block: Block) -> Iterator[Operation]:
    return filter(_may_go, block.ops)


def _keep_only(function: FuncOp, kept: Sequence[Operation]) -> None:
    """Leave out all other operations of the function's block, but for constants that are read."""
    block, wanted = function.body.block, set(kept)
    last = block.last_op
    assert isinstance(last, ReturnOp)
    read = {value for op in (*block.ops,) for value in op.results if value.first_use is not None}
    returned = dict(
        zip(last.arguments, _each(function.res_attrs, len(last.arguments)), strict=True)
    )
    attributes = dict(zip(block.args, _each(function.arg_attrs, len(block.args)), strict=True))
    last.operands = []
    for op in reversed(list(block.ops)):
        if op is last or op in wanted:
            continue
        for result in op.results:
            if result.first_use is None:
                continue
            if not op.has_trait(ConstantLike):
                argument = block.insert_arg(result.type, len(block.args))
                argument.name_hint = result.name_hint
                attributes[argument] = _NO_ATTRIBUTES
                result.replace_all_uses_with(argument)
        if all(result.first_use is None for result in op.results):
            Rewriter.erase_op(op)
    for argument in list(block.args):
        if argument.first_use is None:
            block.erase_arg(argument)
    values = [v for op in kept for v in op.results if v.first_use is None and v in read]
    last.operands = values
    function.function_type = FunctionType.from_lists(
        [argument.type for argument in block.args], [value.type for value in values]
    )
    if function.arg_attrs is not None:
        function.arg_attrs = _named([attributes[a] for a in block.args], "input")
    if function.res_attrs is not None:
        found = [returned.get(value, _NO_ATTRIBUTES) for value in values]
        function.res_attrs = _named(found, "output")


_NO_ATTRIBUTES = DictionaryAttr({})


def _each(attributes: ArrayAttr[DictionaryAttr] | None, count: int) -> Sequence[DictionaryAttr]:
    return [_NO_ATTRIBUTES] * count if attributes is None else attributes.data


def _named(found: Sequence[DictionaryAttr], default: str) -> ArrayAttr[DictionaryAttr]:
    """The attributes with names for those without, where others have names of their own."""
    taken = {each.data[NAME] for each in found if NAME in each.data}
    names = (StringAttr(f"{default}{i}") for i in count())
    fresh = (name for name in names if name not in taken)
    return ArrayAttr(
        each if NAME in each.data else DictionaryAttr({**each.data, NAME: next(fresh)})
        for each in found
    )


def _drop_unread(module: ModuleOp) -> None:
    """Constants that nobody reads any more."""
    for op in list(module.walk()):
        if op.has_trait(ConstantLike) and all(r.first_use is None for r in op.results):
            Rewriter.erase_op(op)


def _values(module: ModuleOp) -> Iterator[SSAValue]:
    """Everything that has a type."""
    for op in module.walk():
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.args


def _extents(module: ModuleOp) -> set[int]:
    shapes = (shape_of_type(value.type) or () for value in _values(module))
    return {extent for shape in shapes for extent in shape if extent > 1}
