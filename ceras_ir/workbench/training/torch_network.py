"""
Execute a network of the graph dialect in torch, with weights and biases as parameters.

Weights that are zero remain zero. Parameters are real numbers. Quantized layers round them to
integers, which `arrays` returns.
"""

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import quantized_element
from ceras_ir.dialects.quant import BYTE_BITS, UniformType
from ceras_ir.network import integer
from ceras_ir.network.function import main_function, output_names, result_values
from ceras_ir.network.storage import EQUALIZED
from ceras_ir.support.diagnostics import (
    Finding,
    InputError,
    UnsupportedError,
    did_you_mean,
    node_name,
    node_names,
)
from ceras_ir.workbench.training.integer_operations import INTEGER_MEANINGS, scales, stored
from ceras_ir.workbench.training.operations import MEANINGS, TorchFunction

Array = NDArray[np.generic]
Zeros = Mapping[str, NDArray[np.bool_]]
"""The mask of the weights that remain zero, by layer name."""


@dataclass(frozen=True, eq=False)
class Trained:
    """
    A constant of the network that is trained: the name of the parameter in torch, and the quantized
    type, if any.
    """

    constant: graph.ConstantOp
    parameter: str
    element: UniformType | None

    @property
    def low(self) -> int | None:
        """
        The lowest integer of signed weights of less than 8 bits: that of `weight_bounds`, or of the
        initial weights; `None` for the lowest of the type.
        """
        if (e := self.element) is None or e.width >= BYTE_BITS or not e.is_signed:
            return None
        return min(integer.weight_bounds(e.width)[0], int(self.constant.array().min(initial=0)))

    def real(self) -> Tensor:
        """Return the initial constant as real numbers."""
        array = self.constant.array()
        if self.element is None:
            return torch.tensor(array.astype(np.float32))
        # float32 cannot represent all integers of 32 bits.
        wide = self.element.storage.width.data > 16
        kind = np.float64 if wide else np.float32
        centred = array.astype(np.int64) - integer.zero_points(self.element, array.ndim)
        return torch.tensor(centred.astype(kind) * integer.scales(self.element, array.ndim))


