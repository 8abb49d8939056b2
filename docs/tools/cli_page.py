"""Print docs/cli.md from the parsers of the commands."""

import argparse
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from textwrap import fill
from typing import get_type_hints

from ceras_ir.backends.nnet import tool as nnet
from ceras_ir.backends.vta.execution import calibration as vta
from ceras_ir.command.conditions import CONDITION_HELP
from ceras_ir.command.exit_status import EXIT_STATUS
from ceras_ir.command.help_parser import HelpParser, value_text
from ceras_ir.driver import compile
from ceras_ir.driver import run as run
from ceras_ir.driver.data_options import INPUT_FILES
from ceras_ir.driver.lists import boards, operators, targets
from ceras_ir.driver.model_options import MODEL_FILE
from ceras_ir.driver.opt import argv
from ceras_ir.driver.target_help import OPTIONS_OF_TARGETS
from ceras_ir.driver.target_options import TargetClass, compiling_targets
from ceras_ir.driver.verify import tool as verify
from ceras_ir.support.options import choices_of, docstring, flag_of, help_of, options_of
from ceras_ir.workbench import completion as completion
from ceras_ir.workbench import plan as plan
from ceras_ir.workbench.compare import tool as compare_tool
from ceras_ir.workbench.explore import tool as explore
from ceras_ir.workbench.lsp import tool as lsp
from ceras_ir.workbench.new import tool as new
from ceras_ir.workbench.reduce import tool as reduce
from ceras_ir.workbench.report import tool as report
from ceras_ir.workbench.training import tool as retrain

PARSERS: dict[str, Callable[[], HelpParser]] = {
    "ceras-opt": argv.make_parser,
    "ceras-compile": compile.make_parser,
    "ceras-report": report.make_parser,
    "ceras-run": run.make_parser,
    "ceras-verify": verify.make_parser,
    "ceras-boards": boards.make_parser,
    "ceras-operators": operators.make_parser,
    "ceras-targets": targets.make_parser,
    "ceras-compare": compare_tool.make_parser,
    "ceras-explore": explore.make_parser,
    "ceras-explore best": explore.make_best_parser,
    "ceras-nnet": nnet.make_parser,
    "ceras-vta": vta.make_parser,
    "ceras-new": new.make_parser,
    "ceras-plan": plan.make_parser,
    "ceras-reduce": reduce.make_parser,
    "ceras-retrain": retrain.make_parser,
    "ceras-lsp": lsp.make_parser,
    "ceras-completion": completion.make_parser,
}

WIDTH = 100

TOOLS = ("ceras-compile", "ceras-run")
"""Commands with options of a target."""

DEFAULT = "{default}"
"""The place of the default in the entry of an option of a target."""

TITLES = {
    "--load-pass-plugin": "Plugins",
    "--program-timeout": "Limits",
    "--batch": "Inputs of the model",
    "--calibrate": "Quantization",
    "--frame-size": "Compilation",
    "--prune": "Pruning",
}
"""The headings of groups of options with equal commands; a member identifies the group."""

OTHER = "Other shared options"

STATUSES = re.compile(r"Exit status: (.*)\.$")
USUAL = ("0 done", "0 success", "1 bad input", "2 wrong usage")
"""Statuses that the introduction describes."""

INTRODUCTION = f"""\
# Commands

Results are printed to stdout, or written to the file of `-o` or `--outputs`. Diagnostics, dumps
and progress are printed to stderr. Each command has `-h` or `--help`, which prints the usual
options, `--help-all`, which prints all options, and `--version`, which prints versions.

{fill(f"{EXIT_STATUS} A command lists only other meanings.", WIDTH)}
[diagnostics.md](diagnostics.md) explains messages.

{fill(f"`MODEL.onnx` is {MODEL_FILE}. `--inputs` is {INPUT_FILES}.", WIDTH)}

{fill(f"`--fail-if CONDITION`: {CONDITION_HELP.rstrip(':')}.".replace("<", chr(92) + "<"), WIDTH)}
"""

