"""Set weights of convolutions and matrix products to zero."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf, isnan
from typing import TYPE_CHECKING, Literal, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects.graph import ConstantOp, LinearOperation
from ceras_ir.dialects.sparse import MASK, MaskAttr
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import (
    InputError,
    UnsupportedError,
    did_you_mean,
    node_name,
    node_names,
    remark,
)
from ceras_ir.transforms.rebuilding import erase_unused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ceras_ir.transforms.pruning.kept_weights import Kept, PruningRule, Table, Weights

    Array = NDArray[np.generic]

Method: TypeAlias = Literal["magnitude", "filter", "global", "nm", "block"]

MAX_BUDGET_REDUCTIONS = 32
"""The maximum number of reductions of a modelled budget to meet the measured target."""

MAX_BUDGET_FACTOR = 0.95
"""The maximum factor of such a reduction."""


@dataclass(frozen=True)
class PrunePass(ModulePass):
    """
    Set the least important constant float weights of layers to zero, and record a mask of the kept
    weights on each layer, `sparse.mask`. Biases are not pruned.

    The number of zeros follows from one of these options: `threshold` (the default), a share of
    each layer (`sparsity`, `ratios`), or a limit for the network (`target-bytes`,
    `target-products`, `target-loss`). For a limit, the pass estimates the noise at the outputs of
    the network that zeros in each layer cause, chooses a share for each layer, and prints the
    choice to stderr.

    Not exact: products with a pruned weight are missing from sums. Idempotent except for limits,
    because zeros have the smallest magnitude.

    Before, with `sparsity=0.5`:

        %w = graph.constant dense<[[1.0, 0.2], [-0.1, 3.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
        %y = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>

    After:

        %w = graph.constant dense<[[1.0, 0.0], [0.0, 3.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
        %y = graph.matmul %x, %w {sparse.mask = #sparse.mask<2 of [2, 2], "0x09">}
            : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    """

    name = "prune"

    method: Method = "magnitude"
    """
    The choice of the pruned weights. magnitude: the smallest of a layer; filter: the smallest, the
    same number in each filter, so that all filters have the same number of non-zeros (paper S5);
    block: blocks with the smallest mean square; nm: all but the N largest of each M products of a
    filter; global: the smallest of all layers together.
    """
    threshold: float = 0.01
    """The magnitude below which weights become zero; 0.01 in paper S4."""
    sparsity: float | None = None
    """
    Instead of `threshold`: prune the `floor(sparsity * size)` smallest magnitudes of each layer (or
    filter), the first of equal magnitudes.
    """
    ratios: tuple[str, ...] = ()
    """
    NAME:SHARE for layers by name or pattern (`stage*:0.9`); the first match is used. Other layers
    have the share `sparsity`, or are not pruned.
    """
    pattern: str = "2:4"
    """N:M of method nm."""
    block: str = "1x4"
    """FILTERSxPRODUCTS of method block."""
    target_bytes: int | None = None
    """The maximum bytes of all encoded weights."""
    target_products: int | None = None
    """The maximum number of products with non-zeros per inference."""
    target_loss: float | None = None
    """The minimum signal-to-noise ratio in decibels at the outputs, measured on the samples."""
    calibration: str | None = None
    """The file of samples (.npz) for a target; synthetic samples without it."""
    samples: int = 4
    """The number of samples for a target."""
    bits: int | None = None
    """The width of weights for `target-bytes`; by default 32, or 8 before quantization."""

    def __post_init__(self) -> None:
        if isnan(self.threshold) or not 0.0 <= self.threshold < inf:
            raise ValueError(f"threshold must be at least 0 and finite, got {self.threshold}")
        for share in (self.sparsity, *(share for _, share in self.shares)):
            if share is not None and not 0.0 <= share < 1.0:
                raise ValueError(f"sparsity must be in [0, 1), got {share}")
        targets = [self.target_bytes, self.target_products, self.target_loss]
        given = [target for target in targets if target is not None]
        if len(given) > 1:
            raise ValueError("give only one of target-bytes, target-products and target-loss")
        if any(not 0 < target < inf for target in given):
            raise ValueError(f"a target must be positive, got {given[0]:g}")
        how_many = bool(given) + bool(self.sparsity is not None or self.ratios)
        if how_many > 1:
            raise ValueError("a target determines the shares; omit sparsity and ratios")
        if self.method == "nm" and how_many:
            raise ValueError("method nm has the share of the pattern; omit sparsity and ratios")
        if self.method == "global" and (self.ratios or given or self.sparsity is None):
            raise ValueError("method global needs sparsity, the share of all layers together")
        if self.method in ("filter", "block") and not how_many:
            raise ValueError(f"method {self.method} needs sparsity, ratios or a target")
        if self.bits not in (None, 8, 16, 32):
            raise ValueError(f"bits must be 8, 16 or 32, got {self.bits}")
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, got {self.samples}")
        if self.method == "nm":
            n, m = self._pair(self.pattern, ":", "pattern", "N:M")
            if n >= m:
                raise ValueError(f"pattern must be N:M with N below M, got '{self.pattern}'")
        self._pair(self.block, "x", "block", "FILTERSxPRODUCTS")

    @staticmethod
    def _pair(text: str, separator: str, option: str, form: str) -> tuple[int, int]:
        first, _, second = text.partition(separator)
        if not (first.isdecimal() and second.isdecimal() and int(first) and int(second)):
            raise ValueError(f"{option} must be {form} of positive numbers, got '{text}'")
        return int(first), int(second)

    @property
    def shares(self) -> list[tuple[str, float]]:
        """The pairs of the option `ratios`: a pattern of layer names, and the share of zeros."""
        found: list[tuple[str, float]] = []
        for entry in self.ratios:
            name, colon, share = entry.rpartition(":")
            try:
                found.append((name, float(share)))
            except ValueError:
                colon = ""
            if not colon or not name:
                raise ValueError(f"ratios must be NAME:SHARE, got '{entry}'")
        return found

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        layers = prunable(op)
        if not layers:
            return
        apply_masks(layers, self._masks(op, layers))

    def _masks(self, module: ModuleOp, layers: Sequence[LinearOperation]) -> list[Kept]:
        from ceras_ir.transforms.pruning import kept_weights

        weights = [_weights(layer) for layer in layers]
        if self.method == "nm":
            n, m = self._pair(self.pattern, ":", "pattern", "N:M")
            return [kept_weights.n_of_m(w, n, m) for w in weights]
        if self.method == "global":
            assert self.sparsity is not None
            return kept_weights.over_all(weights, self.sparsity)
        if self.target_bytes or self.target_products or self.target_loss:
            shares = self._target_shares(module, layers)
        elif self.sparsity is None and not self.ratios:
            return [kept_weights.above(w, self.threshold) for w in weights]
        else:
            shares = self._given_shares(layers)
        rule = self._rule
        return [rule(w, share) for w, share in zip(weights, shares, strict=True)]

    @property
    def _rule(self) -> PruningRule:
        from ceras_ir.transforms.pruning import kept_weights

        if self.method == "filter":
            return kept_weights.by_filter
        if self.method == "block":
            block = self._pair(self.block, "x", "block", "FILTERSxPRODUCTS")
            return partial(kept_weights.in_blocks, block=block)
        return kept_weights.by_magnitude

    def _given_shares(self, layers: Sequence[LinearOperation]) -> list[float]:
        """
        Return the share of zeros of each layer: the share of the first pattern in `ratios` that
        matches a name of the layer, or else `sparsity`. A pattern without a match is an error.
        """
        from fnmatch import fnmatchcase

        patterns = self.shares
        names = [node_names(layer) or [node_name(layer)] for layer in layers]
        for pattern, _ in patterns:
            if not any(fnmatchcase(name, pattern) for each in names for name in each):
                known = [each[0] for each in names]
                hint = did_you_mean(pattern, known) or f" (layers: {', '.join(known[:12])})"
                raise InputError(f"{self.name}: no layer is called '{pattern}'{hint}")
        return [
            next(
                (share for p, share in patterns if any(fnmatchcase(name, p) for name in each)),
                self.sparsity or 0.0,
            )
            for each in names
        ]

    def _target_shares(self, module: ModuleOp, layers: Sequence[LinearOperation]) -> list[float]:
        """
        Return the share of zeros of each layer that meets the target with the smallest noise or,
        for `target-loss`, the fewest bytes.
        """
        import numpy as np

        from ceras_ir.transforms.pruning.kept_weights import (
            SHARES,
            best_within,
            encoded_bytes,
            losses,
            noise,
            outputs,
        )
        from ceras_ir.transforms.quantization.analysis.output_noise import quantities_of_outputs

        samples = self._samples(module)
        table = losses(module, samples, layers, self._rule)
        shares = np.array(SHARES)
        item = (self.bits or 32) // 8
        sizes = np.array([_weights(layer).size for layer in layers])
        costs = encoded_bytes(sizes, shares, item)
        if self.target_products:
            costs = np.array([[float(layer.macs)] for layer in layers]) * (1 - shares)
        budget = float(self.target_bytes or self.target_products or 0)
        if self.target_loss:
            budget = 10 ** (-self.target_loss / 10)
        dense, goal = outputs(module, samples), budget
        quantities = quantities_of_outputs(main_function(module))
        for _ in range(MAX_BUDGET_REDUCTIONS):
            values, limits = (costs, table) if self.target_loss else (table, costs)
            chosen = best_within(values, limits, budget)
            if chosen is None:
                break
            pruned = module.clone()
            copies = prunable(pruned)
            picked = [SHARES[i] for i in chosen]
            kept = [self._rule(_weights(o), s) for o, s in zip(copies, picked, strict=True)]
            apply_masks(copies, kept)
            left = noise(dense, outputs(pruned, samples), quantities)
            if self.target_loss and isnan(left):
                raise InputError(
                    "target-loss needs two or more samples for which the outputs differ; give "
                    "calibration data, or raise the option 'samples'"
                )
            reached = self._reached(copies, kept, left, item)
            if reached <= goal:
                self._report_choice(layers, picked, left, reached)
                return picked
            budget *= min(MAX_BUDGET_FACTOR, goal / reached)
        raise UnsupportedError(self._impossible(costs))

    def _reached(
        self, layers: Sequence[LinearOperation], kept: Sequence[Kept], left: float, item: int
    ) -> float:
        """
        Return the quantity that the target limits, measured on pruned layers: bytes of weights,
        products, or the noise-to-signal ratio `left`. `item` is the bytes of a weight.
        """
        import numpy as np

        if self.target_loss:
            return left
        if self.target_products:
            shares = [float(np.mean(k)) for k in kept]
            return sum(o.macs * share for o, share in zip(layers, shares, strict=True))
        return float(sum(smallest_bytes(k, item) for k in kept))

    def _impossible(self, costs: Table) -> str:
        if self.target_loss:
            return (
                f"unsupported target: no shares of zeros keep {self.target_loss:g} dB of signal "
                "over noise; choose a lower target-loss"
            )
        target = self.target_bytes or self.target_products
        unit = "products" if self.target_products else "bytes"
        min_cost = int(costs.min(axis=1).sum())
        return (
            f"unsupported target: {target:,} {unit} are fewer than the {min_cost:,} that remain "
            "with 99% zeros in each layer; choose a larger target, or smaller layers"
        )

    def _samples(self, module: ModuleOp) -> list[Mapping[str, Array]]:
        from ceras_ir.data.sample_stream import synthetic_samples
        from ceras_ir.transforms.quantization.analysis.calibration import calibration_samples

        if self.calibration is not None:
            return list(calibration_samples(module, self.calibration, self.samples, "weighing"))
        remark(
            f"{self.name}: warning: layers are weighed on {self.samples} synthetic samples; give "
            "calibration=FILE.npz for real samples"
        )
        return list(synthetic_samples(main_function(module), self.samples, 0))

    def _report_choice(
        self, layers: Sequence[LinearOperation], shares: Sequence[float], left: float, cost: float
    ) -> None:
        from ceras_ir.transforms.quantization.analysis.output_noise import decibel_text, decibels

        named = [f"{node_name(o)} {s:.0%}" for o, s in zip(layers, shares, strict=True)]
        cost_text = "" if self.target_loss else f"{cost:,.0f} "
        unit = "" if self.target_loss else "products, " if self.target_products else "bytes, "
        shown = ", ".join(named[:24]) + (", ..." if len(named) > 24 else "")
        remark(
            f"{self.name}: note: {cost_text}{unit}{decibel_text(decibels(1.0, left))} of signal "
            f"over noise at the outputs before retraining: {shown}"
        )


def smallest_bytes(kept: Kept, item: int) -> int:
    """
    Return the bytes of the weights of a layer in the smallest encoding: all weights, a bitmap, or
    positions. `kept` is true for weights other than zero, and a weight has `item` bytes.
    """
    import numpy as np
    from xdsl.dialects.builtin import i8

    from ceras_ir.dialects.sparse import CooAttr

    count = int(np.count_nonzero(kept))
    found = [kept.size * item, count * item + -(-kept.size // 8)]
    if 0 < count < kept.size:
        gap = (kept.size // count).bit_length()
        for width in range(max(gap - 1, 1), gap + 3):
            coo = CooAttr.of(kept.astype(np.int8), i8, width)
            listed = len(coo.values.data)
            found.append(coo.nbytes + listed * (item - 1))
    return min(found)


def prunable(module: ModuleOp) -> list[LinearOperation]:
    """
    Return the layers with weights that can be pruned: float convolutions and matrix products with
    constant weights.
    """
    return [
        op
        for op in main_function(module).body.block.ops
        if isinstance(op, LinearOperation)
        and not op.is_quantized
        and op.weight_scale is None
        and isinstance(op.weights.owner, ConstantOp)
        and not op.weights.owner.is_elided
    ]


def apply_masks(layers: Sequence[LinearOperation], kept: Sequence[Kept]) -> None:
    """
    Set the weights at which `kept` is false to zero, and record `kept` as the mask of each layer.
    If layers share a constant, the mask of the first layer applies to all of them.
    """
    import numpy as np

    pruned: dict[ConstantOp, tuple[ConstantOp, Kept]] = {}
    for layer, mask in zip(layers, kept, strict=True):
        constant = layer.weights.owner
        assert isinstance(constant, ConstantOp)
        if constant not in pruned:
            weights = np.where(mask, _weights(layer), np.float32(0))
            new = ConstantOp.from_array(weights, location=constant.location)
            Rewriter.insert_op(new, InsertPoint.after(constant))
            pruned[constant] = new, mask
        new, first_mask = pruned[constant]
        layer.operands[1] = new.result
        layer.attributes[MASK] = MaskAttr.of(first_mask)
    for constant in pruned:
        erase_unused(constant)


def _weights(layer: LinearOperation) -> Weights:
    import numpy as np

    constant = layer.weights.owner
    assert isinstance(constant, ConstantOp)
    return constant.array().astype(np.float32)
