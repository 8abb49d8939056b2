"""Share code of the scripts that write a page with a line per network."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.sample_stream import synthetic_samples
from ceras_ir.data.samples import load_samples
from ceras_ir.network.function import main_function


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
