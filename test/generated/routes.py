"""Run a generated network by the interpreter, C and nnet."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from generated.builder import Array, Case
from generated.reference import Results

import ceras_ir as ceras
from ceras_ir.backends.c import runner
from ceras_ir.backends.c.names import Prefix


class Refused(Exception):
    """The error that the compiler does not support the network."""


@contextmanager
def quick_compiler() -> Generator[None]:
    """Compile C with -O1, for a single run."""
    build = runner.build_library

    def quick(
        source: Path,
        library: Path,
        prefix: Prefix,
        *,
        trace: bool = False,
        flags: Sequence[str] = (),
    ) -> None:
        del flags
        build(source, library, prefix, trace=trace, flags=("-O1",))

    runner.build_library = quick
    try:
        yield
    finally:
        runner.build_library = build


def stacked(samples: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Stack samples to an array for each input, as the Python API expects them."""
    columns = {name: [sample[name] for sample in samples] for name in samples[0]}
    return {
        name: np.concatenate(arrays)
        if np.ndim(arrays[0]) and len(arrays[0]) == 1
        else np.stack(arrays)
        for name, arrays in columns.items()
    }


class Routes:
    """An imported network, and the routes to run it."""

    def __init__(self, case: Case):
        self.case = case
        with tempfile.TemporaryDirectory(prefix="ceras-generated-") as name:
            path = Path(name) / "model.onnx"
            path.write_bytes(case.model.SerializeToString())
            self.network = self._known(lambda: ceras.load(path, states=dict(case.states)))
        self.data = stacked(case.samples)

    def _known(self, make: Callable[[], Any]) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return make()
        except ceras.UnsupportedError as error:
            raise Refused(str(error)) from None

    def run(self, route: str) -> Results:
        """Return the results of each sample, without the states, which callers do not see."""
        match route:
            case "interp":
                found = self.network.run(self.data)
            case _:
                found = self._known(lambda: self.network.compile(route)).run(self.data)
        return self.each(found)

    def nnet_differs(self) -> str:
        """Compare nnet with the interpreter, for a float network quantized to integers."""
        calibration = stacked(self.case.calibration)
        try:
            whole = self._known(lambda: self.network.quantize(calibration, target="nnet"))
        except ceras.InputError as error:
            if "not finite" in str(error):
                # The results of the reference are not finite for these samples either.
                raise Refused("unsupported calibration samples: not finite") from None
            raise
        compiled = self._known(lambda: whole.compile("nnet"))
        got, want = compiled.run(self.data), whole.run(self.data)
        for name, array in want.items():
            if not np.array_equal(got[name], array, equal_nan=array.dtype.kind == "f"):
                return f"output '{name}' of nnet differs from the interpreter's"
        return ""

    def each(self, found: Mapping[str, Array]) -> Results:
        count = len(self.case.samples)
        shapes = {
            v.name: [d.dim_value for d in v.type.tensor_type.shape.dim]
            for v in self.case.model.graph.output
        }
        return [
            {name: a.reshape(count, *shapes[name])[i] for name, a in found.items()}
            for i in range(count)
        ]
