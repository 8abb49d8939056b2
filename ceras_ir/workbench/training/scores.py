"""How good a network is on examples that it was not trained on; the greater the better."""

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import torch
from torch import Tensor

from ceras_ir.workbench.training.losses import class_scores


class Score:
    """Mean IoU for labels of pixels, top-1 for those of samples, minus squared error for others."""

    def __init__(self) -> None:
        self.name = "loss"
        self.confusion: Tensor | None = None
        """Labels by what was found."""
        self.squares, self.count = 0.0, 0

    def add(self, output: Tensor, labels: Tensor) -> None:
        if labels.is_floating_point():
            self.name = "-mse"
            self.squares += float(((output - labels).to(torch.float64) ** 2).sum())
            self.count += labels.numel()
            return
        self.name = "top-1" if labels.ndim == 1 else "mIoU"
        scores = class_scores(output, labels)
        classes = scores.shape[1]
        judged = (labels >= 0) & (labels < classes)
        pairs = labels[judged] * classes + scores.argmax(1)[judged]
        counts = torch.bincount(pairs, minlength=classes**2).reshape(classes, classes).cpu()
        self.confusion = counts if self.confusion is None else self.confusion + counts

    def overlaps(self) -> Tensor:
        """Intersection over union of each class; NaN of one that no label has."""
        assert self.confusion is not None
        right = self.confusion.diagonal().to(torch.float64)
        union = self.confusion.sum(0) + self.confusion.sum(1) - right
        return torch.where(self.confusion.sum(1) > 0, right / union, torch.nan)

    def accuracy(self) -> float:
        """The share of samples or pixels that are right."""
        assert self.confusion is not None
        return float(self.confusion.diagonal().sum() / self.confusion.sum())

    def value(self) -> float:
        """The figure that early stopping looks at."""
        if self.confusion is None:
            return -self.squares / max(self.count, 1)
        return float(self.overlaps().nanmean()) if self.name == "mIoU" else self.accuracy()
