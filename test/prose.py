"""
Score the English of the project, so that a new reader understands it.

    python test/prose.py [--passages N] [PATH ...]

prints the score of each kind of text, the words and files that contribute most, and N passages.
The score adds up, for each word of `prose_words.toml`, the rate per 1,000 words above twice the
rate of comparable projects. It locates passages to rewrite. It does not prove that a text is clear.
`test_prose.py` checks the limits of that file.
"""

import argparse
import ast
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = tomllib.loads(Path(__file__).with_name("prose_words.toml").read_text())
FREE_RATES: dict[str, float] = {w: 2 * entry["rate"] for w, entry in SETTINGS["words"].items()}
"""Word -> occurrences per 1,000 words that do not count."""
RARE_WORDS = {word for word, rate in FREE_RATES.items() if rate < 0.8}
MIN_MESSAGE_WORDS = 3
KINDS = ("docstring", "comment", "message", "page")
DEFAULT_PATHS = ("ceras_ir", "docs", "README.md", "test", "benchmarks", "examples")


@dataclass(frozen=True)
class Passage:
    """A docstring, comment, message, or paragraph of a page."""

    kind: str
    path: Path
    line: int
    text: str

    @property
    def words(self) -> list[str]:
        """Return the words in lower case, without code, links and numbers."""
        plain = re.sub(r"https?://\S+|\]\([^)]*\)|`[^`]*`", " ", self.text)
        return re.findall(r"[a-z]+(?:-[a-z]+)?", plain.lower())

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {' '.join(self.text.split())[:160]}"


@dataclass
class Tally:
    """The words of several passages."""

    counts: Counter[str] = field(default_factory=Counter[str])

    def add(self, words: Iterable[str]) -> None:
        self.counts.update(words)

    @property
    def total(self) -> int:
        return self.counts.total()

    def rate(self, word: str) -> float:
        """Return the occurrences of `word` per 1,000 words."""
        return 1000 * self.counts[word] / max(self.total, 1)

    @property
    def excess(self) -> dict[str, float]:
        """Word -> rate above the free rate."""
        above = {word: self.rate(word) - free for word, free in FREE_RATES.items()}
        return {word: rate for word, rate in above.items() if rate > 0}

    @property
    def score(self) -> float:
        return sum(self.excess.values())


def passages(path: Path) -> Iterator[Passage]:
    """Yield the passages of a Python file or a page."""
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    found = _page(text) if path.suffix == ".md" else _python(path, text)
    for kind, line, passage in found:
        yield Passage(kind, name, line, passage)


def _string_statement(node: ast.Expr) -> ast.Constant | None:
    value = node.value
    return value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _python(path: Path, text: str) -> Iterator[tuple[str, int, str]]:
    tree = ast.parse(text)
    docstrings: set[ast.Constant] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and (string := _string_statement(node)) is not None:
            docstrings.add(string)
            yield "docstring", node.lineno, str(string.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = re.findall(r"[A-Za-z]{2,} ", node.value)
            if node not in docstrings and len(words) >= MIN_MESSAGE_WORDS:
                yield "message", node.lineno, node.value
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.COMMENT:
                yield "comment", token.start[0], token.string.lstrip("#! ")


def _page(text: str) -> Iterator[tuple[str, int, str]]:
    # A fence begins and ends a code block; a blank line ends a paragraph.
    is_code, first, paragraph = False, 1, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        is_fence = line.lstrip().startswith("```")
        if paragraph and (is_fence or is_code or not line.strip()):
            yield "page", first, " ".join(paragraph)
            paragraph = []
        elif line.strip() and not is_code and not is_fence:
            first = first if paragraph else number
            paragraph.append(line)
        is_code ^= is_fence


def all_passages(paths: Sequence[Path]) -> list[Passage]:
    """Return the passages of files, and of Python files and pages in folders."""
    files: set[Path] = set()
    for path in paths:
        files |= {path} if path.is_file() else {*path.rglob("*.py"), *path.rglob("*.md")}
    return [passage for path in sorted(files) for passage in passages(path)]


def tallies(found: Iterable[Passage], key: str) -> dict[str, Tally]:
    """Count words by the field `key` of a passage: `kind` or `path`."""
    result: dict[str, Tally] = {}
    for passage in found:
        result.setdefault(str(getattr(passage, key)), Tally()).add(passage.words)
    return result


def total(found: Iterable[Passage]) -> Tally:
    """Count the words of all passages."""
    result = Tally()
    for passage in found:
        result.add(passage.words)
    return result


def fragments(found: Iterable[Passage]) -> list[Passage]:
    """Return the docstrings that begin with a word of the list of fragments."""
    starts = set(SETTINGS["docstrings"]["fragments"])
    return [
        passage
        for passage in found
        if passage.kind == "docstring"
        and (start := re.match(r"\s*([A-Za-z]+)\b", passage.text))
        and start[1].lower() in starts
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    parser.add_argument("--passages", type=int, default=0, help="print the N worst passages")
    parser.add_argument("--files", type=int, default=12, help="print the N worst files")
    arguments = parser.parse_args()
    found = all_passages(
        [p.resolve() for p in arguments.paths or map(ROOT.joinpath, DEFAULT_PATHS)]
    )
    everything = total(found)
    for kind, tally in [*tallies(found, "kind").items(), ("all", everything)]:
        print(f"{kind:10} {tally.total:7} words, score {tally.score:5.1f}")
    print(f"fragments  {len(fragments(found)):7} docstrings")
    for word, rate in sorted(everything.excess.items(), key=lambda item: -item[1])[:20]:
        print(f"  {word:10} {rate:5.2f} too frequent: {SETTINGS['words'][word]['use']}")
    by_file = sorted(
        tallies(found, "path").items(), key=lambda item: -item[1].score * item[1].total
    )
    for path, tally in by_file[: arguments.files]:
        print(f"  {tally.score:5.1f} in {tally.total:6} words  {path}")

    def density(passage: Passage) -> float:
        words = passage.words
        return sum(word in RARE_WORDS for word in words) / (len(words) + 8)

    for passage in sorted(found, key=density, reverse=True)[: arguments.passages]:
        print(passage)
    return 0


if __name__ == "__main__":
    sys.exit(main())
