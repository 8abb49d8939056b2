"""Define the settings of a training run. Runs with equal settings give equal weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import cos, pi
from typing import Literal, TypeAlias

from ceras_ir.support.diagnostics import UsageError

CHECKPOINT = ".checkpoint"
"""The suffix that the checkpoint adds to the name of the output."""

HARD_SWISH = "hardswish"
"""The only form of SiLU that is available for floats, too."""

RateSchedule: TypeAlias = Literal["cosine", "step", "constant"]
Optimizer: TypeAlias = Literal["adam", "sgd"]


@dataclass(frozen=True)
class Settings:
    """The options of `ceras-retrain` that influence the trained weights."""

    epochs: int = 30
    batch: int = 8
    optimizer: Optimizer = "adam"
    rate: float = 1e-3
    channel_rates: bool = False
    """
    Whether the step of each weight is multiplied by the initial size of the weights of the output
    channel.
    """
    schedule: RateSchedule = "cosine"
    step_epochs: int = 10
    step_factor: float = 0.1
    weight_decay: float = 0.0
    alphas: Mapping[str, float] = field(default_factory=dict[str, float])
    """The weights of the soft losses by layer name or pattern."""
    relative: bool = False
    """
    Whether each soft loss is divided by the mean square of the feature map of the dense network.
    """
    beta: float = 1.0
    """The weight of the hard loss."""
    balance: bool = False
    """Whether rare and frequent classes have equal weights in the loss."""
    flip: bool = False
    """Whether half of the images of an epoch are mirrored."""
    patience: int | None = None
    """The number of epochs without a better validation score after which training stops."""
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
                raise UsageError(f"--{name} must be >= 1, got {count}")
        reals = {
            "rate": self.rate,
            "step-factor": self.step_factor,
            "weight-decay": self.weight_decay,
            "beta": self.beta,
        }
        for name, real in reals.items():
            if not 0.0 <= real < float("inf"):
                raise UsageError(f"--{name} must be >= 0 and finite, got {real}")

    def rate_at(self, step: int, steps: int) -> float:
        """
        Return the learning rate of training step `step`, which counts from 0 over all epochs. An
        epoch has `steps` steps.
        """
        match self.schedule:
            case "cosine":
                return self.rate * 0.5 * (1 + cos(pi * step / (self.epochs * steps)))
            case "step":
                return self.rate * self.step_factor ** (step // steps // self.step_epochs)
            case "constant":
                return self.rate
