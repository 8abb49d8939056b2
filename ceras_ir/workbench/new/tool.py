"""
Implement `ceras-new`: write a pass, an operation, a target or a board of the user, with a test.

The files are templates in `templates/` in which the names are replaced. They are plugins: they work
without a change to the compiler, and the test passes before any edit.
"""

import json
import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path

from ceras_ir.backends.c.machines import CORES
from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.output_files import write_file
from ceras_ir.command.tool_parser import ToolParser, add_output
from ceras_ir.pipeline.context import load_universe
from ceras_ir.support.diagnostics import UsageError, cannot_write
from ceras_ir.targets.registry import all_targets, target_names

LIT_CONFIGURATION = "lit.cfg.py"
"""A file that all lit tests of a folder share; an existing file is kept."""


def _passes() -> Collection[str]:
    from ceras_ir.driver.opt.argv import make_parser as opt_parser

    # A pass is a flag of `ceras-opt`.
    options = (flag.removeprefix("--") for flag in opt_parser().flags)
    return {*load_universe().all_passes, *options}


def _operations() -> Collection[str]:
    return load_universe().all_dialects


def _boards() -> Collection[str]:
    return [board for target in all_targets() for board in target.boards()]


@dataclass(frozen=True)
class TemplateKind:
    """
    A kind of file that `ceras-new` writes, such as a pass: the permitted names, and the templates.
    """

    pattern: str
    """The regular expression of a name."""
    separator: str
    """The character between the words of a name."""
    taken: Callable[[], Collection[str]]
    """Returns the names that already exist."""
    templates: Mapping[str, str]
    """Template -> name of the file, in which `NAME` is replaced."""
    test: str
    """
    The command that runs the test. `NAME` in it is replaced by the folder or file that was written.
    """
    needs: tuple[str, ...]
    """The packages that the test needs in addition to this package."""


NAME_WORD = "[a-z][a-z0-9]*"

LIT_COMMAND = "lit -v"
PYTEST_COMMAND = "python -m pytest"

BOARD_KIND, DEFAULT_CORE = "board", "cortex-m4"
"""The kind of definition with `--core`, and the default of the option."""

TEMPLATE_KINDS = {
    "pass": TemplateKind(
        rf"{NAME_WORD}(-[a-z0-9]+)*",
        "-",
        _passes,
        {"pass.py": "NAME.py", "pass.mlir": "NAME.mlir"},
        f"{LIT_COMMAND} NAME.mlir",
        ("lit", "filecheck"),
    ),
    "operation": TemplateKind(
        rf"({NAME_WORD}(_[a-z0-9]+)*\.)?{NAME_WORD}(_[a-z0-9]+)*",
        "_",
        _operations,
        {
            "operation.py": "NAME.py",
            "operation.mlir": "NAME.mlir",
            "invalid.mlir": "NAME_invalid.mlir",
        },
        f"{LIT_COMMAND} NAME.mlir NAME_invalid.mlir",
        ("lit", "filecheck"),
    ),
    "target": TemplateKind(
        rf"{NAME_WORD}(_[a-z0-9]+)*",
        "_",
        target_names,
        {"target.py": "NAME.py", "test_target.py": "test_NAME.py"},
        f"{PYTEST_COMMAND} test_NAME.py",
        ("pytest",),
    ),
    BOARD_KIND: TemplateKind(
        rf"{NAME_WORD}(_[a-z0-9]+)*",
        "_",
        _boards,
        {"board.toml": "NAME.toml", "test_board.py": "test_NAME.py"},
        f"{PYTEST_COMMAND} test_NAME.py",
        ("pytest",),
    ),
}

DEFAULT_DIALECT = "my"


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-new", _create, argv)


