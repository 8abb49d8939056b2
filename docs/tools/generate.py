"""
Write the pages of docs/ that are printed from the code, or check that they are current.

    make docs                                 writes them
    python docs/tools/generate.py --check     prints what differs; exit status 1 if anything does
"""

import argparse
import difflib
from collections.abc import Callable
from pathlib import Path

from cli_page import cli_page
from dialects_page import dialects_page
from passes_page import passes_page

DOCS = Path(__file__).resolve().parent.parent

PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli_page,
    "dialects.md": dialects_page,
    "passes.md": passes_page,
}
"""File in docs/ -> what prints it."""

NOTICE = "<!-- Printed from the code: change that, then run `make docs`. -->\n\n"


def stale(name: str, text: str) -> list[str]:
    """What the committed page lacks, as a diff."""
    path = DOCS / name
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    before, after = old.splitlines(keepends=True), text.splitlines(keepends=True)
    return list(difflib.unified_diff(before, after, f"docs/{name}", "the code"))


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the generated pages of docs/.")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    check: bool = parser.parse_args().check
    differences: list[str] = []
    for name, make in PAGES.items():
        text = NOTICE + make().rstrip() + "\n"
        if check:
            differences += stale(name, text)
        else:
            (DOCS / name).write_text(text, encoding="utf-8")
    if differences:
        print(*differences, sep="")
        print("docs/ is older than the code: run `make docs` and commit what it changes")
    return 1 if differences else 0


if __name__ == "__main__":
    raise SystemExit(main())