class TorchNetwork(nn.Module):
    """
    The function `main` of a module, executed in torch. The weights in `zeros` (masks by layer name)
    remain zero; by default, all weights that are zero.
    """

    def __init__(self, module: ModuleOp, zeros: Zeros | None = None):
        super().__init__()
        main = main_function(module)
        self.arguments: list[SSAValue] = list(main.body.block.args)
        self.results = dict(zip(output_names(main), result_values(main), strict=True))
        self.steps: list[tuple[Operation, TorchFunction]] = []
        self.trained: dict[SSAValue, Trained] = {}
        self.fixed: dict[SSAValue, str] = {}
        self.masks: dict[str, str] = {}
        self.batched = True
        """Whether a batch can have several samples."""
        self.is_equalized = EQUALIZED in main.attributes
        """Whether channels may be multiplied by powers of two."""
        ops = [op for op in main.body.block.ops if not isinstance(op, ReturnOp)]
        _refuse(ops)
        for op in ops:
            if isinstance(op, graph.LinearOperation):
                self._train(op, zeros)
        for op in ops:
            if isinstance(op, graph.ConstantOp):
                if op.result not in self.trained:
                    self._fix(op)
                continue
            self.steps.append((op, _meaning(op)))

    def _train(self, op: graph.LinearOperation, zeros: Zeros | None) -> None:
        for value in (op.weights, op.bias):
            if value is None or not isinstance(constant := value.owner, graph.ConstantOp):
                continue
            if value in self.trained:
                continue
            name = f"{'weights' if value is op.weights else 'bias'}{len(self.trained)}"
            trained = Trained(constant, name, quantized_element(value))
            self.trained[value] = trained
            real = trained.real()
            self.register_parameter(name, nn.Parameter(real))
            if value is op.weights:
                held = real == 0
                known = None if zeros is None else zeros.get(node_name(op))
                if known is not None and known.shape == held.shape:
                    held = torch.tensor(known)
                self.masks[name] = f"{name}_mask"
                self.register_buffer(self.masks[name], (~held).to(torch.float32))

    def _fix(self, op: graph.ConstantOp) -> None:
        array, name = op.array(), f"constant{len(self.fixed)}"
        if quantized_element(op.result) is not None:
            wide = array.dtype.itemsize > 2
            array = array.astype(np.float64 if wide else np.float32)
        self.register_buffer(name, torch.tensor(np.ascontiguousarray(array)))
        self.fixed[op.result] = name

    def weight(self, trained: Trained) -> Tensor:
        """
        Return the current value of a trained constant: real numbers, or stored integers if it is
        quantized. Weights are clamped to the integers that the compiler rounds to.
        """
        real = self.get_parameter(trained.parameter)
        if (mask := self.masks.get(trained.parameter)) is not None:
            real = real * self.get_buffer(mask)
        return real if trained.element is None else stored(real, trained.element, trained.low)

    def forward(
        self, inputs: Sequence[Tensor], features: Mapping[str, SSAValue] | None = None
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """
        Run the network on `inputs`. Return the outputs by name, and the intermediate values in
        `features`, by their names there, as real numbers.
        """
        values = {
            # Quantized values are integers in float tensors.
            value: x if quantized_element(value) is None else x.to(torch.float32)
            for value, x in zip(self.arguments, inputs, strict=True)
        }
        for value, trained in self.trained.items():
            values[value] = self.weight(trained)
        for value, name in self.fixed.items():
            values[value] = self.get_buffer(name)
        for op, compute in self.steps:
            values[op.results[0]] = compute(op, [values[operand] for operand in op.operands])
        outputs = {name: values[value] for name, value in self.results.items()}
        return outputs, {n: _real(values[v], v) for n, v in (features or {}).items()}

    def layer(self, name: str) -> SSAValue:
        """
        Return the value that the last operation of the layer `name` computes. Raise an `InputError`
        for an unknown name.
        """
        results = {n: op.results[0] for op, _ in self.steps for n in node_names(op)}
        if name not in results:
            raise InputError(f"there is no layer '{name}'{did_you_mean(name, list(results))}")
        return results[name]

    def by_layer(self, patterns: Mapping[str, float]) -> dict[str, float]:
        """
        Return a number for each layer with a name that matches one of `patterns` (with wildcards):
        the number of the first such pattern. Raise an `InputError` for a pattern without a match.
        """
        layers = {names[0]: names for op, _ in self.steps if (names := node_names(op))}
        found: dict[str, float] = {}
        for pattern, number in patterns.items():
            if any(pattern in known for known in layers.values()):
                found.setdefault(pattern, number)
                continue
            matched = [name for name, known in layers.items() if fnmatch.filter(known, pattern)]
            if not matched:
                self.layer(pattern)
            for name in matched:
                if not any(other in found for other in layers[name]):
                    found[name] = number
        return found

    def arrays(self) -> dict[graph.ConstantOp, Array]:
        """Return the trained constants as arrays of stored elements, by the constant operation."""
        found: dict[graph.ConstantOp, Array] = {}
        with torch.no_grad():
            for trained in self.trained.values():
                dtype = graph.numpy_dtype(graph.element_of(trained.constant.result))
                array = self.weight(trained).cpu().numpy().astype(dtype)
                # The addition converts minus zero to zero.
                found[trained.constant] = array + dtype.type(0)
        return found

    def probe(self, device: torch.device) -> None:
        """
        Execute two random samples as a batch and separately. Set `batched` to False if a batch is
        not possible, or if the results differ by more than a relative 1e-3.
        """
        generator = np.random.default_rng(0)
        samples = [
            [torch.tensor(_drawn(v, generator), device=device) for v in self.arguments]
            for _ in range(2)
        ]
        if any(not v.shape or v.shape[0] != 1 for v in samples[0]):
            self.batched = False
            return
        with torch.no_grad():
            separate = [self(sample)[0] for sample in samples]
            try:
                together, _ = self([torch.cat(pair) for pair in zip(*samples, strict=True)])
            except (RuntimeError, IndexError):
                self.batched = False
                return
        for name, found in together.items():
            expected = [outputs[name] for outputs in separate]
            shapes = [e.shape for e in expected]
            self.batched &= found.shape[:1] == (2,) and all(s[:1] == (1,) for s in shapes)
            self.batched = self.batched and torch.allclose(
                found, torch.cat(expected), rtol=1e-3, atol=1e-4, equal_nan=True
            )


def _drawn(value: SSAValue, generator: np.random.Generator) -> Array:
    dtype = graph.numpy_dtype(graph.element_of(value))
    numbers = generator.normal(size=graph.shape_of(value))
    if quantized_element(value) is not None:
        return (numbers * 30).round().clip(-128, 127).astype(np.float32)
    return numbers.astype(dtype)


def _meaning(op: Operation) -> TorchFunction:
    if isinstance(op, graph.GraphOperation) and op.is_quantized and type(op) in INTEGER_MEANINGS:
        return INTEGER_MEANINGS[type(op)]
    if isinstance(op, graph.QuantizeOp | graph.DequantizeOp | graph.RequantizeOp):
        return INTEGER_MEANINGS[type(op)]
    return MEANINGS[type(op)]


def _refuse(ops: Sequence[Operation]) -> None:
    known = {*MEANINGS, *INTEGER_MEANINGS, graph.ConstantOp}
    findings = [
        Finding(node_name(op), op.name, "unsupported by retraining: no implementation in torch")
        for op in ops
        if type(op) not in known
    ]
    if findings:
        raise UnsupportedError(findings)


def _real(x: Tensor, value: SSAValue) -> Tensor:
    element = quantized_element(value)
    if element is None:
        return x
    points = torch.tensor(integer.zero_points(element, x.ndim), device=x.device)
    return (x - points) * scales(element, x.ndim, x)