def make_parser() -> ToolParser:
    """Return the parser of `ceras-new`."""
    parser = ToolParser(
        "ceras-new",
        description="Write the files of a new pass, operation, target or board, with a test that "
        "passes, and print the command that runs the test. The files are plugins: the compiler is "
        "not changed.",
        epilog="Exit status: 0 success, 1 the files cannot be written, 2 wrong usage, or a file "
        "exists.",
    )
    parser.add_argument("kind", choices=list(TEMPLATE_KINDS), help="the kind of definition")
    parser.add_argument(
        "name",
        metavar="NAME",
        help="the name, such as merge-relu for a pass, scale for an operation (of dialect "
        f"{DEFAULT_DIALECT}; DIALECT.NAME names another), npu for a target, my_board for the "
        "board of a microcontroller",
    )
    add_output(parser, "DIR", "the folder (default: this folder)", default=".")
    parser.add_argument(
        "--core",
        choices=list(CORES),
        metavar="CORE",
        help=f"for a board: the processor core, such as cortex-m7 (default: {DEFAULT_CORE})",
    )
    return parser


def _create(argv: Sequence[str]) -> int:
    arguments = make_parser().read(argv)
    kind, name = TEMPLATE_KINDS[arguments.kind], str(arguments.name)
    _check_name(arguments.kind, name)
    if arguments.core is not None and arguments.kind != BOARD_KIND:
        raise UsageError(f"--core is for a {BOARD_KIND}: remove it")
    core: str = arguments.core or DEFAULT_CORE
    dialect, _, last = name.rpartition(".")
    words = re.split("[-_]", last)
    replacements = {
        "DIALECT": dialect or DEFAULT_DIALECT,
        "FILE_NAME": "_".join(words),
        "KEBAB_NAME": "-".join(words),
        "CLASS_NAME": "".join(word.capitalize() for word in words),
        "CORE_NAME": core,
        "CORE_FLAGS": json.dumps(CORES[core].flags),
    }
    file_name = replacements["FILE_NAME"]
    folder = Path(arguments.output)
    paths = {t: folder / f.replace("NAME", file_name) for t, f in kind.templates.items()}
    if LIT_COMMAND in kind.test and not (folder / LIT_CONFIGURATION).exists():
        paths[LIT_CONFIGURATION] = folder / LIT_CONFIGURATION
    if existing := [str(path) for path in paths.values() if os.path.lexists(path)]:
        raise UsageError(f"{existing[0]} exists: choose another name or folder, or remove the file")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(error, str(folder)) from None
    for template, path in paths.items():
        text = (files(__package__ or "") / "templates" / f"{template}.txt").read_text("utf-8")
        for placeholder, value in replacements.items():
            text = text.replace(placeholder, value)
        write_file(str(path), text.encode())
        print(f"wrote {path}")
    print(f"next: {_test_command(kind, folder, file_name)}")
    if missing := [package for package in kind.needs if find_spec(package) is None]:
        print(f"the test needs: pip install {' '.join(missing)}")
    return 0


def _check_name(kind: str, name: str) -> None:
    rules = TEMPLATE_KINDS[kind]
    if not re.fullmatch(rules.pattern, name):
        raise UsageError(
            f"'{name}' is not a name for {_with_article(kind)}: use words of lower-case letters "
            f"and digits, joined by '{rules.separator}'{_similar_name(rules, name)}"
        )
    if iskeyword(last := name.rpartition(".")[2]):
        # The name is the name of a Python file, and of a method of the dialect.
        raise UsageError(f"'{last}' is a keyword of Python: choose another name")
    prefix, dot, _ = name.partition(".")
    if (prefix if kind != "operation" or dot else DEFAULT_DIALECT) in rules.taken():
        what = {"pass": "a pass or an option of ceras-opt", "operation": "a dialect"}
        raise UsageError(
            f"{what.get(kind, f'a {kind}')} named '{prefix}' exists: choose another name"
        )


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _similar_name(kind: TemplateKind, name: str) -> str:
    """Return the text ", such as NAME" for a permitted name with the same words, or ""."""
    parts = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)
    proposal = kind.separator.join(parts).lower()
    return f", such as {proposal}" if re.fullmatch(kind.pattern, proposal) else ""


def _test_command(kind: TemplateKind, folder: Path, name: str) -> str:
    program = LIT_COMMAND if kind.test.startswith(LIT_COMMAND) else PYTEST_COMMAND
    names = kind.test.removeprefix(program).replace("NAME", name).split()
    return " ".join([program, *(shlex.quote(str(folder / each)) for each in names)])