EXPLAINED = (f": {MODEL_FILE}", f": {INPUT_FILES}", f"{CONDITION_HELP} ")
"""Parts of the help that the introduction has."""

SINGLE = """\
## ceras

`ceras compile` and `ceras-compile` are two names of a command, as are the names of all other
commands; `python -m ceras_ir compile` is a third name. `ceras --help`
lists the commands by purpose.
"""

INTRODUCED = "- `MODEL.onnx`"
"""An argument that the introduction describes."""

EVERYWHERE = ("-h", "--help-all", "--version")
"""Options that the introduction describes."""


def _item(text: str) -> str:
    inner = " " * (text.index("-") + 2)
    return fill(text, WIDTH, subsequent_indent=inner, break_on_hyphens=False)


class MarkdownFormatter(argparse.HelpFormatter):
    """Format help as Markdown, independent of the layout of a Python version."""

    def __init__(self, prog: str, shared: Mapping[str, str]):
        super().__init__(prog)
        self.lines: list[str] = []
        self.shared = shared
        """The descriptions of options that several commands have, mapped to links."""
        self.links: list[str] = []
        self.items: list[str] = []
        self.is_inside_target = False

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
        if text is None or text == argparse.SUPPRESS or self.is_inside_target:
            return
        # The page has the usual statuses and the summaries of targets in a single place.
        before, _, after = text.partition(EXIT_STATUS)
        text = f"{'' if before.startswith('targets: ') else before}{after}".strip()
        text = STATUSES.sub(_other_statuses, text)
        if text:
            self.lines += [fill(text, WIDTH, break_on_hyphens=False), ""]

    def start_section(self, heading: str | None) -> None:
        self.is_inside_target = (heading or "").startswith(("target ", OPTIONS_OF_TARGETS))
        if self.is_inside_target:
            self.links.append("[options of targets](#options-of-targets)")

    def end_section(self) -> None:
        self.is_inside_target = False

    def add_arguments(self, actions: Iterable[argparse.Action]) -> None:
        if self.is_inside_target:
            return
        for action in actions:
            if action.help != argparse.SUPPRESS and not {*EVERYWHERE} & {*action.option_strings}:
                item = _item(f"- {_spelling(action)}{self._explain(action)}")
                if item == INTRODUCED:
                    continue
                if action.option_strings:
                    self.items.append(item)
                if item in self.shared:
                    self.links.append(self.shared[item])
                else:
                    self.lines.append(item)
            for command in self._iter_indented_subactions(action):
                self.lines.append(_item(f"  - `{command.dest}`: {command.help}"))
        if self.lines[-1]:
            self.lines.append("")

    def _explain(self, action: argparse.Action) -> str:
        if not action.help:
            return ""
        text = f": {self._expand_help(action)}"
        for part in EXPLAINED:
            text = text.replace(part, "")
        return text.replace("<", "\\<")

    def format_help(self) -> str:
        if self.links:
            text = f"Shared options: {', '.join(dict.fromkeys(self.links))}."
            self.lines.append(fill(text, WIDTH, break_on_hyphens=False, break_long_words=False))
        return "\n".join(self.lines)


def _other_statuses(match: re.Match[str]) -> str:
    """Return a list of statuses without those that the introduction of the page has."""
    kept = [status for status in re.split(r"[,;] (?=\d)", match[1]) if status not in USUAL]
    return f"Exit status: {'; '.join(kept)}." if kept else ""


def _spelling(action: argparse.Action) -> str:
    value = value_text(action)
    *aliases, last = action.option_strings or [""]
    return ", ".join(f"`{name}`" for name in (*aliases, f"{last} {value}".strip()))


@dataclass(frozen=True)
class _TargetOption:
    """The entry of an option of a target, with the default separately."""

    entry: str
    default: str

    def text(self) -> str:
        return self.entry.replace(DEFAULT, self.default)


