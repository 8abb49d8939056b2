"""
The first level of `ceras-verify`: the imported graph against the ONNX model.

One sample in four is compared, or one of fewer samples. A sample takes three to six times as long
as in the interpreter. A synthetic sample from -4 to 4 is among them. Other samples may be positive,
and functions such as LeakyRelu have two sides.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from time import perf_counter

import numpy as np
from xdsl.dialects.func import FuncOp

from ceras_ir.data.synthetic_samples import synthetic_steps
from ceras_ir.dialects import graph
from ceras_ir.driver.differences import (
    FLOAT_TOLERANCE,
    Array,
    Verdict,
    compare_outputs,
    relative_difference,
)
from ceras_ir.driver.verify.as_imported import AsImported, MismatchError
from ceras_ir.driver.verify.model_reference import ModelReference, NoReferenceError
from ceras_ir.frontends.onnx import NamedImport
from ceras_ir.frontends.onnx.model.model_file import read_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.states import declare_states

LEVEL = "imported graph"

SIGNED_RANGE = np.float32(4)
"""The largest magnitude of the synthetic sample of both signs."""

ZEROS = 1 / 8
"""The share of zeros in it, at which functions have corners."""

SHARE = 4
"""Of so many samples one is compared."""

MAX_BYTES = 1 << 32
"""Bytes of all tensors of a model, which the reference returns together."""

Sample = Mapping[str, Array]


class ModelCheck:
    """The model in a file, and its import."""

    def __init__(self, path: str, imported: NamedImport, states: Mapping[str, str]):
        model, (module, named) = read_model(path), imported
        declare_states(module, states)
        reference = ModelReference(model, named, Path(path).parent)
        self.imported = AsImported(model, module, named, reference)
        sizes = (4 * prod(graph.shape_of(value)) for value in self.imported.names)
        if (size := sum(sizes)) > MAX_BYTES:
            message = f"its tensors take {size >> 20} MiB, at most {MAX_BYTES >> 20}"
            raise NoReferenceError(message)
        self.differs: float | None = None
        """The largest relative difference of an output, end to end."""
        self._is_whole = False
        """Whether all outputs of a sample were compared end to end."""

    def run(self, samples: Sequence[Sample], outputs: Sequence[Sample], *, given: bool) -> None:
        """
        Compare some of `samples`, of which the imported graph computes `outputs`, and which are
        `given` by the user or synthetic. Raises `MismatchError`, and `NoReferenceError` if the
        reference runs none of them.
        """
        reason = None
        count = max(len(outputs) // SHARE, 1)
        for sample, output in self._samples(samples, outputs, given=given):
            try:
                expected = self.imported.compare(sample)
            except NoReferenceError as error:
                reason = error
                continue
            if output is not None:
                self._end_to_end(output, expected)
            if self.imported.samples == count:
                break
        if not self.imported.samples:
            raise reason or NoReferenceError("there are no samples")
        if outputs and self.differs is None:
            self.imported.reset()
            self._end_to_end(outputs[0], self.imported.reference_results(samples[0]))

    def check_layouts(self, sample: Sample, output: Sample) -> None:
        """
        Compare the graph in the layouts of the model with the imported graph, on one sample, unless
        the outputs of the imported graph agree with the reference.
        """
        module = self.imported.module
        if self._is_whole and (self.differs or 0.0) <= FLOAT_TOLERANCE:
            return
        if not any(isinstance(op, graph.TransposeOp) for op in self.imported.main.body.block.ops):
            return
        self.imported.reset()
        results = run(module, {**sample, **self.imported.states})
        if (found := compare_outputs(results, output, exact=False)) is not None:
            raise MismatchError(f"transposes, which are eliminated: {found}")

    def _samples(
        self, samples: Sequence[Sample], outputs: Sequence[Sample], *, given: bool
    ) -> Iterator[tuple[Sample, Sample | None]]:
        """
        The samples in the order in which they are compared. Where a network has states, its first
        step follows the one before.
        """
        pairs = zip((samples[i] for i in range(len(outputs))), outputs, strict=True)
        if given and outputs:
            yield next(pairs)
        if not given or not self.imported.states:
            yield signed_sample(self.imported.main), None
            self.imported.reset()
        yield from pairs

    def _end_to_end(self, output: Sample, expected: Sample) -> None:
        compared = 0
        for name, array in output.items():
            if name in expected and expected[name].shape == array.shape:
                apart = relative_difference(array, expected[name])
                self.differs = max(self.differs or 0.0, apart)
                compared += 1
        self._is_whole |= compared == len(output)

    def __str__(self) -> str:
        imported = self.imported
        text = (
            f"as {imported.reference.name}, node by node: {len(imported.compared)} tensors of "
            f"{imported.samples} sample(s) within rounding"
        )
        if imported.unbounded:
            text += f", {imported.unbounded:,} elements without a bound"
        return text if self.differs is None else f"{text}; end to end within {self.differs:.1e}"


def signed_sample(main: FuncOp) -> dict[str, Array]:
    """A synthetic sample whose floats have both signs, and some zeros."""
    (sample,) = synthetic_steps(main, 1, seed=1)
    random = np.random.default_rng(1)
    signed = dict[str, Array]()
    for name, array in sample.items():
        if array.dtype == np.float32:
            kept = random.random(array.shape) >= ZEROS
            array = np.where(kept, SIGNED_RANGE * (2 * array.astype(np.float32) - 1), np.float32(0))
        signed[name] = array
    return signed


def model_verdict(
    path: str,
    imported: NamedImport,
    states: Mapping[str, str],
    samples: Sequence[Sample],
    outputs: Sequence[Sample],
    *,
    given: bool,
    seconds: float,
) -> Verdict:
    """
    Compare the import of the model at `path` with a reference.

    `states` maps inputs to outputs of the previous step. `outputs` are those of the imported graph,
    which took the interpreter `seconds`; none if it does not take the inputs of the model.
    """
    start = perf_counter()
    try:
        check = ModelCheck(path, imported, states)
        check.run(samples, outputs, given=given)
        if outputs:
            check.check_layouts(samples[0], outputs[0])
    except NoReferenceError as error:
        return Verdict(LEVEL, True, f"not compared with the model: {error}")
    except MismatchError as error:
        return Verdict(LEVEL, False, f"differs from the model at {error}")
    spent = perf_counter() - start
    return Verdict(LEVEL, True, f"{check} ({spent:.1f} s, interpreter {seconds:.1f} s)")
