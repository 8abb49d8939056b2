"""Define the digits network, with an example of each structure that a compiler has to fuse.

It has 14 thousand parameters: Convolution + BatchNorm with ReLU, with SiLU, and inside a residual
block; pooling; a linear output layer.
"""

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn


def conv_bn(inputs: int, outputs: int) -> OrderedDict[str, nn.Module]:
    """Build a 3x3 convolution that keeps the image size, and its batch normalization."""
    return OrderedDict(
        conv=nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        norm=nn.BatchNorm2d(outputs),
    )


class SiLU(nn.Module):
    """Compute `x * sigmoid(x)`, written out because ONNX opset 13 has no such operator."""

    def forward(self, x: Tensor) -> Tensor:
        return x * x.sigmoid()


class Residual(nn.Module):
    """Compute `relu(x + norm(conv(x)))`."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(conv_bn(channels, channels))
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(x + self.branch(x))


def digits_network() -> nn.Sequential:
    """Map `[batch, 1, 8, 8]` pixels in [0, 1] to `[batch, 10]` logits."""
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            stem=nn.Sequential(conv_bn(1, 16) | {"relu": nn.ReLU()}),
            wide=nn.Sequential(conv_bn(16, 32) | {"silu": SiLU()}),
            pool=nn.MaxPool2d(2),
            residual=Residual(32),
            mean=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            linear=nn.Linear(32, 10),
        )
    )
