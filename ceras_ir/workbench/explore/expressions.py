"""
Parse and evaluate expressions over the figures of a point: `flash < 256000 and top_1 > 0.8`.

They consist of numbers, names, arithmetic, comparisons and `and`, `or`, `not`, in Python syntax. A
name is the name of a figure or a unique prefix of it before an underscore: `flash` for
`flash_bytes`.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ceras_ir.support.diagnostics import UsageError, printable
from ceras_ir.support.figure_names import UnknownFigure, resolved

Value = float | str | bool
Values = Mapping[str, float | str]

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}
_ORDERED: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}


MAX_SHOWN = 200
"""The number of characters of an expression that a message shows."""


@dataclass(frozen=True)
class Expression:
    """
    An expression over figures of a network, such as `flash < 256000`: the text of the user and the
    syntax tree.
    """

    text: str
    tree: ast.expr

    def names(self) -> list[str]:
        """Return the names of figures in the expression."""
        return list(dict.fromkeys(n.id for n in ast.walk(self.tree) if isinstance(n, ast.Name)))

    def value(self, values: Values) -> Value:
        """
        Return the value of the expression; `values` has the figures by name. Raise an
        `UnknownFigure` if a figure is missing, and a `UsageError` if the value is undefined.
        """
        shown = printable(self.text, MAX_SHOWN)
        try:
            return _value(self.tree, values)
        except UnknownFigure as error:
            raise UnknownFigure(f"'{shown}': {error}") from None
        except (TypeError, ZeroDivisionError, OverflowError) as error:
            raise UsageError(f"'{shown}': {error}") from None
        except RecursionError:
            raise UsageError(f"'{shown}' is nested too deeply") from None

    def __reduce__(self):  # For workers: a tree can be nested too deeply to be copied.
        return parse_expression, (self.text,)

    def holds(self, values: Values) -> bool:
        return bool(self.value(values))


def parse_expression(text: str) -> Expression:
    """
    Parse an expression such as `flash < 256000 and top_1 > 0.8`. Raise a `UsageError` for syntax
    other than numbers, names, arithmetic, comparisons, `and`, `or` and `not`.
    """
    shown = printable(text, MAX_SHOWN)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(f"'{shown}' is no expression: write such as 'flash < 256000'") from None
    for node in ast.walk(tree):
        if not _is_taken(node):
            raise UsageError(
                f"'{shown}': only numbers, names of figures, + - * /, comparisons, and, or, not"
            )
    return Expression(text.strip(), tree)


def _is_taken(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float | str)
        case ast.BinOp(op=op):
            return type(op) in _BINARY
        case ast.Compare(ops=ops):
            return all(type(op) in _ORDERED or isinstance(op, ast.Eq | ast.NotEq) for op in ops)
        case ast.Name() | ast.BoolOp() | ast.And() | ast.Or() | ast.Load():
            return True
        case ast.UnaryOp(op=op):
            return isinstance(op, ast.USub | ast.UAdd | ast.Not)
        case _:
            return isinstance(node, ast.unaryop | ast.operator | ast.cmpop)


def _value(node: ast.expr, values: Values) -> Value:
    match node:
        case ast.Constant(value=value):
            assert isinstance(value, int | float | str)
            return value
        case ast.Name(id=name):
            return values[resolved(name, values)]
        case ast.BinOp():
            # A sum of many terms is nested as deeply on the left.
            chain = [node]
            while isinstance(left := chain[-1].left, ast.BinOp):
                chain.append(left)
            total = _number(left, values)
            for each in reversed(chain):
                total = _BINARY[type(each.op)](total, _number(each.right, values))
            return total
        case ast.UnaryOp(ast.Not(), operand):
            return not _value(operand, values)
        case ast.UnaryOp(op, operand):
            number = _number(operand, values)
            return -number if isinstance(op, ast.USub) else number
        case ast.BoolOp(ast.And(), operands):
            return all(_value(each, values) for each in operands)
        case ast.BoolOp(_, operands):
            return any(_value(each, values) for each in operands)
        case ast.Compare(left, ops, rights):
            sides = [_value(each, values) for each in (left, *rights)]
            pairs = zip(ops, sides[:-1], sides[1:], strict=True)
            return all(_compared(op, a, b) for op, a, b in pairs)
        case _:
            raise AssertionError(ast.dump(node))


def _compared(op: ast.cmpop, left: Value, right: Value) -> bool:
    if isinstance(op, ast.Eq | ast.NotEq):
        return (left == right) == isinstance(op, ast.Eq)
    if isinstance(left, str) or isinstance(right, str):
        raise TypeError(f"only numbers have an order, not '{left}' and '{right}'")
    return _ORDERED[type(op)](left, right)


def _number(node: ast.expr, values: Values) -> float:
    value = _value(node, values)
    if isinstance(value, str):
        raise TypeError(f"'{value}' is no number")
    return float(value)
