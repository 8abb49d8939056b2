"""
Compute the loss of a training step, and the score of a network.

The loss is that of paper S5: `beta * hard + 1/M * sum of alpha_j * mean((s_j - t_j)^2)` over M
layers. `hard` is the loss for labels; `s_j` and `t_j` are feature maps of the trained and of the
dense network. A larger score is better.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from ceras_ir.support.diagnostics import InputError

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false


IGNORED = -100
"""The label of elements that do not count."""
MIN_LOG_PROBABILITY = 1e-12
"""Smaller probabilities are clamped before the logarithm."""


def class_scores(output: Tensor, labels: Tensor) -> Tensor:
    """
    Return `output` as scores [N, classes] for labels [N], or as [N, classes, H, W] for labels
    [N, H, W]. NHWC outputs are transposed, and outputs of another height and width are resized
    linearly, as the application does after the network.
    """
    if labels.ndim == 1:
        if output.numel() // len(output) == output.shape[-1] or output.ndim == 2:
            return output.reshape(len(output), -1)
        return output.flatten(1)
    if output.ndim != 4:
        raise InputError(
            f"labels of pixels require an output [N, classes, H, W], got {list(output.shape)}"
        )
    size = labels.shape[1:]
    if output.shape[1:3] == size and output.shape[2:] != size:
        output = output.permute(0, 3, 1, 2)
    if output.shape[2:] != size:
        output = functional.interpolate(output, size=size, mode="bilinear", align_corners=False)
    return output


def hard_loss(
    output: Tensor, labels: Tensor, *, probabilities: bool, weights: Tensor | None = None
) -> Tensor:
    """
    Return the loss for labels: the cross entropy for integer labels (`weights` are factors of
    classes), or the mean squared error for floats. With `probabilities`, `output` has been through
    a softmax. Labels of classes that the output does not have are ignored.
    """
    if labels.is_floating_point():
        if output.shape != labels.shape:
            raise InputError(
                f"labels have shape {list(labels.shape)}, the output {list(output.shape)}"
            )
        return functional.mse_loss(output, labels)
    scores = class_scores(output, labels)
    known = (labels >= 0) & (labels < scores.shape[1])
    judged = torch.where(known, labels, IGNORED)
    if probabilities:
        scores = scores.clamp_min(MIN_LOG_PROBABILITY).log()
        return functional.nll_loss(scores, judged, weights, ignore_index=IGNORED)
    return functional.cross_entropy(scores, judged, weights, ignore_index=IGNORED)


def soft_loss(
    found: Mapping[str, Tensor],
    wanted: Mapping[str, Tensor],
    alphas: Mapping[str, float],
    factors: Mapping[str, Tensor],
) -> Tensor:
    """
    Return the mean over layers of alpha times the mean squared error of the feature map in `found`
    against that in `wanted`, the dense network. `alphas` has the weight of each layer; feature maps
    of layers in `factors` are first multiplied by these numbers per channel.
    """
    errors = [
        alphas[n] * functional.mse_loss(found[n] * factors[n] if n in factors else found[n], w)
        for n, w in ((n, wanted[n]) for n in alphas)
    ]
    return torch.stack(errors).sum() / len(errors)


class Score:
    """
    Accumulates the score of a network over batches: mean intersection over union for labels of
    pixels, accuracy for labels of samples, or the negative mean squared error for float labels.
    Larger is better.
    """

    def __init__(self) -> None:
        self.name = "loss"
        self.confusion: Tensor | None = None
        """
        The number of elements with each label and each prediction, with axes [labels, predictions].
        """
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
        """
        Return, for each class, the intersection over union of labelled and predicted pixels; NaN
        for classes without labels.
        """
        assert self.confusion is not None
        right = self.confusion.diagonal().to(torch.float64)
        union = self.confusion.sum(0) + self.confusion.sum(1) - right
        return torch.where(self.confusion.sum(1) > 0, right / union, torch.nan)

    def accuracy(self) -> float:
        """Return the fraction of samples or pixels with the correct class."""
        assert self.confusion is not None
        return float(self.confusion.diagonal().sum() / self.confusion.sum())

    def value(self) -> float:
        """
        Return the score that training maximizes: accuracy, mean intersection over union, or the
        negative mean squared error.
        """
        if self.confusion is None:
            return -self.squares / max(self.count, 1)
        return float(self.overlaps().nanmean()) if self.name == "mIoU" else self.accuracy()
