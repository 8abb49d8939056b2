"""Define S5's network for street scenes: seven convolutions, with scores at 1/16 of the size."""

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from collections import OrderedDict

from torch import nn

LAYERS = (
    (64, 11, 4, 2, True),
    (64, 5, 1, 2, True),
    (128, 3, 1, 1, False),
    (128, 3, 1, 1, False),
    (128, 3, 1, 1, False),
    (128, 1, 1, 0, False),
)
"""Filters, window, stride, padding, and whether max pooling of 3x3 with stride 2 follows."""


def street_network(classes: int, width: float = 1.0) -> nn.Sequential:
    """Map `[batch, 3, H, W]` to scores `[batch, classes, h, w]`; `width` scales the filters."""
    layers, channels = OrderedDict[str, nn.Module](), 3
    for n, (filters, kernel, stride, padding, pooled) in enumerate(LAYERS):
        count = max(8, round(filters * width))
        layers[f"conv{n}"] = nn.Conv2d(channels, count, kernel, stride, padding, bias=False)
        layers[f"norm{n}"] = nn.BatchNorm2d(count)
        layers[f"relu{n}"] = nn.ReLU()
        if pooled:
            layers[f"pool{n}"] = nn.MaxPool2d(3, 2)
        channels = count
    layers[f"conv{len(LAYERS)}"] = nn.Conv2d(channels, classes, 1)
    return nn.Sequential(layers)
