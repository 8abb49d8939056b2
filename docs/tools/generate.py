"""
Update the pages that are printed from the code, and the output of examples, or check them.

    make docs                                        all pages, half a minute
    python docs/tools/generate.py passes.md          a single page
    python docs/tools/generate.py --check [PAGE...]  print differences; status 1 if any
"""

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from boards_page import boards_page
from cli_page import cli_page
from dialects_page import dialects_page
from levels_picture import levels_picture
from operators_page import operators_page
from package_page import package_page
from passes_page import passes_page
from registers_page import registers_page
from run_examples import ExampleFailedError, refresh
from structure_picture import structure_picture

from ceras_ir.backends.nnet.circuits import LIMITS_MODULE, limits_module

DOCS = Path(__file__).resolve().parent.parent
DECIMAL = re.compile(r"\d+(\.\d+)+(e[+-]?\d+)?")
"""Decimal numbers, and versions such as 1.32.0."""
NOTICE = "<!-- Printed from the code: change the code, then run `make docs`. -->\n\n"

PRINTED: dict[str, Callable[[], str]] = {
    "boards.md": boards_page,
    "cli.md": cli_page,
    "dialects.md": dialects_page,
    "images/levels.svg": levels_picture,
    "images/structure.svg": structure_picture,
    "nnet-registers.md": registers_page,
    "package-index.md": package_page,
    "passes.md": passes_page,
    "supported-operators.md": operators_page,
}
"""File in docs/ -> the function that prints it."""

WITH_EXAMPLES = (
    "../README.md",
    *sorted(
        page.name
        for page in DOCS.glob("*.md")
        if page.name not in PRINTED and "\n```console" in page.read_text("utf-8")
    ),
)
"""Pages with examples that are executed."""


def _printed(make: Callable[[], str]) -> str:
    return NOTICE + make().rstrip() + "\n"


def _refreshed(name: str) -> str:
    return refresh(_read(name))


def _read(name: str) -> str:
    path = DOCS / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


PAGES: dict[str, Callable[[], str]] = {
    f"../ceras_ir/backends/nnet/hdl/{LIMITS_MODULE}.sv": limits_module,
    **{name: partial(_printed, make) for name, make in PRINTED.items()},
    **{name: partial(_refreshed, name) for name in WITH_EXAMPLES},
}


def _difference(name: str, text: str) -> Iterator[str]:
    """Return the difference of a page. Decimals and versions in examples depend on the machine."""
    old = _read(name)
    if name in WITH_EXAMPLES and DECIMAL.sub("#", old) == DECIMAL.sub("#", text):
        return iter(())
    before, after = old.splitlines(keepends=True), text.splitlines(keepends=True)
    return difflib.unified_diff(before, after, f"docs/{name}", "now")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=", ".join(PAGES))
    parser.add_argument("--check", action="store_true", help="compare without writing")
    arguments = parser.parse_args()
    if sys.flags.optimize > 1:
        parser.error("run without -OO: the pages contain docstrings")
    differences: list[str] = []
    failed = False
    for name in arguments.pages or PAGES:
        if name not in PAGES:
            parser.error(f"no page '{name}': {', '.join(PAGES)}")
        try:
            text = PAGES[name]()
        except ExampleFailedError as error:
            print(f"docs/{name}: an example fails:\n{error}", file=sys.stderr)
            failed = True
            continue
        if arguments.check:
            differences += _difference(name, text)
        else:
            (DOCS / name).write_text(text, encoding="utf-8")
    if differences:
        print(*differences, sep="")
        print("docs/ is older than the code: run `make docs` and commit the changes")
    return 1 if differences or failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
