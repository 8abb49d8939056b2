"""Check that the English of code and pages is within the limits of `prose_words.toml`."""

import subprocess
import sys
from pathlib import Path

import prose
import pytest
from prose import ROOT, SETTINGS, Passage, all_passages, fragments, tallies, total

LIMITS = SETTINGS["limits"]


@pytest.fixture(scope="module")
def found() -> list[Passage]:
    """Return the passages of the project. This takes seconds, so collection does not call it."""
    return all_passages([ROOT / path for path in prose.DEFAULT_PATHS])


def test_tree_is_within_the_limit(found: list[Passage]) -> None:
    assert total(found).score <= LIMITS["tree"]


@pytest.mark.parametrize("kind", prose.KINDS)
def test_each_kind_is_within_the_limit(kind: str, found: list[Passage]) -> None:
    assert tallies(found, "kind")[kind].score <= LIMITS["kind"]


def test_each_file_is_within_the_limit(found: list[Passage]) -> None:
    above = {
        path: round(tally.score, 1)
        for path, tally in tallies(found, "path").items()
        if tally.total >= LIMITS["file_words"] and tally.score > LIMITS["file"]
    }
    assert not above, f"run `python test/prose.py --passages 10 FILE`: {above}"


def test_no_docstring_begins_with_a_fragment(found: list[Passage]) -> None:
    assert not [str(passage) for passage in fragments(found)]


def test_what_is_rare_in_docstrings(found: list[Passage]) -> None:
    assert tallies(found, "kind")["docstring"].rate("what") <= LIMITS["what"]


def test_pages_are_short() -> None:
    # The page for package indexes is a copy of README.md.
    pages = {ROOT / "README.md", *(ROOT / "docs").glob("*.md")} - {ROOT / "docs/package-index.md"}
    counts = {page.stem: count_words(page) for page in pages}
    subjects = [counts.pop(name) for name in LIMITS["subject_pages"]]
    assert sum(counts.values()) <= LIMITS["page_words"]
    assert max(subjects) <= LIMITS["subject_page_words"]


def count_words(page: Path) -> int:
    words = page.read_text(encoding="utf-8").split()
    return sum(any(map(str.isalnum, word)) for word in words)


def test_score_counts_marked_words_in_each_kind(tmp_path: Path) -> None:
    code = tmp_path / "code.py"
    code.write_text('"""Of those behind."""\n# Comes beside it.\nx = "what it says is alone"\n')
    page = tmp_path / "page.md"
    page.write_text("It stands `behind` apart.\n\n```\nwhat code says\n```\nIt lies.\n")
    found = all_passages([tmp_path])
    assert [(p.kind, p.line) for p in found] == [
        ("docstring", 1),
        ("message", 3),
        ("comment", 2),
        ("page", 1),
        ("page", 6),
    ]
    rare = [sum(word in prose.RARE_WORDS for word in p.words) for p in found]
    assert rare == [2, 3, 2, 2, 1]
    assert fragments(found) == found[:1]
    assert total(found).rate("what") == pytest.approx(1000 / total(found).total)


def test_score_is_the_rate_above_twice_the_rate_of_the_field() -> None:
    tally = prose.Tally()
    tally.add(["behind"] * 2 + ["word"] * 998)
    assert tally.score == pytest.approx(2 - 2 * 0.02)
    tally.add(["one"] * 5)
    assert tally.score == pytest.approx(2000 / 1005 - 2 * 0.02)


def test_command_prints_the_score_of_a_file(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("The result stands behind the others.\n")
    run = [sys.executable, prose.__file__, "--passages", "1", str(page)]
    printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert f"{page}:1: The result stands behind the others." in printed


def test_words_of_code_and_links_do_not_count() -> None:
    passage = Passage(
        "page", Path("page.md"), 1, "See [one](behind.md), `what`, https://a.b/whole."
    )
    assert passage.words == ["see", "one"]
