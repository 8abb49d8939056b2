"""
Reduce IR. All candidates of valid IR pass the verifier.

Any operations of a function can be removed: results of removed operations that have other consumers
become arguments, and results that lose all consumers become results of the function.
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
"""The extents that replace larger extents."""


class IrSubject:
    """The ways to make a module of IR smaller, for `ceras-reduce`."""

    def __init__(self, module: ModuleOp, *, names: bool):
        """
        Create a subject. With `names`, candidates are written with locations (names of nodes).
        """
        self._names, self._was_valid = names, not find_invalid(module)

    def write(self, input: ModuleOp) -> bytes:
        stream = StringIO()
        print_module(input, stream, debuginfo=self._names)
        return stream.getvalue().encode()

    def size(self, input: ModuleOp) -> tuple[int, int]:
        """
        Return the number of operations, without modules, functions, terminators and constants, and
        the number of elements of all values. Smaller candidates are preferred.
        """
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
        # `change` returns whether it was possible to change the copy.
        copy = module.clone()
        return change(copy) and self._valid(copy) and accepts(copy)

    def _leave_out_functions(self, module: ModuleOp, accepts: Smaller[ModuleOp]) -> None:
        def only(kept: Collection[int]) -> bool:
            def change(copy: ModuleOp) -> bool:
                removed = [op for i, op in enumerate(copy.body.block.ops) if i not in kept]
                uses = (use for op in removed for result in op.results for use in result.uses)
                if any(use.operation not in removed for use in uses):
                    return False
                for op in reversed(removed):
                    op.detach()
                    op.erase()
                return True

            return self._try(module, accepts, change)

        smallest_subset(range(len(module.body.block.ops)), only)

    def _leave_out_operations(self, module: ModuleOp, accepts: Smaller[ModuleOp]) -> None:
        for name in [f.sym_name.data for f in _free_functions(module)]:
            module = self._leave_out_steps(module, name, accepts)

    def _leave_out_steps(self, module: ModuleOp, name: str, accepts: Smaller[ModuleOp]) -> ModuleOp:
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
        free = {op for f in _free_functions(module) for op in f.body.block.ops}
        indices = [
            i
            for i, op in enumerate(module.walk())
            if op not in free and _is_removable(op) and op.parent_op() not in (None, module)
        ]

        def only(kept: Collection[int]) -> bool:
            def change(copy: ModuleOp) -> bool:
                ops = list(copy.walk())
                wanted = {ops[i] for i in kept}
                removed = [ops[i] for i in indices if ops[i] not in wanted]
                # Consumers are erased first. An operation with other consumers remains.
                for op in reversed(removed):
                    if all(result.first_use is None for result in op.results):
                        op.detach()
                        op.erase()
                return True

            return self._try(module, accepts, change)

        smallest_subset(indices, only)

    def _skip_operations(self, module: ModuleOp, accepts: Smaller[ModuleOp]) -> None:
        # Replace a result by an operand of the same type.
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
                _erase_unused_constants(copy)
                if self._valid(copy) and accepts(copy):
                    found = copy
                    break
            # After the removal of an operation, the next operation has the same index.
            best, i = (best, i + 1) if found is None else (found, i)

    def _flatten_constants(self, module: ModuleOp, accepts: Smaller[ModuleOp]) -> None:
        # Constants with equal elements.
        indices = [i for i, op in enumerate(module.walk()) if flatten(op.clone())]

        def only(kept: Collection[int]) -> bool:
            def change(copy: ModuleOp) -> bool:
                ops = list(copy.walk())
                return all(flatten(ops[i]) for i in indices if i not in kept)

            return self._try(module, accepts, change)

        smallest_subset(indices, only)

    def _shrink_shapes(self, module: ModuleOp, accepts: Smaller[ModuleOp]) -> None:
        # Replace all occurrences of an extent, the largest extent first.
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
    """
    Remove the locations that are lines of the input file, and return `module`. Names of nodes
    remain.
    """
    for op in module.walk():
        if isinstance(op.location, FileLineColLoc):
            op.location = UNKNOWN_LOC
    return module


def _counts(op: Operation) -> bool:
    return not isinstance(op, ModuleOp | FuncOp) and _is_removable(op)


def _is_removable(op: Operation) -> bool:
    return not op.has_trait(ConstantLike) and not op.has_trait(IsTerminator)


def _functions(module: ModuleOp) -> Iterator[FuncOp]:
    return (op for op in module.body.block.ops if isinstance(op, FuncOp))


def _function(module: ModuleOp, name: str) -> FuncOp:
    return next(f for f in _functions(module) if f.sym_name.data == name)


def _free_functions(module: ModuleOp) -> list[FuncOp]:
    # Functions with a single block and without references by symbols: their types can change.
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
    return filter(_is_removable, block.ops)


def _keep_only(function: FuncOp, kept: Sequence[Operation]) -> None:
    # Remove all other operations, except constants with consumers.
    block, wanted = function.body.block, set(kept)
    last = block.last_op
    assert isinstance(last, ReturnOp)
    used = {value for op in (*block.ops,) for value in op.results if value.first_use is not None}
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
    values = [v for op in kept for v in op.results if v.first_use is None and v in used]
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
    # Add unused names where a name is missing.
    taken = {each.data[NAME] for each in found if NAME in each.data}
    names = (StringAttr(f"{default}{i}") for i in count())
    fresh = (name for name in names if name not in taken)
    return ArrayAttr(
        each if NAME in each.data else DictionaryAttr({**each.data, NAME: next(fresh)})
        for each in found
    )


def _erase_unused_constants(module: ModuleOp) -> None:
    for op in list(module.walk()):
        if op.has_trait(ConstantLike) and all(r.first_use is None for r in op.results):
            Rewriter.erase_op(op)


def _values(module: ModuleOp) -> Iterator[SSAValue]:
    for op in module.walk():
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.args


def _extents(module: ModuleOp) -> set[int]:
    shapes = (shape_of_type(value.type) or () for value in _values(module))
    return {extent for shape in shapes for extent in shape if extent > 1}
