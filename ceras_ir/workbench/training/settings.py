"""What a training run is told, as data; two runs with equal settings give equal weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import cos, pi
from typing import Literal, TypeAlias

from ceras_ir.support.diagnostics import UsageError

CHECKPOINT = ".checkpoint"
"""What the name of a run's checkpoint has behind that of its output."""

HARD_SWISH = "hardswish"
"""The only form of SiLU that is for floats too."""

Schedule: TypeAlias = Literal["cosine", "step", "constant"]
Optimizer: TypeAlias = Literal["adam", "sgd"]


@dataclass(frozen=True)
class Settings:
    """Options of `ceras-retrain` that change the weights."""

    epochs: int = 30
    batch: int = 8
    optimizer: Optimizer = "adam"
    rate: float = 1e-3
    channel_rates: bool = False
    """Steps are shares of the size that the weights of an output channel had before training."""
    schedule: Schedule = "cosine"
    step_epochs: int = 10
    step_factor: float = 0.1
    weight_decay: float = 0.0
    alphas: Mapping[str, float] = field(default_factory=dict[str, float])
    """Layers of the soft loss, by name or pattern, and the weight of each."""
    relative: bool = False
    """Each soft loss is a share of the mean square of the dense network's feature map."""
    beta: float = 1.0
    """The weight of the hard loss."""
    balance: bool = False
    """Rare classes count as much as frequent ones."""
    flip: bool = False
    """Half of the images of an epoch are mirrored."""
    patience: int | None = None
    """Epochs without a better score on the validation data until training ends."""
    seed: int = 0

    def __post_init__(self) -> None:
        counts = {
            "epochs": self.epochs,
            "batch-size": self.batch,
            "step-epochs": self.step_epochs,
            "patience": 1 if self.patience is None else self.patience,
        }
        for name, count in counts.items():
            if count < 1:
                raise UsageError(f"--{name} must be at least 1, got {count}")
        reals = {
            "rate": self.rate,
            "step-factor": self.step_factor,
            "weight-decay": self.weight_decay,
            "beta": self.beta,
        }
        for name, real in reals.items():
            if not 0.0 <= real < float("inf"):
                raise UsageError(f"--{name} must be at least 0 and finite, got {real}")

    def rate_at(self, step: int, steps: int) -> float:
        """The learning rate of one of all steps of `epochs` epochs of `steps` steps."""
        match self.schedule:
            case "cosine":
                return self.rate * 0.5 * (1 + cos(pi * step / (self.epochs * steps)))
            case "step":
                return self.rate * self.step_factor ** (step // steps // self.step_epochs)
            case "constant":
                return self.rate
