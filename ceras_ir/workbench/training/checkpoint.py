"""
A training run on disk, from which it goes on as if it had not stopped.

The file is there completely or not at all, holds numbers alone, and knows the run that it is of.
"""

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import os
import pickle
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from ceras_ir.support.diagnostics import InputError

VERSION = 1


@dataclass
class Progress:
    """How far a run has come."""

    epoch: int = 0
    step: int = 0
    """Steps of the epoch that are done."""
    best: float | None = None
    best_epoch: int = 0
    """Epochs after which the score was best."""
    weights: dict[str, Tensor] = field(default_factory=dict)
    """The parameters of then."""


def save(path: Path, run: str, progress: Progress, network: dict, optimizer: dict) -> None:
    """Write a checkpoint of the run called `run`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    content = {
        "version": VERSION,
        "run": run,
        "progress": asdict(progress),
        "network": network,
        "optimizer": optimizer,
    }
    try:
        with open(temporary, "wb") as stream:
            torch.save(content, stream)
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror}", str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)


def load(path: Path, run: str) -> tuple[Progress, dict, dict]:
    """Progress, network and optimizer of a checkpoint, which must be of the run called `run`."""
    try:
        # Numbers alone: a file of somebody else's can do no harm.
        content = torch.load(path, map_location="cpu", weights_only=True)
        known = content["run"], content["version"]
        found = Progress(**content["progress"]), content["network"], content["optimizer"]
    except FileNotFoundError:
        raise InputError("no such checkpoint; leave --resume out to begin", str(path)) from None
    except (OSError, RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError):
        raise InputError("not a checkpoint of ours, or damaged", str(path)) from None
    if known != (run, VERSION):
        raise InputError(
            "is of another run: model, data and options must be those that it began with",
            str(path),
        )
    return found
