"""
Train a network: batches in a fixed random order, and a checkpoint after each epoch.

All random numbers depend only on the seed, the epoch and the index of a sample. A run that is
stopped and resumed therefore gives equal bits on machines of the same kind.

A checkpoint file is complete or absent, contains only numbers, and identifies the run.
"""

from __future__ import annotations

import pickle
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ceras_ir.data.image_folder import is_planar
from ceras_ir.dialects import graph
from ceras_ir.support.diagnostics import InputError, UsageError, cannot_write, progress
from ceras_ir.support.private_files import replacing
from ceras_ir.transforms.quantization.analysis.output_noise import channel_ratios
from ceras_ir.workbench.training.examples import Examples
from ceras_ir.workbench.training.losses import Score, hard_loss, soft_loss
from ceras_ir.workbench.training.settings import Settings
from ceras_ir.workbench.training.torch_network import TorchNetwork

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false


CHECKPOINT_VERSION = 1


@dataclass
class Progress:
    """The state of a training run between two steps, as a checkpoint stores it."""

    epoch: int = 0
    step: int = 0
    """The number of completed steps of the epoch."""
    best: float | None = None
    """The best validation score so far."""
    best_epoch: int = 0
    """The epoch with the best score."""
    weights: dict[str, Tensor] = field(default_factory=dict)
    """The parameters of the best epoch."""


def save(path: Path, run: str, progress: Progress, network: dict, optimizer: dict) -> None:
    """
    Write the checkpoint file `path` with the progress and the states of network and optimizer.
    `run` is a text that identifies model, data and options.
    """
    content = {
        "version": CHECKPOINT_VERSION,
        "run": run,
        "progress": asdict(progress),
        "network": network,
        "optimizer": optimizer,
    }
    try:
        with replacing(path) as stream:
            torch.save(content, stream)
    except OSError as error:
        raise cannot_write(error, str(path)) from None


def load(path: Path, run: str) -> tuple[Progress, dict, dict]:
    """
    Return the progress and the states of network and optimizer from the checkpoint file `path`.
    Raise an `InputError` if it belongs to another run; `run` is a text that identifies model, data
    and options.
    """
    try:
        # With weights only, a file from an unknown source cannot execute code.
        content = torch.load(path, map_location="cpu", weights_only=True)
        known = content["run"], content["version"]
        found = Progress(**content["progress"]), content["network"], content["optimizer"]
    except FileNotFoundError:
        raise InputError("no such checkpoint; omit --resume to start", str(path)) from None
    except (OSError, RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError):
        raise InputError("not a checkpoint of ceras-retrain, or damaged", str(path)) from None
    if known != (run, CHECKPOINT_VERSION):
        raise InputError(
            "the checkpoint is from another run: use the model, data and options of that run",
            str(path),
        )
    return found


Say = Callable[[str], None]

POWER_EXAMPLES = 64
"""The number of examples for the mean squares of feature maps."""

FACTOR_EXAMPLES = 8
"""The number of examples for the factors between quantized and float channels."""


class Stopped(KeyboardInterrupt):
    """The user stopped the training run; the checkpoint has the progress."""


