"""Pages of networks that were tried, a line each, written by several runs."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.samples import load_samples
from ceras_ir.data.synthetic_samples import synthetic_samples
from ceras_ir.network.function import main_function


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


def samples_of(path: Path, module: ModuleOp, count: int) -> list[dict[str, NDArray[Any]]]:
    """Those of `NAME.npz` beside a network, or made-up ones, each as the network takes it."""
    network = main_function(module)
    if (beside := path.with_suffix(".npz")).is_file():
        return list(load_samples(str(beside), module).first(count))
    return synthetic_samples(network, count, 1)
