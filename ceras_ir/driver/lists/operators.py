"""Implement `ceras-operators`: list the supported ONNX operators, or print the rules of one."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.tool_parser import ToolParser
from ceras_ir.driver.lists import WIDTH
from ceras_ir.driver.lists.targets import numbers_of
from ceras_ir.driver.target_options import add_target
from ceras_ir.support.diagnostics import UnsupportedError, UsageError, aligned, did_you_mean
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import all_targets, find_target


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-operators", _operators, argv)


def make_parser() -> ToolParser:
    """Return the parser of `ceras-operators`."""
    parser = ToolParser(
        "ceras-operators",
        description="List the supported ONNX operators, or print the rules of an operator. Each "
        "target compiles all of them; a layer that violates a rule of an accelerator runs on the "
        "CPU.",
        epilog="Exit status: 0 supported, 2 wrong usage or an unknown name, 3 the operator is not "
        "supported.",
        examples=("Conv",),
    )
    parser.add_argument("operator", nargs="?", metavar="OPERATOR", help="only this operator")
    add_target(parser, all_targets(), "only this target, with the rules of the accelerator")
    return parser


def _operators(argv: Sequence[str]) -> int:
    arguments = make_parser().read(argv)
    targets = all_targets() if arguments.target is None else [find_target(arguments.target)]
    name = arguments.operator
    lines = _listed() if name is None else _described(str(name))
    print("\n".join([*lines, "", *_of_targets(targets)]))
    return 0


def _listed() -> Iterator[str]:
    # The importer loads onnx, which the other commands of this folder do not need.
    from ceras_ir.frontends.onnx.emission.folding import FOLDABLE
    from ceras_ir.frontends.onnx.importer import NEWEST_OPSET, OLDEST_OPSET
    from ceras_ir.frontends.onnx.supported import function_operators, imported_operators, rules_of

    names = imported_operators()
    marked = [f"{name}*" if rules_of(name) else name for name in names]
    yield f"{len(names)} operators (operator sets {OLDEST_OPSET} to {NEWEST_OPSET}):"
    yield from wrap(", ".join(marked), WIDTH, break_on_hyphens=False)
    yield ""
    yield from wrap(
        "*: with rules, which 'ceras operators OPERATOR' prints. A node that violates a rule is "
        "refused.",
        WIDTH,
    )
    folded = FOLDABLE - {*names, *function_operators()}
    for text, others in (
        ("imported as functions of other operators", function_operators()),
        ("computed at import if the operands are constants", sorted(folded)),
    ):
        yield ""
        yield f"{text}:"
        yield from wrap(", ".join(others), WIDTH, break_on_hyphens=False)


def _described(name: str) -> Iterator[str]:
    from ceras_ir.frontends.onnx.emission.folding import FOLDABLE
    from ceras_ir.frontends.onnx.supported import (
        function_operators,
        imported_operators,
        refused_operators,
        rules_of,
    )

    if name in imported_operators():
        rules = rules_of(name)
        yield f"{name}: supported{', if:' if rules else ''}"
        for rule in rules:
            yield from wrap(f"- {rule}", WIDTH, subsequent_indent="  ")
    elif name in function_operators():
        yield f"{name}: supported, as a function of other operators"
    elif name in FOLDABLE:
        yield f"{name}: supported if the operands are constants; it is computed at import"
    elif (remedy := refused_operators().get(name)) is not None:
        raise UnsupportedError(f"unsupported operator {name}: {remedy}")
    else:
        known = [*imported_operators(), *function_operators(), *FOLDABLE, *refused_operators()]
        hint = did_you_mean(name, known) or "; 'ceras operators' lists the operators"
        raise UsageError(f"unknown operator '{name}'{hint}")


def _of_targets(targets: Sequence[type[Target]]) -> Iterator[str]:
    rows = [["target", "numbers", "device"]]
    for target in targets:
        exact = target.arithmetic
        # The host of a narrow device computes the other types.
        where = "accelerator; other types on the CPU" if exact.narrow else "CPU"
        rows.append([target.name, numbers_of(exact), where])
    yield from aligned(rows, right=())
    yield ""
    yield from wrap(
        "Numbers and device of a layer also depend on its neighbours and shapes. After 'ceras "
        "compile', report.json has device and bits of each layer; --why NODE prints the reason.",
        WIDTH,
    )
    if len(targets) == 1 and (rules := targets[0].device_rules()):
        yield ""
        yield "A layer runs on the accelerator if:"
        for rule in rules:
            text = " ".join(rule.replace("`", "").split())
            yield from wrap(f"- {text}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)