@dataclass
class TrainingRun:
    """
    A training run: the network, the dense network from which it learns (`teacher`), the examples
    and the checkpoint.
    """

    network: TorchNetwork
    teacher: TorchNetwork | None
    examples: Examples
    validation: Examples | None
    settings: Settings
    device: torch.device
    name: str
    """The text that identifies the run in a checkpoint."""
    checkpoint: Path | None = None
    output: str | None = None
    """The output to which labels belong; the first by default."""
    say: Say = print

    def __post_init__(self) -> None:
        if self.examples.labels is None and not self.settings.alphas:
            raise UsageError("training needs a loss: add --labels, or --teacher and --soft")
        if self.settings.alphas and self.teacher is None:
            raise UsageError("--soft compares with a dense network: add --teacher or --prune")
        names = list(self.network.results)
        self.output = names[0] if self.output is None else self.output
        if self.output not in names:
            raise UsageError(f"there is no output '{self.output}'; there are {', '.join(names)}")
        self.progress = Progress()
        for net in filter(None, (self.network, self.teacher)):
            net.to(self.device)
            net.probe(self.device)
        self.optimizer = self._optimizer()
        self.sizes = {p: channel_sizes(p) for p in self.network.parameters()}
        self.alphas = self.network.by_layer(self.settings.alphas)
        self.features = {name: self.network.layer(name) for name in self.alphas}
        self.teacher_features = {}
        if self.teacher is not None:
            self.teacher_features = {name: self.teacher.layer(name) for name in self.alphas}
            for name, value in self.features.items():
                shapes = graph.shape_of(value), graph.shape_of(self.teacher_features[name])
                if shapes[0] != shapes[1]:
                    raise InputError(
                        f"the result of layer '{name}' has the shape {list(shapes[0])}, and "
                        f"{list(shapes[1])} in the dense network"
                    )
        self.factors = self._channel_factors()
        if self.settings.relative:
            powers = self._powers()
            self.alphas = {name: a / powers[name] for name, a in self.alphas.items()}
        self.class_weights = self._class_weights()

    def _optimizer(self) -> torch.optim.Optimizer:
        parameters, s = list(self.network.parameters()), self.settings
        if not parameters:
            raise InputError("the network has no constant weights to train")
        if s.optimizer == "sgd":
            return torch.optim.SGD(parameters, s.rate, 0.9, weight_decay=s.weight_decay)
        return torch.optim.AdamW(parameters, s.rate, weight_decay=s.weight_decay)

    def _channel_factors(self) -> dict[str, Tensor]:
        # Equalization multiplies channels of the quantized network by powers of two.
        if self.teacher is None or not self.network.is_equalized:
            return {}
        wanted, found = dict[str, list[Tensor]](), dict[str, list[Tensor]]()
        with torch.no_grad():
            for number in range(min(FACTOR_EXAMPLES, len(self.examples))):
                inputs, _ = self._batch(self.examples, np.array([number]), None)
                for name, value in self.teacher(inputs, self.teacher_features)[1].items():
                    wanted.setdefault(name, []).append(value)
                for name, value in self.network(inputs, self.features)[1].items():
                    found.setdefault(name, []).append(value)
        factors: dict[str, Tensor] = {}
        for name in self.alphas:
            ratios = channel_ratios(_stacked(wanted[name]), _stacked(found[name]))
            factors[name] = torch.from_numpy(ratios).to(self.device, torch.float32)
        return factors

    def _powers(self) -> dict[str, float]:
        # The mean squares of the feature maps of the teacher, over several examples, because a
        # feature map can be nearly zero on a single example; 1 if it is always zero.
        assert self.teacher is not None
        count = min(POWER_EXAMPLES, len(self.examples))
        sums = dict.fromkeys(self.teacher_features, 0.0)
        with torch.no_grad():
            for number in range(count):
                inputs, _ = self._batch(self.examples, np.array([number]), None)
                for name, value in self.teacher(inputs, self.teacher_features)[1].items():
                    sums[name] += float(value.square().mean())
        return {name: total / count or 1.0 for name, total in sums.items()}

    def _class_weights(self) -> Tensor | None:
        # Median frequency balancing: the median share of pixels, divided by that of the class.
        labels = self.examples.labels
        if not self.settings.balance or labels is None or labels.dtype.kind == "f":
            return None
        shape = graph.shape_of(self.network.results[self.output or ""])
        classes = shape[3] if shape[1:3] == labels.shape[1:] else shape[1]
        numbers = labels.astype(np.int64)
        known = numbers[(numbers >= 0) & (numbers < classes)]
        shares = np.bincount(known, minlength=classes) / max(known.size, 1)
        median = np.median(shares[shares > 0])
        weights = np.where(shares > 0, median / np.maximum(shares, 1e-12), 0.0)
        return torch.tensor(weights, dtype=torch.float32, device=self.device)

    def train(self) -> None:
        """
        Train for all epochs or until the score no longer improves, then restore the best weights.
        """
        self._begin()
        with _interruptible() as stopped:
            while self.progress.epoch < self.settings.epochs and not self._patience_is_over():
                self._train_epoch(stopped)
        if self.progress.weights:
            self._restore(self.progress.weights)

    def resume(self) -> None:
        """Continue the training run from the checkpoint."""
        assert self.checkpoint is not None
        self.progress, network, optimizer = load(self.checkpoint, self.name)
        self.network.load_state_dict(network)
        self.optimizer.load_state_dict(optimizer)
        self.say(f"resumed at epoch {self.progress.epoch + 1}, step {self.progress.step}")

    def _begin(self) -> None:
        if self.validation is not None and self.progress.best is None:
            score = self.score(self.validation)
            self.say(f"before training: {score.name} {score.value():.4f}")
            self._consider(score)

    def _patience_is_over(self) -> bool:
        p, patience = self.progress, self.settings.patience
        over = patience is not None and p.step == 0 and p.epoch - p.best_epoch >= patience
        return over and self.validation is not None

    def _train_epoch(self, stopped: Callable[[], bool]) -> None:
        p, s = self.progress, self.settings
        order = np.random.default_rng([s.seed, p.epoch]).permutation(len(self.examples))
        mirrored = np.random.default_rng([s.seed, p.epoch, 1]).random(len(order)) < 0.5
        batches = [order[i : i + s.batch] for i in range(0, len(order), s.batch)]
        losses: list[float] = []
        title = f"epoch {p.epoch + 1}/{s.epochs}"
        for chosen in progress(batches[p.step :], title):
            rate = s.rate_at(p.epoch * len(batches) + p.step, len(batches))
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            losses.append(self._step(chosen, mirrored[chosen]))
            if not np.isfinite(losses[-1]):
                raise InputError(f"the loss is {losses[-1]} in {title}: lower --rate")
            p.step += 1
            if stopped() and p.step < len(batches):
                self._stop()
        p.epoch, p.step = p.epoch + 1, 0
        line = f"epoch {p.epoch}/{s.epochs}: loss {np.mean(losses):.5f}"
        if self.validation is not None:
            score = self.score(self.validation)
            line += f", {score.name} {score.value():.4f}" + " *" * self._consider(score)
        self.say(line)
        self._save()
        if stopped() and p.epoch < s.epochs:
            self._stop()

    def _step(self, chosen: NDArray[np.integer], mirrored: NDArray[np.bool_]) -> float:
        self.optimizer.zero_grad()
        total = 0.0
        groups = [range(len(chosen))] if self._batched else [[i] for i in range(len(chosen))]
        for group in groups:
            part = list(group)
            inputs, labels = self._batch(self.examples, chosen[part], mirrored[part])
            loss = self._loss(inputs, labels) * (len(part) / len(chosen))
            loss.backward()
            total += float(loss.detach())
        if self.settings.channel_rates:
            self._scaled_step()
        else:
            self.optimizer.step()
        return total

    def _scaled_step(self) -> None:
        # The step of each channel is proportional to the size of the initial weights.
        with torch.no_grad():
            before = [parameter.clone() for parameter in self.sizes]
            self.optimizer.step()
            for (parameter, size), old in zip(self.sizes.items(), before, strict=True):
                parameter.copy_(old + (parameter - old) * size)

    @property
    def _batched(self) -> bool:
        return self.network.batched and (self.teacher is None or self.teacher.batched)

    def _loss(self, inputs: list[Tensor], labels: Tensor | None) -> Tensor:
        outputs, features = self.network(inputs, self.features)
        loss = torch.zeros((), device=self.device)
        if labels is not None and self.settings.beta:
            assert self.output is not None
            output, is_probability = outputs[self.output], self._is_probability
            hard = hard_loss(
                output, labels, probabilities=is_probability, weights=self.class_weights
            )
            loss = loss + self.settings.beta * hard
        if self.teacher is not None and self.alphas:
            with torch.no_grad():
                _, wanted = self.teacher(inputs, self.teacher_features)
            loss = loss + soft_loss(features, wanted, self.alphas, self.factors)
        return loss

    @property
    def _is_probability(self) -> bool:
        # Whether the output is the result of a softmax.
        assert self.output is not None
        owner = self.network.results[self.output].owner
        while isinstance(owner, graph.TransposeOp | graph.ReshapeOp):
            owner = owner.input.owner
        return isinstance(owner, graph.SoftmaxOp)

    def _batch(
        self, examples: Examples, chosen: NDArray[np.integer], mirrored: NDArray[np.bool_] | None
    ) -> tuple[list[Tensor], Tensor | None]:
        inputs = [self._tensor(x[chosen]) for x in examples.inputs]
        labels = examples.labels
        found = None if labels is None else torch.from_numpy(labels[chosen]).to(self.device)
        if mirrored is not None and self.settings.flip:
            at = torch.from_numpy(mirrored).to(self.device)
            inputs = [_mirrored(x, at) for x in inputs]
            if found is not None and found.ndim == 3:
                found = torch.where(at[:, None, None], found.flip(-1), found)
        return inputs, found

    def _tensor(self, x: NDArray[np.generic]) -> Tensor:
        # [N, 1, ...] of samples becomes [N, ...] of a batch.
        flat = x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]) if x.ndim > 1 else x
        return torch.from_numpy(np.ascontiguousarray(flat)).to(self.device)

    def score(self, examples: Examples) -> Score:
        """Return the score of the network on `examples`."""
        if examples.labels is None:
            raise UsageError("validation needs labels: add --validate-labels")
        found, size = Score(), self.settings.batch if self.network.batched else 1
        with torch.no_grad():
            for start in range(0, len(examples), size):
                chosen = np.arange(start, min(start + size, len(examples)))
                inputs, labels = self._batch(examples, chosen, None)
                outputs, _ = self.network(inputs)
                assert labels is not None and self.output is not None
                found.add(outputs[self.output], labels)
        return found

    def _consider(self, score: Score) -> bool:
        # Return whether the score is the best so far, and keep the weights in this case.
        p = self.progress
        if p.best is not None and score.value() <= p.best:
            return False
        p.best, p.best_epoch = score.value(), p.epoch
        p.weights = {n: v.detach().clone() for n, v in self.network.named_parameters()}
        return True

    def _restore(self, weights: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, parameter in self.network.named_parameters():
                parameter.copy_(weights[name])

    def _save(self) -> None:
        if self.checkpoint is not None:
            states = self.network.state_dict(), self.optimizer.state_dict()
            save(self.checkpoint, self.name, self.progress, *states)

    def _stop(self) -> None:
        self._save()
        raise Stopped


def _stacked(values: list[Tensor]) -> NDArray[np.floating]:
    return torch.stack(values).cpu().numpy()


def channel_sizes(parameter: Tensor) -> Tensor:
    """
    Return the root mean square of the weights of each output channel, or of all elements of a bias,
    with the rank of `parameter`. A size of 0 is replaced by 1.
    """
    axes = list(range(parameter.ndim > 1, parameter.ndim))
    size = parameter.detach().square().mean(axes, keepdim=True).sqrt()
    return torch.where(size > 0, size, torch.ones_like(size))


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    # Yield a function that returns whether Ctrl-C was pressed. A second Ctrl-C stops immediately.
    is_requested = False

    def ask(number: int, frame: object) -> None:
        nonlocal is_requested
        if is_requested:
            raise KeyboardInterrupt
        is_requested = True

    try:
        before = signal.signal(signal.SIGINT, ask)
    except ValueError:
        # Only the main thread can handle signals.
        yield lambda: False
        return
    try:
        yield lambda: is_requested
    finally:
        signal.signal(signal.SIGINT, before)


def _mirrored(x: Tensor, at: Tensor) -> Tensor:
    # Mirror the images that `at` selects from left to right. Other inputs are unchanged.
    if x.ndim != 4 or len(x) != len(at):
        return x
    axis = 3 if is_planar(x.shape) else 2
    return torch.where(at[:, None, None, None], x.flip(axis), x)
