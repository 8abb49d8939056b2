"""Train the dense network on images and labels, and export it to ONNX.

    python train.py DATA --validate DATA -o dense.onnx [--labels DIR] [--validate-labels DIR]

A folder has `images` and `labels`, unless an option names the labels. This needs torch and Pillow.
"""

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import torch
from network import street_network
from torch import Tensor, nn

from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.workbench.training.examples import Examples, load_examples
from ceras_ir.workbench.training.losses import Score, hard_loss


def tensors(examples: Examples) -> tuple[Tensor, Tensor]:
    """Stack the images and labels of all examples."""
    assert examples.labels is not None
    return torch.from_numpy(examples.inputs[0][:, 0]), torch.from_numpy(examples.labels)


def score_of(network: nn.Module, images: Tensor, labels: Tensor, batch: int) -> Score:
    """Return the score of a network on the examples."""
    score = Score()
    network.eval()
    with torch.no_grad():
        for x, y in zip(images.split(batch), labels.split(batch), strict=True):
            score.add(network(x), y)
    return score


def train(
    network: nn.Module, data: tuple[Tensor, Tensor], epochs: int, batch: int, rate: float, seed: int
) -> None:
    """Fit the network with AdamW and a cosine schedule; half of the images are mirrored."""
    images, labels = data
    steps = epochs * -(-len(images) // batch)
    optimizer = torch.optim.AdamW(network.parameters(), rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=steps)
    random = np.random.default_rng(seed)
    for epoch in range(epochs):
        network.train()
        losses = []
        for chosen in torch.from_numpy(random.permutation(len(images))).split(batch):
            x, y = images[chosen], labels[chosen]
            if random.random() < 0.5:
                x, y = x.flip(-1), y.flip(-1)
            loss = hard_loss(network(x), y, probabilities=False)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(float(loss.detach()))
        print(f"epoch {epoch + 1}/{epochs}: loss {np.mean(losses):.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("--labels")
    parser.add_argument("--validate", required=True)
    parser.add_argument("--validate-labels")
    parser.add_argument("-o", dest="output", type=Path, required=True)
    parser.add_argument("--size", default="96x128")
    parser.add_argument("--classes", type=int, default=6)
    parser.add_argument("--width", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    height, width = map(int, options.size.split("x"))
    inputs = [TensorInfo("image", (1, 3, height, width), "float32")]
    network = street_network(options.classes, options.width)
    data = tensors(load_examples(options.data, options.labels, inputs))
    train(network, data, options.epochs, options.batch, options.rate, options.seed)
    judged = load_examples(options.validate, options.validate_labels, inputs)
    score = score_of(network, *tensors(judged), options.batch)
    print(f"mIoU {score.value():.4f}, pixels right {score.accuracy():.4f}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            network,
            (torch.zeros(1, 3, height, width),),
            str(options.output),
            input_names=["image"],
            output_names=["scores"],
            dynamo=False,
        )


if __name__ == "__main__":
    main()
