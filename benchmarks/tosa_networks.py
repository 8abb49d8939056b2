"""
Compare networks that torch-mlir lowers to TOSA with the same modules exported to ONNX.

    python -m venv lowering; lowering/bin/pip install torch torch-mlir onnx onnxscript
    lowering/bin/python benchmarks/tosa_networks.py --write FOLDER
    python benchmarks/tosa_networks.py FOLDER

The first form writes `NAME.tosa.mlir`, `NAME.onnx` and seeded inputs `NAME.npz` with the results of
PyTorch. The second form imports both files and prints the signal-to-noise ratio of the interpreter
for the TOSA text against the ONNX file and against PyTorch, and whether C equals within rounding.
The exit status is 1 below 100 dB.
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOOR_DB = 100.0
"""The ratio that float32 rounding leaves in networks of a hundred layers."""

SAMPLES = 1


def modules(torch: Any) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Return modules with random weights, and the shapes of their inputs."""
    nn = torch.nn

    class Block(nn.Module):
        """An inverted residual block of MobileNetV2."""

        def __init__(self, inputs: int, outputs: int, stride: int, expansion: int):
            nn.Module.__init__(self)
            hidden = inputs * expansion
            layers: list[Any] = []
            if expansion > 1:
                layers += [nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden)]
                layers.append(nn.ReLU6())
            layers += [
                nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
                nn.BatchNorm2d(hidden),
                nn.ReLU6(),
                nn.Conv2d(hidden, outputs, 1, bias=False),
                nn.BatchNorm2d(outputs),
            ]
            self.layers = nn.Sequential(*layers)
            self.is_residual = stride == 1 and inputs == outputs

        def forward(self, x: Any) -> Any:
            y = self.layers(x)
            return x + y if self.is_residual else y

    settings = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip
    layers: list[Any] = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
    channels = 32
    for expansion, outputs, count, stride in settings:
        for i in range(count):
            layers.append(Block(channels, outputs, stride if i == 0 else 1, expansion))
            channels = outputs
    layers += [nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    mobilenet = nn.Sequential(*layers)

    class Attention(nn.Module):
        def __init__(self, width: int, heads: int):
            nn.Module.__init__(self)
            self.heads = heads
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            n, tokens, width = x.shape
            parts = self.qkv(x).reshape(n, tokens, 3, self.heads, width // self.heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            scores = (q @ k.transpose(-2, -1)) * (width // self.heads) ** -0.5
            mixed = scores.softmax(-1) @ v
            return self.out(mixed.transpose(1, 2).reshape(n, tokens, width))

    class Layer(nn.Module):
        def __init__(self, width: int, heads: int):
            nn.Module.__init__(self)
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = Attention(width, heads)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.first(x))
            return x + self.mlp(self.second(x))

    class Transformer(nn.Module):
        """A vision transformer."""

        def __init__(self, size: int = 64, patch: int = 8, width: int = 96, depth: int = 4):
            nn.Module.__init__(self)
            self.patches = nn.Conv2d(3, width, patch, patch)
            self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
            count = (size // patch) ** 2 + 1
            self.places = nn.Parameter(torch.randn(1, count, width) * 0.02)
            self.layers = nn.Sequential(*(Layer(width, 3) for _ in range(depth)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
            return self.head(self.norm(self.layers(x))[:, 0])

    return {
        "mobilenet_v2": (mobilenet, (1, 3, 96, 96)),
        "vit": (Transformer(), (1, 3, 64, 64)),
    }


def write(folder: Path) -> None:
    torch: Any = import_module("torch")
    fx: Any = import_module("torch_mlir.fx")
    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    for name, (module, shape) in modules(torch).items():
        for each in module.modules():
            if isinstance(each, torch.nn.BatchNorm2d):
                each.running_mean.normal_(0, 0.1)
                each.running_var.uniform_(0.5, 1.5)
        module.eval()
        x = torch.randn(*shape)
        text = fx.export_and_import(module, x, output_type="tosa", func_name="main")
        (folder / f"{name}.tosa.mlir").write_text(str(text))
        torch.onnx.export(module, (x,), str(folder / f"{name}.onnx"), dynamo=True,
                          external_data=False)  # fmt: skip
        with torch.no_grad():
            expected = module(x).numpy()
        np.savez(folder / f"{name}.npz", x=x.numpy(), expected=expected)
        print(name, (folder / f"{name}.tosa.mlir").stat().st_size, "bytes")


def decibels(found: NDArray[np.generic], expected: NDArray[np.generic]) -> float:
    a, b = found.astype(np.float64).reshape(-1), expected.astype(np.float64).reshape(-1)
    noise = float(((a - b) ** 2).mean())
    return float("inf") if noise == 0 else float(10 * np.log10((b**2).mean() / noise))


def compare(folder: Path) -> int:
    from ceras_ir.frontends import onnx, tosa
    from ceras_ir.interpreters.network import run
    from ceras_ir.network.function import input_names, main_function

    worst = float("inf")
    for path in sorted(folder.glob("*.tosa.mlir")):
        name = path.name.removesuffix(".tosa.mlir")
        arrays = np.load(folder / f"{name}.npz")
        start = time.perf_counter()
        module = tosa.import_file(str(path))
        seconds = time.perf_counter() - start
        results: list[NDArray[np.generic]] = []
        for each in (module, onnx.import_file(folder / f"{name}.onnx")):
            (label,) = input_names(main_function(each))
            results.append(next(iter(run(each, {label: arrays["x"]}).values())))
        ratios = decibels(*results), decibels(results[0], arrays["expected"])
        worst = min(worst, *ratios)
        count = len(list(main_function(module).body.block.ops))
        print(
            f"{name:16} imported in {seconds:.1f} s, {count} operations; "
            f"{ratios[0]:.1f} dB against ONNX, {ratios[1]:.1f} dB against PyTorch"
        )
    return 1 if worst < FLOOR_DB else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="write the files, with PyTorch")
    arguments = parser.parse_args()
    if arguments.write:
        write(arguments.folder)
        return 0
    return compare(arguments.folder)


if __name__ == "__main__":
    sys.exit(main())
