"""Train the digits network and export it to ONNX with its held-out and calibration images.

This needs the `train` extra (torch, scikit-learn, onnxruntime); the demo does not need it. The same
versions of these packages on the same kind of processor give the same files, byte for byte.
"""

# Not strict: torch, scikit-learn and ONNX Runtime are an extra, and their types are partial.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import torch
from export import export_onnx
from network import digits_network
from rich.console import Console
from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional

CALIBRATION_IMAGES = 64
"""The number of training images that are committed for calibration."""


class Digits(NamedTuple):
    """Images `[N, 1, 8, 8]` in [0, 1] and their digits."""

    images: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]


def split_digits(held_out: int, seed: int) -> tuple[Digits, Digits]:
    """Split Scikit-learn's digits into shuffled, stratified training and held-out images."""
    pixels, digits = load_digits(return_X_y=True)
    images = np.asarray(pixels / 16.0, np.float32).reshape(-1, 1, 8, 8)
    labels = np.asarray(digits, np.int64)
    training, testing = (
        np.asarray(indices)
        for indices in train_test_split(
            np.arange(len(labels)), test_size=held_out, random_state=seed, stratify=labels
        )
    )
    return Digits(images[training], labels[training]), Digits(images[testing], labels[testing])


def shifted(images: Tensor) -> Tensor:
    """Shift each image by -1, 0 or 1 pixels along each axis, and fill with zeros."""
    count = len(images)
    padded = functional.pad(images, (1, 1, 1, 1))
    rows = torch.randint(0, 3, (count, 1)) + torch.arange(8)
    columns = torch.randint(0, 3, (count, 1)) + torch.arange(8)
    sample = torch.arange(count)[:, None, None]
    return padded[sample, 0, rows[:, :, None], columns[:, None, :]][:, None]


def train(network: nn.Module, data: Digits, epochs: int, batch: int) -> None:
    """Fit `network` to `data` with AdamW and a learning-rate cycle; leave it in evaluation mode."""
    images, labels = torch.from_numpy(data.images), torch.from_numpy(data.labels)
    steps = len(images) // batch
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.01, total_steps=epochs * steps
    )
    network.train()
    for _ in track(range(epochs), "training", console=Console(stderr=True)):
        # Omit the incomplete last batch: the next epoch omits other images.
        for chosen in torch.randperm(len(images))[: steps * batch].split(batch):
            loss = functional.cross_entropy(network(shifted(images[chosen])), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    network.eval()


def accuracy(model: Path, data: Digits) -> float:
    """Return the fraction of `data` that ONNX Runtime classifies correctly with the file."""
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    (probabilities,) = session.run(["probabilities"], {"image": data.images})
    return float(np.mean(np.argmax(np.asarray(probabilities), axis=1) == data.labels))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        required=True,
        default=argparse.SUPPRESS,
        help="where digits.onnx, digits_test.npz, digits_labels.npz and digits_calibration.npz go",
    )
    parser.add_argument("--epochs", type=int, default=60, help="passes over the training images")
    parser.add_argument("--batch", type=int, default=64, help="images per training step")
    parser.add_argument("--held-out", type=int, default=360, help="images kept for the test set")
    parser.add_argument("--seed", type=int, default=0, help="of the split, weights and shuffling")
    options = parser.parse_args()
    output: Path = options.output

    # Use a single thread: the order of float additions must not depend on the number of cores.
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(options.seed)

    training, held_out = split_digits(options.held_out, options.seed)
    network = digits_network()
    train(network, training, options.epochs, options.batch)

    output.mkdir(parents=True, exist_ok=True)
    model = output / "digits.onnx"
    export_onnx(network, model)
    calibration = training.images[:CALIBRATION_IMAGES]
    np.savez_compressed(output / "digits_test.npz", image=held_out.images)
    np.savez_compressed(output / "digits_labels.npz", labels=held_out.labels.astype(np.uint8))
    np.savez_compressed(output / "digits_calibration.npz", image=calibration)

    parameters = sum(parameter.numel() for parameter in network.parameters())
    print(f"parameters: {parameters}")
    print(f"accuracy:   {accuracy(model, held_out):.4f} on {len(held_out.labels)} held-out images")


if __name__ == "__main__":
    main()
