"""Pages of networks that were tried, a line each, written by several runs."""

from collections.abc import Iterator, Sequence
from pathlib import Path


def models(paths: Sequence[str]) -> Iterator[Path]:
    """The files that are named, in folders or alone."""
    for path in map(Path, paths):
        yield from sorted(path.glob("*.onnx")) if path.is_dir() else [path]


def earlier(page: Path | None) -> dict[str, str]:
    """The lines of a page that there is, by network, marked as of an earlier version."""
    text = page.read_text(encoding="utf-8") if page is not None and page.is_file() else ""
    cells = [line.split(" | ", 1) for line in text.splitlines() if line.startswith("| ")]
    rows = {first[2:].removesuffix(" *"): rest for first, rest in cells if first != "| network"}
    return {name: f"| {name} * | {rest}\n" for name, rest in rows.items()}
