"""Wrong usage and `--version` read the same in every tool."""

from collections.abc import Callable

import pytest

from ceras_ir.backends.nnet import tool as nnet
from ceras_ir.command.tool_parser import ToolParser
from ceras_ir.driver.compile import tool as compile
from ceras_ir.driver.opt import tool as opt
from ceras_ir.driver.run import tool as run
from ceras_ir.driver.verify import tool as verify
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.workbench.compare import tool as compare_tool
from ceras_ir.workbench.plan import tool as plan
from ceras_ir.workbench.retrain import tool as retrain

Main = Callable[[list[str]], int]

TOOLS: list[tuple[str, Main]] = [
    ("ceras-opt", opt.main),
    ("ceras-compile", compile.main),
    ("ceras-run", run.main),
    ("ceras-verify", verify.main),
    ("ceras-compare", compare_tool.main),
    ("ceras-plan", plan.main),
    ("ceras-retrain", retrain.main),
]
everywhere = pytest.mark.parametrize(("tool", "main"), TOOLS, ids=[name for name, _ in TOOLS])


@everywhere
def test_a_typo_is_what_is_reported(tool: str, main: Main, capsys: pytest.CaptureFixture[str]):
    assert main(["--versoin"]) == 2
    error = capsys.readouterr().err.splitlines()
    assert error == [
        f"{tool}: error: unknown option '--versoin'; did you mean '--version'?",
        f"{tool}: try '{tool} --help'",
    ]


@pytest.mark.parametrize(("tool", "main"), [*TOOLS[1:], ("ceras-nnet", nnet.main)])
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
    with pytest.raises(UsageError, match="one argument too many: 'b'"):
        make().read(["a", "b"])


def test_a_value_of_the_wrong_type():
    with pytest.raises(UsageError, match="--level: expected a whole number, got 'x'"):
        make().read(["a", "--level", "x"])
