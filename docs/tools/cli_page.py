"""Print docs/cli.md from the parsers of the commands."""

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterable
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

    def __init__(self, prog: str):
        super().__init__(prog)
        self.lines: list[str] = []

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
                self.lines.append(_item(f"- {_spelling(action)}{self._explain(action)}"))
            for command in self._iter_indented_subactions(action):
                self.lines.append(_item(f"  - `{command.dest}`: {command.help}"))
        if self.lines[-1]:
            self.lines.append("")

    def _explain(self, action: argparse.Action) -> str:
        if not action.help:
            return ""
        return ": " + self._expand_help(action).replace("<", "\\<")

    def format_help(self) -> str:
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


def _is_item(line: str) -> bool:
    return line.startswith("- `-")


def _shared(texts: dict[str, str]) -> list[str]:
    """Return the options that several commands have, with equal descriptions."""
    counts = Counter(line for text in texts.values() for line in set(_items(text)))
    return sorted(line for line, count in counts.items() if count > 1)


def _items(text: str) -> list[str]:
    """Return the descriptions of options, each with its continuation lines."""
    items: list[str] = []
    for line in text.splitlines():
        if _is_item(line):
            items.append(line)
        elif items and line.startswith("  "):
            items[-1] += f"\n{line}"
    return items


def _without(text: str, shared: list[str]) -> str:
    """Replace the descriptions of shared options by a list of their names."""
    found = [item for item in _items(text) if item in shared]
    for item in found:
        text = text.replace(f"{item}\n", "", 1)
    names = sorted(item[2:].partition("`")[2].partition("`")[0].split()[0] for item in found)
    text = re.sub(r"\n{3,}", "\n\n", text)
    line = fill(f"Shared options: {', '.join(f'`{name}`' for name in names)}.", WIDTH)
    return f"{text.rstrip()}\n\n{line}" if names else text


def cli_page() -> str:
    texts: dict[str, str] = {}
    for name, make in PARSERS.items():
        parser = make()
        parser.formatter_class = MarkdownFormatter
        texts[name] = parser.format_help() + "\n"
    shared = _shared(texts)
    parts = [INTRODUCTION]
    for name, text in texts.items():
        parts += [f"## {name}", _without(text, shared)]
        if name == "ceras-compile":
            parts += map(_target_options, compiling_targets())
    parts += ["## Shared options\n\nSeveral commands have these options.", "\n".join(shared)]
    return "\n\n".join(part.rstrip() for part in parts)
