"""Check that each row of the page for security reviewers names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "security-review.md"

TEST = re.compile(r"`(test/[\w/]+\.py)(?:::(\w+))?`")


def rows() -> list[str]:
    lines = PAGE.read_text("utf-8").splitlines()
    return [line for line in lines if line.startswith("| ") and not line.endswith("| test |")]


def test_each_row_names_tests_that_exist() -> None:
    assert len(rows()) > 20
    for row in rows():
        named = TEST.findall(row.rstrip("| ").rpartition("|")[2])
        assert named, row
        for file, function in named:
            text = (ROOT / file).read_text("utf-8")
            assert f"def {function or 'test_'}" in text, (file, function)
