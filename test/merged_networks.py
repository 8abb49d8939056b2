"""Merge networks into a single one, so that tests compile many of them together."""

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Region, SSAValue

from ceras_ir.network.function import input_names, main_function, output_names, result_values


def merged(modules: dict[str, ModuleOp]) -> ModuleOp:
    """Return a single network with the inputs and outputs of all networks, named `NETWORK|NAME`."""
    block, names, outputs = Block(), list[str](), list[tuple[str, SSAValue]]()
    for name, module in modules.items():
        main = main_function(module)
        arguments = list[BlockArgument]()
        for label, value in zip(input_names(main), main.body.block.args, strict=True):
            names.append(f"{name}|{label}")
            arguments.append(block.insert_arg(value.type, len(block.args)))
        for old, new in zip(main.body.block.args, arguments, strict=True):
            old.replace_all_uses_with(new)
        labels, ends = output_names(main), result_values(main)
        outputs += [(f"{name}|{label}", value) for label, value in zip(labels, ends, strict=True)]
        for op in list(main.body.block.ops):
            if not isinstance(op, ReturnOp):
                op.detach()
                block.add_op(op)
    block.add_op(ReturnOp(*(value for _, value in outputs)))

    def attributes(labels: list[str]) -> ArrayAttr[DictionaryAttr]:
        return ArrayAttr([DictionaryAttr({"graph.name": StringAttr(label)}) for label in labels])

    function = FuncOp(
        "main",
        ([a.type for a in block.args], [value.type for _, value in outputs]),
        Region(block),
        arg_attrs=attributes(names),
        res_attrs=attributes([label for label, _ in outputs]),
    )
    return ModuleOp([function])
