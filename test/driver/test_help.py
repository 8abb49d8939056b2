"""Check that `--help` prints the usual options, and `--help-all` all options."""

import re
import shlex
from importlib import import_module

import pytest

from ceras_ir.command.entry_point import commands
from ceras_ir.command.help_parser import MAX_LISTED_OPTIONS, HelpParser, usual
from ceras_ir.command.tool_parser import ToolParser, add_options
from ceras_ir.driver.data_options import EvaluationOptions
from ceras_ir.support.options import inherited, option, options, options_of

LARGE = ("compile", "run", "verify", "compare", "retrain", "opt")


def parser_of(name: str) -> HelpParser:
    parser = import_module(commands()[name].load().module).make_parser()
    assert isinstance(parser, HelpParser)
    return parser


def printed(name: str, flag: str, capsys: pytest.CaptureFixture[str], *before: str) -> str:
    try:
        commands()[name].load()([*before, flag])
    except SystemExit as end:
        assert end.code == 0
    return capsys.readouterr().out


def flags_in(text: str) -> list[str]:
    return re.findall("^  (-[-a-z]+)", text, re.MULTILINE)


def available(*names: str) -> list[str]:
    return [name for name in names if name in commands()]


@pytest.mark.parametrize("name", available(*LARGE))
def test_a_large_command_has_a_short_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    short, everything = printed(name, "--help", capsys), printed(name, "--help-all", capsys)
    assert 8 <= len(flags_in(short)) <= MAX_LISTED_OPTIONS + 2
    assert len(short.splitlines()) < 90
    assert set(flags_in(short)) < set(flags_in(everything))
    others = len(flags_in(everything)) - len(flags_in(short))
    assert short.endswith(f"\n{others} more options: ceras-{name} --help-all\n")
    assert "more options" not in everything
    for text in (short, everything):
        examples = text.split("\nexamples:\n")[1].split("\n\n")[0].splitlines()
        assert len(examples) == 2 and all(e.startswith(f"  ceras-{name} ") for e in examples)


@pytest.mark.parametrize("name", available("explore", "report", "plan"))
def test_a_small_command_has_one_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    short = printed(name, "--help", capsys)
    assert short == printed(name, "--help-all", capsys)
    assert "--help-all" in short


def test_options_are_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    short = printed("compile", "--help", capsys)
    assert "\ncompilation:\n  --quantize" in short and "\nplugins:" not in short
    assert "--observer" not in short
    assert "\nplugins:\n" in printed("compile", "--help-all", capsys)


def test_the_board_of_a_target_is_usual(capsys: pytest.CaptureFixture[str]) -> None:
    target = ("--target", "c")
    for name in ("compile", "run"):
        for flag in ("--help", "--help-all"):
            text = printed(name, flag, capsys)
            _, _, group = text.partition("\noptions of targets:\n")
            listed = flags_in(group)
            assert listed[:2] == ["--board", "--optimize"] and "--weights" not in listed
            assert "(target arduino, c)" in " ".join(group.split())
            assert flags_in(text).count("--board") == 1
    assert "--board uno_r4_wifi" in printed("compile", "--help", capsys)
    assert "options of targets:" not in printed("compile", "--help", capsys, *target)
    short = flags_in(printed("compile", "--help", capsys, *target))
    assert "--board" in short and "--weights" not in short
    assert "--weights" in flags_in(printed("compile", "--help-all", capsys, *target))


@pytest.mark.parametrize("name", available(*LARGE[:-1], "explore", "report"))
def test_examples_are_accepted(name: str) -> None:
    parser = parser_of(name)
    assert isinstance(parser, ToolParser) and len(parser.examples) == 2
    for example in parser.examples:
        argv = shlex.split(example)
        if "--target" in argv and name in ("compile", "run"):
            from ceras_ir.driver.target_options import named_target

            target = named_target(argv)
            parser = import_module(commands()[name].load().module).make_parser(target)
        parser.read(argv)


def test_examples_of_opt_are_accepted() -> None:
    from ceras_ir.driver.opt.argv import make_parser, parse_arguments

    for example in make_parser().examples:
        assert parse_arguments(shlex.split(example), ["fuse", "quantize"]).requests


def test_a_declaration_decides() -> None:
    @options
    class Some:
        """Options."""

        first: int | None = option(None, "the first", usual=True)
        second: int | None = option(None, "the second")

    @options
    class More(Some):
        """Options with an inherited option."""

        first: int | None = inherited(Some, "first", 3)

    assert [o.usual for _, o in options_of(More)] == [True, False]
    parser = ToolParser("tool")
    add_options(parser, More)
    usual(parser.add_argument("--third"))
    for n in range(MAX_LISTED_OPTIONS):
        parser.add_argument(f"--n{n}")
    assert flags_in(parser.format_usual_help()) == ["-h", "--help-all", "--first", "--third"]
    required = ToolParser("tool")
    required.add_argument("--needed", required=True)
    add_options(required, EvaluationOptions)
    for n in range(MAX_LISTED_OPTIONS):
        required.add_argument(f"--n{n}")
    assert flags_in(required.format_usual_help()) == ["-h", "--help-all", "--needed", "--samples"]
