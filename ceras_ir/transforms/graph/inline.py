"""Replace calls of functions by the operations of the function, because a network has no calls."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import UNKNOWN_LOC, ArrayAttr, FileLineColLoc, ModuleOp, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import SymbolTable
from xdsl.utils.hints import isa

from ceras_ir.support.diagnostics import Finding, InputError, node_name


@dataclass(frozen=True)
class InlinePass(ModulePass):
    """
    Replace each `func.call` by the operations of the function, and erase private functions without
    uses. An operation without a name gets the location of the call. Functions of several blocks
    and recursive functions are refused. No value changes.

    Before:

        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = func.call @positive(%x) : (tensor<4xf32>) -> tensor<4xf32>
          func.return %y : tensor<4xf32>
        }
        func.func private @positive(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = graph.unary <relu> %x : tensor<4xf32>
          func.return %y : tensor<4xf32>
        }

    After:

        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = graph.unary <relu> %x : tensor<4xf32>
          func.return %y : tensor<4xf32>
        }
    """

    name = "inline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        called = {each.callee.string_value() for each in op.walk() if isinstance(each, CallOp)}
        for function in [each for each in op.ops if isinstance(each, FuncOp)]:
            for call in [each for each in function.walk() if isinstance(each, CallOp)]:
                _inline(op, call, (function.sym_name.data,))
        for name in called - _used_symbols(op):
            function = SymbolTable.lookup_symbol(op, name)
            if isinstance(function, FuncOp) and function.sym_visibility is not None:
                op.body.block.erase_op(function)


def _inline(module: ModuleOp, call: CallOp, callers: tuple[str, ...]) -> None:
    name = call.callee.string_value()
    function = SymbolTable.lookup_symbol(module, name)
    if not isinstance(function, FuncOp) or not function.body.blocks:
        raise _refusal(call, f"there is no function @{name} with a body; add it to the text")
    if name in callers:
        raise _refusal(call, f"@{name} calls itself; a network has no recursion")
    if function.body.first_block is not function.body.last_block:
        raise _refusal(call, f"@{name} has several blocks, but a network has a single block")
    values = dict[SSAValue, SSAValue](zip(function.args, call.arguments, strict=True))
    block = call.parent_block()
    assert block is not None
    nested = list[CallOp]()
    for op in function.body.block.ops:
        if isinstance(op, ReturnOp):
            for result, value in zip(call.results, op.arguments, strict=True):
                result.replace_all_uses_with(values[value])
            break
        copy = op.clone(values)
        if copy.location is UNKNOWN_LOC or isinstance(copy.location, FileLineColLoc):
            copy.location = call.location
        block.insert_op_before(copy, call)
        if isinstance(copy, CallOp):
            nested.append(copy)
    call.detach()
    call.erase()
    for each in nested:
        _inline(module, each, (*callers, name))


def _refusal(call: CallOp, message: str) -> InputError:
    return InputError([Finding(node_name(call), call.name, message)])


def _used_symbols(module: ModuleOp) -> set[str]:
    attributes = [
        attribute
        for op in module.walk()
        for attribute in (*op.properties.values(), *op.attributes.values())
    ]
    attributes += [each for listed in attributes if isa(listed, ArrayAttr) for each in listed]
    return {each.root_reference.data for each in attributes if isinstance(each, SymbolRefAttr)}
