"""Share code of the scripts that write a page with a line per network."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.sample_stream import synthetic_samples
from ceras_ir.data.samples import load_samples
from ceras_ir.network.function import main_function

WIDTH = 100


def models(paths: Sequence[str]) -> Iterator[Path]:
    """Return the models of folders and single files."""
    for path in map(Path, paths):
        yield from sorted(path.glob("*.onnx")) if path.is_dir() else [path]


def samples_of(path: Path, module: ModuleOp, count: int) -> list[dict[str, NDArray[Any]]]:
    """Return samples of `NAME.npz` next to a network, or synthetic samples."""
    network = main_function(module)
    if (data := path.with_suffix(".npz")).is_file():
        return list(load_samples(str(data), module).first(count))
    return synthetic_samples(network, count, 1)


def table(rows: Sequence[Mapping[str, str]], usual: Sequence[str]) -> str:
    """
    Return a Markdown table with a line per row. A column of `usual` is replaced by its most
    frequent value above the table, and by the rows with other values below the table.
    """
    first = next(iter(rows[0]))
    common = {name: Counter(row[name] for row in rows).most_common(1)[0][0] for name in usual}
    columns = [name for name in rows[0] if name not in common]
    values = ", ".join(f"*{name}* {value}" for name, value in common.items())
    lines = [fill(f"Unless listed below the table: {values}.", WIDTH), ""]
    lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [f"| {' | '.join(row[name] for name in columns)} |" for row in rows]
    exceptions: dict[tuple[str, str], list[str]] = {}
    for name, value in common.items():
        for row in rows:
            if row[name] != value:
                exceptions.setdefault((name, row[name]), []).append(row[first])
    items = (f"- *{name}* {value}: {', '.join(of)}." for (name, value), of in exceptions.items())
    listed = [fill(item, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for item in items]
    return "\n".join([*lines, *(["", *listed] if listed else [])]) + "\n"
