"""Print docs/cli.md from the parsers of the commands."""

import argparse
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import partial
from textwrap import fill
from typing import get_type_hints

from ceras_ir.backends.nnet import tool as nnet
from ceras_ir.backends.vta.execution import calibration as vta
from ceras_ir.command.tool_parser import value_text
from ceras_ir.driver import compile
from ceras_ir.driver import run as run
from ceras_ir.driver.opt import argv
from ceras_ir.driver.shared_options import (
    TargetClass,
    compiling_targets,
)
from ceras_ir.driver.verify import tool as verify
from ceras_ir.support.options import choices_of, flag_of, help_of, options_of
from ceras_ir.workbench import completion as completion
from ceras_ir.workbench import plan as plan
from ceras_ir.workbench.compare import tool as compare_tool
from ceras_ir.workbench.explore import tool as explore
from ceras_ir.workbench.lsp import tool as lsp
from ceras_ir.workbench.reduce import tool as reduce
from ceras_ir.workbench.report import tool as report
from ceras_ir.workbench.training import tool as retrain

PARSERS: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "ceras-opt": argv.make_parser,
    "ceras-compile": compile.make_parser,
    "ceras-report": report.make_parser,
    "ceras-run": run.make_parser,
    "ceras-verify": verify.make_parser,
    "ceras-compare": compare_tool.make_parser,
    "ceras-explore": explore.make_parser,
    "ceras-explore best": explore.make_best_parser,
    "ceras-nnet": nnet.make_parser,
    "ceras-vta": vta.make_parser,
    "ceras-plan": plan.make_parser,
    "ceras-reduce": reduce.make_parser,
    "ceras-retrain": retrain.make_parser,
    "ceras-lsp": lsp.make_parser,
    "ceras-completion": completion.make_parser,
}

WIDTH = 100

TOOLS = ("ceras-compile", "ceras-run")
"""Commands with options of a target."""

INTRODUCTION = """\
# Commands

Results are printed to stdout, or written to the file of `-o` or `--outputs`. Diagnostics, dumps
and progress are printed to stderr. [diagnostics.md](diagnostics.md) explains messages and exit
statuses.
"""


def _item(text: str) -> str:
    inner = " " * (text.index("-") + 2)
    return fill(text, WIDTH, subsequent_indent=inner, break_on_hyphens=False)


class MarkdownFormatter(argparse.HelpFormatter):
    """Format help as Markdown, independent of the layout of a Python version."""

    def __init__(self, prog: str, items: Counter[str], shared: Collection[str]):
        super().__init__(prog)
        self.lines: list[str] = []
        self.items = items
        """The descriptions of options -> the number of commands that have them."""
        self.shared = shared
        self.shared_names: list[str] = []

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: object,
        prefix: str | None = None,
    ) -> None:
        assert usage is not None, "the usage of a command is a single line"
        self.lines += ["```", usage.replace("%%", "%"), "```", ""]

    def add_text(self, text: str | None) -> None:
        if text is not None and text != argparse.SUPPRESS:
            self.lines += [fill(text, WIDTH, break_on_hyphens=False), ""]

    def start_section(self, heading: str | None) -> None:
        pass

    def end_section(self) -> None:
        pass

    def add_arguments(self, actions: Iterable[argparse.Action]) -> None:
        for action in actions:
            if action.help != argparse.SUPPRESS:
                item = _item(f"- {_spelling(action)}{self._explain(action)}")
                self.items[item] += bool(action.option_strings)
                if item in self.shared:
                    self.shared_names.append(f"`{action.option_strings[0]}`")
                else:
                    self.lines.append(item)
            for command in self._iter_indented_subactions(action):
                self.lines.append(_item(f"  - `{command.dest}`: {command.help}"))
        if self.lines[-1]:
            self.lines.append("")

    def _explain(self, action: argparse.Action) -> str:
        if not action.help:
            return ""
        return ": " + self._expand_help(action).replace("<", "\\<")

    def format_help(self) -> str:
        if self.shared_names:
            text = f"Shared options: {', '.join(sorted(self.shared_names))}."
            self.lines.append(fill(text, WIDTH, break_on_hyphens=False))
        return "\n".join(self.lines)


def _spelling(action: argparse.Action) -> str:
    value = value_text(action)
    names: Iterable[str] = action.option_strings or [""]
    return ", ".join(f"`{f'{name} {value}'.strip()}`" for name in names)


def _target_options(target: TargetClass) -> str:
    """Return the options that `--target NAME` adds to commands."""
    lines = [f"### Options of target {target.name}", "", str(target.arithmetic) + ".", ""]
    hints = get_type_hints(target)
    for field, described in ((f, d) for t in TOOLS for f, d in options_of(target, t)):
        choices = ",".join(choices_of(hints[field.name]))
        value = described.metavar or (f"{{{choices}}}" if choices else "")
        where = f" (of {', '.join(described.tools)})" if described.tools else ""
        line = _item(f"- `{f'{flag_of(field)} {value}'.strip()}`: {help_of(target, field)}{where}")
        if line not in lines:
            lines.append(line)
    return "\n".join(lines)


def _helps(items: Counter[str], shared: Collection[str]) -> dict[str, str]:
    """Return the help of each command without `shared` items, and count all items."""
    helps: dict[str, str] = {}
    for name, make in PARSERS.items():
        parser = make()
        parser.formatter_class = partial(MarkdownFormatter, items=items, shared=shared)
        helps[name] = parser.format_help()
    return helps


def cli_page() -> str:
    items = Counter[str]()
    _helps(items, ())
    shared = sorted(item for item, count in items.items() if count > 1)
    parts = [INTRODUCTION]
    for name, text in _helps(items, shared).items():
        parts += [f"## {name}", text]
        if name == "ceras-compile":
            parts += map(_target_options, compiling_targets())
    parts += ["## Shared options\n\nSeveral commands have these options.", "\n".join(shared)]
    return "\n\n".join(part.rstrip() for part in parts)
