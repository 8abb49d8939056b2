"""
Compare the imported graph with the ONNX model, node by node: the first level of `ceras-verify`.

A quarter of the samples is compared, at least one. A sample takes three to six times as long as in
the interpreter. A synthetic sample from -4 to 4 is included, because other samples may be positive,
and functions such as LeakyRelu differ for negative operands. Of a value with extents that data
decide, the elements within the extents of the reference are compared.

1. An implementation of ONNX that shares no code with the compiler runs the model
   (`model_reference.py`).
2. The interpreter runs the imported graph in the layouts of the model. The importer has recorded
   the value of each tensor; a wrong record causes a difference.
3. When such a value is computed, it is compared with the tensor of the reference and replaced by
   it. The operations of each node are therefore computed from the operands of the reference.
4. A tensor that the importer fused is covered by the next common tensor. Constants that the
   importer folded are compared too.

Integers and booleans must be equal. Floats must be within the bounds of `rounding_rules.py`, which
follow from the operations, the operands and the types. An integer that is rounded from a float may
differ by a step if the bound of the float reaches a tie.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf, prod
from pathlib import Path
from time import perf_counter

import numpy as np
import onnx
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from ceras_ir.data.sample_stream import signed_sample
from ceras_ir.dialects import graph
from ceras_ir.driver.differences import (
    FLOAT_TOLERANCE,
    Array,
    Verdict,
    compare_outputs,
    relative_difference,
)
from ceras_ir.driver.verify.bounded_evaluation import BoundedEvaluation, lost, unit_of
from ceras_ir.driver.verify.model_reference import FoldedConstants, ModelReference, NoReferenceError
from ceras_ir.driver.verify.real_values import Doubles, term_of
from ceras_ir.driver.verify.rounding_rules import equal, within
from ceras_ir.frontends.onnx import NamedImport
from ceras_ir.frontends.onnx.emission.values import Value
from ceras_ir.frontends.onnx.model.model_file import read_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import (
    declare_states,
    initial_state,
    input_names,
    main_function,
    states_of,
)
from ceras_ir.pipeline.stages import IMPORTED

DATA_DEPENDENT_SIZES = frozenset({"NonMaxSuppression"})
"""Operators whose result has a data-dependent number of rows."""


class MismatchError(Exception):
    """
    An element of a tensor differs from the reference by more than the bound; the message names it.
    """


class AsImported:
    """
    An ONNX model and the graph that was imported from it, with the tensors of the model that have a
    counterpart in the graph.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        module: ModuleOp,
        named: Mapping[str, Value],
        reference: ModelReference,
        sized: Collection[SSAValue] = (),
    ):
        """`sized` are the values with extents that data decide, of which the user states maxima."""
        self.sized = sized
        self.module, self.reference = module, reference
        self.main = main_function(module)
        self.names: dict[SSAValue, list[str]] = {}
        for name in reference.nodes:
            if isinstance(value := named.get(name), SSAValue):
                self.names.setdefault(value, []).append(name)
        self.reset()
        self.constants = FoldedConstants(model, named, reference)
        self._sized = set[SSAValue]()
        """Values of the sample that depend on a data-dependent number of rows."""
        self.samples = 0
        self.compared: set[str] = set()
        """The compared tensors of the model."""
        self.unbounded = 0
        """The number of differing elements without a bound, in all samples."""
        self.has_undefined = False
        """Whether a sample has a mean of no elements, which is NaN in the reference."""

    def reset(self) -> None:
        """Reset the states of the network to their initial values."""
        self.states = {state.name: initial_state(state) for state in states_of(self.main)}

    def reference_results(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """
        Return all tensors that the reference computes for `sample`, by name. Raise
        `NoReferenceError` if it cannot run the model.
        """
        return self.reference.run({**self.constants.inputs(), **sample, **self.states})

    def compare(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """
        Run the model and the graph on a sample, and compare each tensor that both have. Return the
        outputs of the reference. Raises `MismatchError` at the first element outside the bound, and
        `NoReferenceError` if the reference cannot run the model.
        """
        inputs = {**self.constants.inputs(), **sample, **self.states}
        expected = self.reference_results(sample)
        for state in states_of(self.main):
            self.states[state.name] = expected[state.result_name]
        known = {**inputs, **expected}
        with np.errstate(all="ignore"):
            if not self.samples:
                for name, actual, tensor, bound in self.constants.compare(expected):
                    self.compared.add(name)
                    self._check_shape(name, actual, tensor)
                    self._judge(name, known, actual, tensor, bound)
            self._walk(known)
        self.samples += 1
        return {name: expected[name] for name in self.reference.outputs if name in expected}

    def _walk(self, known: Mapping[str, Array]) -> None:
        evaluation = BoundedEvaluation(self.module, self.constants.relative_error)
        self._sized = set[SSAValue]()
        block, types = self.main.body.block, self.reference.types
        for name, argument in zip(input_names(self.main), block.args, strict=True):
            given = np.asarray(known[name]).astype(types[name])
            dtype = graph.numpy_dtype(graph.element_of(argument))
            evaluation.set(argument, given.astype(dtype), lost(given, dtype))
            self._check(argument, evaluation, known)
        for op in block.ops:
            if isinstance(op, ReturnOp):
                return
            (result,) = op.results
            if result in self.names or result.uses.get_length():
                evaluation.compute(op)
                if self._sized.isdisjoint(op.operands):
                    self._check(result, evaluation, known)
                else:
                    self._sized.add(result)

    def _check(
        self, value: SSAValue, evaluation: BoundedEvaluation, known: Mapping[str, Array]
    ) -> None:
        for name in self.names.get(value, ()):
            actual = evaluation.values[value]
            if name not in known or known[name].dtype.kind not in "biuf":
                continue  # Text and sequences are not compared.
            expected = np.asarray(known[name])
            self.compared.add(name)
            if (rows := self._common_rows(name, actual, expected)) is not None:
                self._sized.add(value)
                self._judge(name, known, actual[:rows], expected[:rows], np.zeros(()))
                continue
            term: Doubles | None = None
            if value in self.sized and actual.shape != expected.shape:
                if (region := self._common_region(actual, expected)) is None:
                    self._sized.add(value)
                    continue
                # The elements outside of the extents have no counterpart.
                term = np.zeros(actual.shape)
                term[region] = self._term(name, known, expected)
                whole = actual.copy()
                whole[region] = expected.astype(actual.dtype)
                expected = whole
            if actual.shape != expected.shape or not equal(actual, expected).all():
                self._check_shape(name, actual, expected)
                operands = self._operands(name, known)
                evaluation.unit = unit_of([*operands, expected])
                term = self._term(name, known, expected) if term is None else term
                bound = evaluation.error_of(value)
                if (other := term + lost(expected, actual.dtype)).any():
                    bound = bound + other
                if expected.dtype.kind == "f":
                    rounding = np.abs(expected, dtype=np.float64)
                    rounding *= evaluation.unit
                    rounding += bound
                    bound = rounding
                self._judge(name, known, actual, expected, bound)
            dtype = actual.dtype
            evaluation.set(value, expected.astype(dtype, copy=False), lost(expected, dtype))

    def _term(self, name: str, known: Mapping[str, Array], expected: Array) -> Doubles:
        """Return the term of `term_of` for the node that computes `name`."""
        node = self.reference.nodes[name]
        return term_of(node, self._operands(name, known), expected.ndim)

    @staticmethod
    def _common_region(actual: Array, expected: Array) -> tuple[slice, ...] | None:
        """
        Return the region of `actual`, which has the maximum shape, that `expected` has; `None` if
        it exceeds the maximum. Values that depend on it then have no counterpart.
        """
        pairs = [*zip(actual.shape, expected.shape, strict=False)]
        if actual.ndim != expected.ndim or any(n < extent for n, extent in pairs):
            return None
        return tuple(slice(0, extent) for _, extent in pairs)

    def _common_rows(self, name: str, actual: Array, expected: Array) -> int | None:
        """
        Return the number of leading rows to compare, if the data determines the number of rows in
        the model and the imported graph has a fixed number (NonMaxSuppression); otherwise `None`.
        The other rows, and values that depend on them, have no counterpart.
        """
        is_sized = self.reference.nodes[name].op_type in DATA_DEPENDENT_SIZES
        if not is_sized or actual.shape[1:] != expected.shape[1:] or actual.shape == expected.shape:
            return None
        return min(len(actual), len(expected))

    def _judge(
        self,
        name: str,
        known: Mapping[str, Array],
        actual: Array,
        expected: Array,
        bound: Doubles,
    ) -> None:
        bound = np.broadcast_to(bound, actual.shape)
        if (close := within(actual, expected, bound)).all() and bound.max(initial=0.0) < inf:
            return
        floats = [a for a in self._operands(name, known) if a.dtype.kind == "f"]
        if floats and not floats[0].size:
            # ONNX does not specify the mean of no elements.
            undefined = np.isnan(expected)
            self.has_undefined |= bool(undefined.any())
            bound = np.where(undefined, inf, bound)
            close = within(actual, expected, bound)
        if not all(np.isfinite(array).all() for array in floats):
            # ONNX does not specify the result of operators for NaN.
            bound = np.where(np.isnan(actual) | np.isnan(expected), inf, bound)
            close = within(actual, expected, bound)
        self.unbounded += int(np.count_nonzero(np.isinf(bound) & (actual != expected)))
        # An infinite bound does not cover an infinity.
        close |= np.isinf(bound)
        if not close.all():
            at = tuple(int(i) for i in np.argwhere(~close)[0])
            raise MismatchError(
                f"{self._title(name)}{list(at)}: the imported graph computes {actual[at]}, "
                f"the reference {expected[at]}; bound {bound[at]:.2g}"
            )

    def _check_shape(self, name: str, actual: Array, expected: Array) -> None:
        if actual.shape != expected.shape:
            shapes = f"{list(actual.shape)}, the reference {list(expected.shape)}"
            raise MismatchError(f"{self._title(name)}: the imported graph has shape {shapes}")

    def _title(self, name: str) -> str:
        node = self.reference.nodes[name]
        return f"node '{node.name or name}' ({node.op_type}), tensor '{name}'"

    def _operands(self, name: str, known: Mapping[str, Array]) -> list[Array]:
        """
        Return the operands of the node that computes `name`. A missing operand, or one that is no
        tensor, is an empty array.
        """
        found: list[Array] = []
        for operand in self.reference.nodes[name].input:
            constant = self.constants.constants.get(operand)
            if operand in known:
                found.append(np.asarray(known[operand]))
            else:
                found.append(np.zeros(0) if constant is None else constant.load())
        return found


SAMPLES_PER_CHECK = 4
"""The number of samples per compared sample."""

MAX_REFERENCE_BYTES = 1 << 32
"""The largest size of all tensors of a model, which the reference returns together."""

Sample = Mapping[str, Array]


class ModelCheck:
    """
    Compares the graph that was imported from a model file with a reference implementation of ONNX
    that runs the model.

    `run` compares the values of each node, then the outputs of the entire network ("end to end").
    """

    def __init__(self, path: str, imported: NamedImport, states: Mapping[str, str]):
        model, (module, named, sized) = read_model(path), imported
        declare_states(module, states)
        reference = ModelReference(model, named, Path(path).parent)
        self.imported = AsImported(model, module, named, reference, sized)
        sizes = (4 * prod(graph.shape_of(value)) for value in self.imported.names)
        if (size := sum(sizes)) > MAX_REFERENCE_BYTES:
            message = f"the tensors need {size >> 20} MiB, at most {MAX_REFERENCE_BYTES >> 20}"
            raise NoReferenceError(message)
        self.differs: float | None = None
        """The largest relative difference of an output, end to end."""
        self._is_compared_end_to_end = False
        """Whether all outputs of a sample were compared end to end."""

    def run(self, samples: Sequence[Sample], outputs: Sequence[Sample], *, given: bool) -> None:
        """
        Compare the imported graph with the reference on some of `samples`. `outputs` has the
        outputs that the imported graph computes for each sample. `given` is true if the user
        supplied the samples, and false for synthetic samples. Raises `MismatchError`, and
        `NoReferenceError` if the reference cannot run any sample.
        """
        reason = None
        count = max(len(outputs) // SAMPLES_PER_CHECK, 1)
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
            raise reason or NoReferenceError("no samples")
        if outputs and self.differs is None:
            self.imported.reset()
            self._end_to_end(outputs[0], self.imported.reference_results(samples[0]))

    def check_layouts(self, sample: Sample, output: Sample) -> None:
        """
        Run the graph from before the elimination of transposes on a sample, and compare with
        `output`, the outputs of the imported graph. This step is omitted if there are no
        transposes, or if the outputs of the imported graph agree with the reference. Raises
        `MismatchError`.
        """
        module = self.imported.module
        if self._is_compared_end_to_end and (self.differs or 0.0) <= FLOAT_TOLERANCE:
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
        Return the samples in the order of comparison. In a network with states, the first step
        follows the previous step.
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
                kept = np.ones(array.shape, np.bool_)
                if self.imported.has_undefined:
                    kept = ~np.isnan(expected[name])
                if not kept.any():
                    continue
                apart = relative_difference(array[kept], expected[name][kept])
                self.differs = max(self.differs or 0.0, apart)
                compared += 1
        self._is_compared_end_to_end |= compared == len(output)

    def __str__(self) -> str:
        imported = self.imported
        text = (
            f"as {imported.reference.name}, node by node: {len(imported.compared)} tensors of "
            f"{imported.samples} sample(s) within rounding"
        )
        if imported.unbounded:
            text += f", {imported.unbounded:,} elements without a bound"
        return text if self.differs is None else f"{text}; end to end within {self.differs:.1e}"


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
    Compare the import of the model at `path` with a reference. `states` maps inputs to outputs of
    the previous step. `outputs` are the outputs of the imported graph, which took the interpreter
    `seconds`; they are empty if the graph has other inputs than the model.
    """
    start = perf_counter()
    try:
        check = ModelCheck(path, imported, states)
        try:
            check.run(samples, outputs, given=given)
            if outputs:
                check.check_layouts(samples[0], outputs[0])
        except MismatchError as error:
            name = check.imported.reference.name
            return Verdict(
                IMPORTED, False, f"differs from the model, computed by {name}, at {error}"
            )
    except NoReferenceError as error:
        return Verdict(IMPORTED, True, f"not compared with the model: {error}")
    spent = perf_counter() - start
    return Verdict(IMPORTED, True, f"{check} ({spent:.1f} s, interpreter {seconds:.1f} s)")
