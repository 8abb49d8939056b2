"""Try recipes of quantization on the calibration data and keep the best."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from ceras_ir.analysis.network import main_function
from ceras_ir.analysis.quantizable import is_quantized
from ceras_ir.dialects import graph
from ceras_ir.transforms.recipes import RECIPE, TRIED, set_recipe

if TYPE_CHECKING:
    from ceras_ir.analysis.calibration import Array

CALIBRATE, JUDGE = 16, 8
"""On how many samples a trial is calibrated, and on how many others it is judged, at most."""

LARGEST = 1_000_000_000
"""Multiplications per inference from which trials would take minutes."""


@dataclass(frozen=True)
class ChooseRecipePass(ModulePass):
    """
    Quantize copies of a float network by each recipe that is worth trying, compare their
    outputs with the float network's on samples of `calibration=FILE.npz`, and write the one with
    the most signal to noise down as `graph.recipe`, which the optional passes of `quantize` obey.
    What was tried, and what it gave, is said on stderr.

    Trials calibrate on the first 16 samples and are judged on the 8 that follow, less where
    there are fewer. Without data nothing is done; nor, which stderr says, for networks of more
    than 10^9 multiplications, whose trials would take minutes. Changes no value.
    """

    name = "choose-recipe"

    calibration: str | None = None
    samples: int = 64

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if is_quantized(main) or self.calibration is None or RECIPE in main.attributes:
            return
        if _multiplications(main) > LARGEST:
            print(
                f"{self.name}: note: no recipes are tried on a network of this size; "
                f"recipe={TRIED[-1]} is worth a trial by hand",
                file=sys.stderr,
            )
            return
        from ceras_ir.analysis.calibration import calibration_samples
        from ceras_ir.interpreters.network import run

        samples = list(
            calibration_samples(
                op, self.calibration, min(self.samples, CALIBRATE + JUDGE), "reading"
            )
        )
        # Judging on what was calibrated on flatters; where there is little data it must do.
        judged = samples[CALIBRATE:] or samples[-JUDGE:]
        expected = [run(op, sample) for sample in judged]
        ratios: dict[str, float] = {}
        for recipe in TRIED:
            ratios[recipe] = self._trial(ctx, op.clone(), recipe, judged, expected)
        best = max(ratios, key=lambda recipe: ratios[recipe])
        set_recipe(main, best)
        text = ", ".join(f"{recipe} {ratio:.1f} dB" for recipe, ratio in ratios.items())
        print(
            f"{self.name}: note: recipe {best}, {ratios[best] - ratios[TRIED[0]]:.1f} dB above "
            f"{TRIED[0]} ({text} on {len(judged)} samples)",
            file=sys.stderr,
        )

    def _trial(
        self,
        ctx: Context,
        module: ModuleOp,
        recipe: str,
        samples: "list[Mapping[str, Array]]",
        expected: "list[dict[str, Array]]",
    ) -> float:
        """Signal to noise of all outputs, each with the same weight, after one recipe."""
        import numpy as np

        from ceras_ir.interpreters.network import run
        from ceras_ir.transforms.quantize import QuantizePass

        count = min(CALIBRATE, self.samples)
        QuantizePass(self.calibration, count, recipe=recipe).apply(ctx, module)
        shares: list[float] = []
        results = [run(module, sample) for sample in samples]
        for name in expected[0]:
            real = np.stack([e[name] for e in expected]).astype(np.float64)
            error = np.stack([r[name] for r in results]).astype(np.float64) - real
            shares.append(float(np.square(error).sum() / max(np.square(real).sum(), 1e-300)))
        return -10 * float(np.log10(max(np.mean(shares), 1e-30)))


def _multiplications(main: FuncOp) -> int:
    return sum(op.macs for op in main.body.block.ops if isinstance(op, graph.LinearOperation))
