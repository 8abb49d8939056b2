"""
Define operations without parsing their assembly formats.

A command imports the definitions of about 50 operations and prints or parses a few. xDSL parses the
format of each when its class is defined, which took a twentieth of the time of a small command.
"""

from functools import cache

from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, IRDLOperationInvT
from xdsl.irdl import irdl_op_definition as xdsl_op_definition
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.parser import Parser
from xdsl.printer import Printer


def irdl_op_definition(cls: type[IRDLOperationInvT]) -> type[IRDLOperationInvT]:
    """
    Define an operation like the decorator of xDSL, but parse `assembly_format` when the first
    operation of the class is parsed or printed. An error in the format is raised then.
    """
    text = cls.assembly_format
    if text is None:
        return xdsl_op_definition(cls)
    assert cls.print is Operation.print, f"{cls.__name__} has a format and a method `print`"
    cls.assembly_format = None
    xdsl_op_definition(cls)
    definition = cls.get_irdl_definition()
    cls.assembly_format = definition.assembly_format = text

    @cache
    def program() -> FormatProgram:
        return FormatProgram.from_str(text, definition)

    @classmethod
    def parse(cls: type[IRDLOperationInvT], parser: Parser) -> IRDLOperationInvT:
        return program().parse(parser, cls)

    def print_(self: IRDLOperation, printer: Printer) -> None:
        program().print(printer, self)

    cls.parse = parse
    cls.print = print_
    return cls