def _options_of(target: TargetClass) -> list[_TargetOption]:
    """Return the options that `--target NAME` adds to commands."""
    hints = get_type_hints(target)
    found: list[_TargetOption] = []
    for field, described in ((f, d) for t in TOOLS for f, d in options_of(target, t)):
        choices = ",".join(choices_of(hints[field.name]))
        value = described.metavar or (f"{{{choices}}}" if choices else "")
        where = f" (of {', '.join(described.tools)})" if described.tools else ""
        text, mark, default = help_of(target, field).partition(" (default: ")
        entry = f"- `{f'{flag_of(field)} {value}'.strip()}`: {text}{DEFAULT}{where}"
        found.append(_TargetOption(entry, mark + default))
    return list(dict.fromkeys(found))


def _options_of_targets() -> list[str]:
    """Return a section for options that several targets have, and a section for each target."""
    targets = {target: _options_of(target) for target in compiling_targets()}
    defaults = defaultdict[str, list[str]](list)
    for option in chain(*targets.values()):
        defaults[option.entry].append(option.default)
    shared = {entry: {*found} for entry, found in defaults.items() if len(found) > 1}
    lines = [
        _item(entry.replace(DEFAULT, min(found) if len(found) == 1 else ""))
        for entry, found in shared.items()
    ]
    arithmetic = defaultdict[str, list[str]](list)
    for target in targets:
        arithmetic[str(target.arithmetic)].append(target.name)
    kinds = [f"- {', '.join(names)}: {kind}" for kind, names in arithmetic.items()]
    parts = [
        "\n".join(["The arithmetic of the targets:", "", *kinds]),
        "Several targets have these options; `shared` lists those of a target.",
        "\n".join(lines),
    ]
    for target, options in targets.items():
        summary = docstring(target).partition("\n")[0]
        own = [_item(option.text()) for option in options if option.entry not in shared]
        others = ", ".join(
            f"`{_flag(option.entry)}`" + (option.default if len(shared[option.entry]) > 1 else "")
            for option in options
            if option.entry in shared
        )
        listed = [_item(f"- shared: {others}")] if others else []
        parts += [f"#### Target {target.name}", fill(summary, WIDTH), "\n".join(listed + own)]
    return parts


def _formatted(name: str, shared: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the help of a command without the descriptions in `shared`, and all options."""
    parser = PARSERS[name]()
    examples = "\n".join(f"{name} {example}" for example in parser.examples)
    parser.examples = ()
    formatter = MarkdownFormatter(name, shared)
    parser.formatter_class = lambda prog: formatter
    text = parser.format_help()
    if examples:
        text = f"{text.rstrip()}\n\nExamples:\n\n```\n{examples}\n```"
    return text, formatter.items


def _groups() -> dict[str, list[str]]:
    """Return the options that several commands have by heading."""
    commands = defaultdict[str, list[str]](list)
    for name in PARSERS:
        for item in _formatted(name, {})[1]:
            commands[item].append(name)
    members = defaultdict[tuple[str, ...], list[str]](list)
    for item, names in commands.items():
        if len(names) > 1:
            members[tuple(names)].append(item)
    groups = defaultdict[str, list[str]](list)
    for items in members.values():
        titles = [title for flag, title in TITLES.items() if flag in map(_flag, items)]
        groups[titles[0] if titles else OTHER] += items
    return {title: groups[title] for title in (*TITLES.values(), OTHER)}


def _flag(item: str) -> str:
    return item.split("`")[1].split()[0]


def _links(groups: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the link to the description of each option of `groups`."""
    titles = {item: title for title, items in groups.items() for item in items}
    return {
        item: f"`{_flag(item)}`"
        if title == OTHER
        else f"[{title.lower()}](#{title.lower().replace(' ', '-')})"
        for item, title in titles.items()
    }


def cli_page() -> str:
    groups = _groups()
    links = _links(groups)
    parts = [INTRODUCTION, SINGLE]
    for name in PARSERS:
        parts += [f"## {name}", _formatted(name, links)[0]]
        if name == "ceras-compile":
            parts += ["### Options of targets", *_options_of_targets()]
    parts.append("## Shared options")
    for title, items in groups.items():
        parts += [f"### {title}", "\n".join(items)]
    return "\n\n".join(part.rstrip() for part in parts if part)
