"""
Train two small networks of each of four kinds, to measure the loss from quantization on them:
segmentation with HardSwish, super-resolution, pitch, and keywords with batch norms of sub-bands.

    python benchmarks/trained_networks.py CAMVID FOLDER [--only NAME,...] [--minutes 1.2]

CAMVID is the folder of the dataset with `train`, `trainannot`, `test` and `testannot`. FOLDER gets
NAME.onnx, NAME-calibration.npz, NAME-test.npz and NAME-targets.npz for `trained_losses.py`. Results
depend on the seeds and on the number of steps that fit into the time. This needs torch and Pillow.
"""

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from trained_data import (
    CAR,
    NOTES,
    REGIONS,
    SAMPLES,
    UNKNOWN,
    WORDS,
    street_masks,
    street_pairs,
    tones,
    words,
)

CALIBRATED = 256
"""The number of inputs for calibration, from which a draw takes 64."""

Arrays = tuple[np.ndarray, np.ndarray]
Loss = Callable[[Tensor, Tensor], Tensor]


def layer(i: int, o: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """Return a convolution with batch norm."""
    padding = kernel // 2
    convolution = nn.Conv2d(i, o, kernel, stride, padding, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(o)]


def separable(i: int, o: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        *layer(i, i, 5, stride, i), nn.Hardswish(), *layer(i, o, 1), nn.Hardswish()
    )


class Residual(nn.Module):
    """The sum of the operand and of the result of layers."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


class MobileSegmenter(nn.Module):
    """Inverted bottlenecks with HardSwish, bilinear interpolation, and the sigmoid of a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(*layer(3, 16, 3, 2), nn.Hardswish())
        self.second = separable(16, 24, 2)
        self.third = separable(24, 40, 2)
        self.deep = nn.Sequential(*(self.bottleneck(40) for _ in range(3)))
        self.merge2, self.merge1 = nn.Conv2d(40, 24, 1), nn.Conv2d(24, 16, 1)
        self.up2, self.up1 = separable(24, 24), separable(16, 16)
        self.head = nn.Conv2d(16, 1, 3, padding=1)

    @staticmethod
    def bottleneck(width: int) -> nn.Module:
        wide = 3 * width
        inner = [*layer(width, wide, 1), nn.Hardswish(), *layer(wide, wide, 3, 1, wide)]
        return Residual(*inner, nn.Hardswish(), *layer(wide, width, 1))

    def forward(self, x: Tensor) -> Tensor:
        first = self.stem(2 * x - 1)
        second = self.second(first)
        deep = self.deep(self.third(second))
        y = self.up2(second + doubled(self.merge2(deep)))
        y = self.up1(first + doubled(self.merge1(y)))
        return torch.sigmoid(doubled(self.head(y)))


def doubled(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


class UNet(nn.Module):
    """A U-Net with HardSwish, transposed convolutions and the ArgMax of regions."""

    def __init__(self) -> None:
        super().__init__()
        widths = 12, 24, 48
        self.down = nn.ModuleList(
            nn.Sequential(*layer(i, o), nn.Hardswish(), *layer(o, o), nn.Hardswish())
            for i, o in zip((3, *widths), widths, strict=False)
        )
        self.grow = nn.ModuleList(nn.ConvTranspose2d(o, o // 2, 2, 2) for o in (48, 24))
        self.up = nn.ModuleList(nn.Sequential(*layer(o, o // 2), nn.Hardswish()) for o in (48, 24))
        self.head = nn.Conv2d(12, UNKNOWN, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down[0](x)
        second = self.down[1](functional.max_pool2d(first, 2))
        y = self.down[2](functional.max_pool2d(second, 2))
        for grow, up, skip in zip(self.grow, self.up, (second, first), strict=True):
            y = up(torch.cat([grow(y), skip], 1))
        scores = self.head(y)
        return scores if self.training else scores.argmax(1)


class Fsrcnn(nn.Module):
    """Super-resolution of brightness with PReLU and a transposed convolution, as FSRCNN."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(1, 32, 5, padding=2), nn.PReLU(32)]
        layers += [nn.Conv2d(32, 8, 1), nn.PReLU(8)]
        for _ in range(3):
            layers += [nn.Conv2d(8, 8, 3, padding=1), nn.PReLU(8)]
        layers += [nn.Conv2d(8, 32, 1), nn.PReLU(32)]
        self.inner = nn.Sequential(*layers, nn.ConvTranspose2d(32, 1, 8, 2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


class ShuffleResolution(nn.Module):
    """Super-resolution of colors by residual blocks, a pixel shuffle, and a bilinear skip."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        blocks = [
            Residual(
                nn.Conv2d(width, width, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(width, width, 3, padding=1),
            )
            for _ in range(3)
        ]
        first = nn.Conv2d(3, width, 3, padding=1)
        last = [nn.Conv2d(width, 12, 3, padding=1), nn.PixelShuffle(2)]
        self.inner = nn.Sequential(first, *blocks, *last)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + doubled(x)


def transform(size: int, bins: int) -> tuple[Tensor, Tensor]:
    """Return cosines and sines [size, bins] of a Fourier transform with a Hann window."""
    angle = 2 * np.pi * np.outer(np.arange(size), np.arange(bins)) / size
    window = np.hanning(size)[:, None] / np.sqrt(size)
    parts = np.cos(angle) * window, np.sin(angle) * window
    return torch.tensor(parts[0], dtype=torch.float32), torch.tensor(parts[1], dtype=torch.float32)


class DensePitch(nn.Module):
    """The spectrum of a frame by matrix products, a logarithm, dense layers and an ArgMax."""

    def __init__(self, bins: int = 384) -> None:
        super().__init__()
        for name, part in zip(("cosines", "sines"), transform(SAMPLES, bins), strict=True):
            self.register_buffer(name, part)
        self.inner = nn.Sequential(
            nn.Linear(bins, 96), nn.ReLU(), nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, NOTES)
        )

    def forward(self, x: Tensor) -> Tensor:
        power = (x @ self.cosines) ** 2 + (x @ self.sines) ** 2
        scores = self.inner(torch.log(power + 1e-6))
        return scores if self.training else scores.argmax(1)


class ConvolutionPitch(nn.Module):
    """The spectra of frames by a convolution, filters, a logarithm, and convolutions over time."""

    def __init__(self, size: int = 512, bins: int = 160, bands: int = 80) -> None:
        super().__init__()
        parts = torch.cat(transform(size, bins), 1).T[:, None]
        self.frames = nn.Conv1d(1, 2 * bins, size, 128, bias=False)
        self.frames.weight = nn.Parameter(parts, requires_grad=False)
        centers = np.geomspace(5, bins - 2, bands)
        bank = 1 - np.abs(np.arange(bins)[:, None] - centers) / np.maximum(centers / 24, 1)
        self.register_buffer("bank", torch.tensor(np.maximum(bank, 0), dtype=torch.float32))
        self.inner = nn.Sequential(
            nn.Conv1d(bands, 64, 3, padding=1),
            nn.ReLU(),
            nn.Conv1d(64, 64, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(64, NOTES),
        )

    def forward(self, x: Tensor) -> Tensor:
        real, imaginary = self.frames(x[:, None]).chunk(2, 1)
        power = (real**2 + imaginary**2).transpose(1, 2) @ self.bank
        scores = self.inner(torch.log(power.clamp(min=1e-7)).transpose(1, 2))
        return scores if self.training else scores.argmax(1)


class SubBandNorm(nn.Module):
    """A batch norm with a scale for each channel and sub-band of frequencies."""

    def __init__(self, channels: int, bands: int = 5) -> None:
        super().__init__()
        self.bands, self.norm = bands, nn.BatchNorm2d(channels * bands)

    def forward(self, x: Tensor) -> Tensor:
        n, c, f, t = x.shape
        return self.norm(x.view(n, c * self.bands, f // self.bands, t)).view(n, c, f, t)


class Broadcast(nn.Module):
    """A block of BC-ResNet: the mean over frequencies is processed over time and added to all."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.along = nn.Conv2d(width, width, (3, 1), padding=(1, 0), groups=width, bias=False)
        self.norm = SubBandNorm(width)
        padding, spread = (0, dilation), (1, dilation)
        self.over = nn.Conv2d(width, width, (1, 3), 1, padding, spread, width, bias=False)
        self.rest = nn.Sequential(nn.BatchNorm2d(width), nn.SiLU(), nn.Conv2d(width, width, 1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.along(x))
        return functional.relu(x + y + self.rest(self.over(y.mean(2, keepdim=True))))


class BroadcastKeywords(nn.Module):
    """Keywords as BC-ResNet."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 5, (2, 1), 2), SubBandNorm(width), nn.ReLU())
        self.blocks = nn.Sequential(*(Broadcast(width, 2**n) for n in range(4)))
        self.last = nn.Sequential(*layer(width, 32, 1), nn.ReLU())
        self.head = nn.Linear(32, WORDS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.last(self.blocks(self.stem(x))).mean((2, 3)))


class ConvolutionKeywords(nn.Module):
    """Keywords by convolutions, each with a batch norm of sub-bands."""

    def __init__(self, width: int = 20) -> None:
        super().__init__()
        layers: list[nn.Module] = [SubBandNorm(1, 8)]
        for i, stride in ((1, (2, 2)), (width, (1, 1)), (width, (2, 2)), (width, (1, 1))):
            layers += [nn.Conv2d(i, width, 3, stride, 1), SubBandNorm(width), nn.ReLU()]
        self.inner = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(width, WORDS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(x))


def cars(camvid: Path, part: str) -> Arrays:
    images, classes = street_masks(camvid, part)
    return images, (classes == CAR)[:, None].astype(np.float32)


def regions(camvid: Path, part: str) -> Arrays:
    images, classes = street_masks(camvid, part)
    return images, np.array(REGIONS)[classes]


def mask_loss(found: Tensor, wanted: Tensor) -> Tensor:
    shared = (found * wanted).sum((1, 2, 3)) + 1
    dice = 1 - (2 * shared / (found.sum((1, 2, 3)) + wanted.sum((1, 2, 3)) + 1)).mean()
    return functional.binary_cross_entropy(found.clamp(1e-6, 1 - 1e-6), wanted) + 0.3 * dice


def region_loss(found: Tensor, wanted: Tensor) -> Tensor:
    return functional.cross_entropy(found, wanted, ignore_index=UNKNOWN)


@dataclass(frozen=True)
class Task:
    """A network with data. `data(camvid, part, random, count)` returns inputs and targets."""

    network: Callable[[], nn.Module]
    data: Callable[[Path, str, np.random.Generator, int], Arrays]
    loss: Loss
    metric: str
    is_image: bool = False
    """Inputs and targets may be mirrored."""


def of_images(source: Callable[[Path, str], Arrays]) -> Callable[..., Arrays]:
    return lambda camvid, part, random, count: source(camvid, part)


def of_details(*, gray: bool) -> Callable[..., Arrays]:
    return lambda camvid, part, random, count: street_pairs(
        camvid, part, random, min(count, 1500), gray=gray
    )


def of_sound(source: Callable[[Any, int], Arrays]) -> Callable[..., Arrays]:
    return lambda camvid, part, random, count: source(random, count)


TASKS: Mapping[str, Task] = {
    "cars": Task(MobileSegmenter, of_images(cars), mask_loss, "IoU", True),
    "regions": Task(UNet, of_images(regions), region_loss, "mean IoU", True),
    "brightness": Task(Fsrcnn, of_details(gray=True), nn.MSELoss(), "PSNR", True),
    "colors": Task(ShuffleResolution, of_details(gray=False), nn.L1Loss(), "PSNR", True),
    "dense-pitch": Task(DensePitch, of_sound(tones), nn.CrossEntropyLoss(), "top-1"),
    "frames-pitch": Task(ConvolutionPitch, of_sound(tones), nn.CrossEntropyLoss(), "top-1"),
    "broadcast-words": Task(BroadcastKeywords, of_sound(words), nn.CrossEntropyLoss(), "top-1"),
    "sub-band-words": Task(ConvolutionKeywords, of_sound(words), nn.CrossEntropyLoss(), "top-1"),
}
TRAINED, TESTED = 16000, 1000


def train(network: nn.Module, task: Task, data: Arrays, minutes: float, batch: int) -> None:
    """Fit a network with AdamW in the given time; the rate falls as a cosine of the time."""
    inputs, targets = (torch.from_numpy(part) for part in data)
    optimizer = torch.optim.AdamW(network.parameters(), 3e-3, weight_decay=0.01)
    random, started, used, losses = np.random.default_rng(1), time.process_time(), 0.0, [0.0]
    network.train()
    while used < 1:
        for chosen in torch.from_numpy(random.permutation(len(inputs))).split(batch):
            x, y = inputs[chosen], targets[chosen]
            if task.is_image and random.random() < 0.5:
                x, y = x.flip(-1), y.flip(-1)
            loss = task.loss(network(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
            used = min((time.process_time() - started) / (60 * minutes), 1.0)
            for group in optimizer.param_groups:
                group["lr"] = 3e-3 * (0.5 + 0.5 * np.cos(np.pi * used)) * min(len(losses) / 50, 1)
    print(f"  {len(losses) - 1} steps, loss {np.mean(losses[-100:]):.4f}", flush=True)


def write(name: str, camvid: Path, folder: Path, minutes: float) -> None:
    """Train a network, and write the model and the data for quantization."""
    task, random = TASKS[name], np.random.default_rng(0)
    torch.manual_seed(0)
    network = task.network()
    data = task.data(camvid, "train", random, TRAINED)
    train(network, task, data, minutes, 8 if task.is_image else 64)
    network.eval()
    example = torch.from_numpy(data[0][:1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (example,),
            str(folder / f"{name}.onnx"),
            input_names=["input"],
            output_names=["output"],
            opset_version=17,
            dynamo=False,
        )
    test = task.data(camvid, "test", np.random.default_rng(2), TESTED)
    count = min(len(test[0]), 300) if task.is_image else TESTED
    chosen = random.permutation(len(data[0]))[:CALIBRATED]
    np.savez(folder / f"{name}-calibration.npz", input=data[0][chosen])
    np.savez(folder / f"{name}-test.npz", input=test[0][:count])
    np.savez(folder / f"{name}-targets.npz", targets=test[1][:count], metric=task.metric)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("camvid", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", help="names of networks, separated by commas")
    parser.add_argument("--minutes", type=float, default=1.2, help="of processor time, each")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.only.split(",") if arguments.only else TASKS:
        print(name, flush=True)
        write(name, arguments.camvid, arguments.folder, arguments.minutes)


if __name__ == "__main__":
    main()
