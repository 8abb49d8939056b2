"""Check that wrong usage and `--version` print the same text in all tools."""

from collections.abc import Callable
from importlib import import_module

import pytest

from ceras_ir.command.entry_point import commands
from ceras_ir.command.tool_parser import ToolParser
from ceras_ir.support.diagnostics import UsageError

Main = Callable[[list[str]], int]

NAMES = ("opt", "compile", "run", "verify", "compare", "plan", "retrain")


def tools(*names: str) -> list[tuple[str, Main]]:
    """Return commands and their functions, without the commands of deleted extensions."""
    found = [commands()[name].load() for name in names if name in commands()]
    return [(command.name, import_module(command.module).main) for command in found]


TOOLS = tools(*NAMES)
everywhere = pytest.mark.parametrize(("tool", "main"), TOOLS, ids=[name for name, _ in TOOLS])


@everywhere
def test_a_typo_is_what_is_reported(tool: str, main: Main, capsys: pytest.CaptureFixture[str]):
    assert main(["--versoin"]) == 2
    error = capsys.readouterr().err.splitlines()
    assert error == [
        f"{tool}: error: unknown option '--versoin'; did you mean '--version'?",
        f"{tool}: try '{tool} --help'",
    ]


@pytest.mark.parametrize(("tool", "main"), tools(*NAMES[1:], "nnet"))
def test_version(tool: str, main: Main, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith(f"{tool} ")


def make() -> ToolParser:
    parser = ToolParser("tool")
    parser.add_argument("file")
    parser.add_argument("--level", type=int)
    return parser


def test_options_have_no_abbreviations():
    with pytest.raises(UsageError, match="unknown option '--lev'; did you mean '--level'"):
        make().read(["--lev=3", "a"])


def test_what_follows_two_dashes_is_no_option():
    assert make().read(["--level", "3", "--", "--file"]).file == "--file"


def test_one_argument_too_many():
    with pytest.raises(UsageError, match="unexpected argument 'b'"):
        make().read(["a", "b"])


def test_a_value_of_the_wrong_type():
    with pytest.raises(UsageError, match="--level: expected an integer, got 'x'"):
        make().read(["a", "--level", "x"])
