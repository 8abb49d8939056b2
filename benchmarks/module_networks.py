"""
Load networks of PyTorch or Keras, and compare them with the framework.

    python -m venv frameworks; frameworks/bin/pip install . torch torchvision timm transformers \\
        onnxscript keras scipy
    frameworks/bin/python benchmarks/module_networks.py --from torch|keras [--only TEXT] [--no-c]

The networks of `torch_networks.py` and `keras_networks.py` have seeded weights. Each is loaded by
`ceras.load` and run on two seeded samples in the interpreter and in C, in float. The table has the
signal-to-noise ratio of both against the framework, in dB. From torch, exported programs are also
loaded as `.pt2` files, and must have the same results. A refused network has the reason.

A network is wrong below 90 dB, unless the framework itself, in another order of sums, is not 20 dB
better: networks with random weights can amplify rounding. The exit status is 1 if one is wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ceras_ir as ceras

Array = NDArray[Any]

FLOOR_DB, MARGIN_DB = 90.0, 20.0
SAMPLES = 2
SECONDS = 600
"""The time limit for a network."""


@dataclass
class Network:
    """A network of a framework with the functions that differ between frameworks."""

    network: object
    inputs: Sequence[Array]
    """The example inputs; the other samples have the same shapes and ranges."""
    forward: Callable[[Sequence[Array]], list[Array]]
    """Compute the outputs in order, in inference mode."""
    reordered: Callable[[Sequence[Array]], list[Array]]
    """Compute the outputs in another order of sums, or in higher precision."""
    save: Callable[[Path], None] | None = None
    """Write a file that `ceras.load` accepts, if the framework has one."""


def other_sample(array: Array) -> Array:
    """Return the same values in another order."""
    return np.random.default_rng(1).permutation(array.ravel()).reshape(array.shape)


def decibels(found: Sequence[Array], wanted: Sequence[Array]) -> float:
    """Return the smallest signal-to-noise ratio of all outputs; inf if they are equal."""
    ratios = [np.inf]
    for a, b in zip(found, wanted, strict=True):
        expected = b.astype(np.float64)
        actual = np.asarray(a, np.float64).reshape(expected.shape)
        noise = np.square(actual - expected)[actual != expected].sum()
        if noise or np.isnan(noise):
            ratios.append(10 * np.log10(np.square(expected).sum() / noise))
    return float("-inf") if np.isnan(ratios).any() else float(min(ratios))


def tried(build: Callable[[], Network], in_c: bool) -> tuple[str, str]:
    """Return the verdict for a network, and figures or a reason."""
    each = build()
    start = time.process_time()
    try:
        loaded = ceras.load(each.network, each.inputs)
    except ceras.InputError as error:
        return "refused", str(error).partition("\n")[0]
    text = f"{time.process_time() - start:.1f} s"
    names, ratios = [value.name for value in loaded.inputs], dict[str, float]()
    compiled = loaded.compile("c") if in_c else None
    noise = 0.0
    for number in range(SAMPLES):
        arrays = each.inputs if number == 0 else [other_sample(array) for array in each.inputs]
        wanted, given = each.forward(arrays), dict(zip(names, arrays, strict=False))
        results = {"interp": loaded.run(given)}
        if compiled is not None:
            results["c"] = compiled.run(given)
        for name, found in results.items():
            ratio = decibels(list(found.values()), wanted)
            ratios[name] = min(ratio, ratios.get(name, np.inf))
        noise = min(ratios.values())
        if noise < FLOOR_DB and noise < decibels(each.reordered(arrays), wanted) - MARGIN_DB:
            return "wrong", f"{text}, {figures(ratios)}"
        if number == 0 and each.save is not None:
            again = from_file(each.save, given)
            if isinstance(again, str):
                text += f", as a file: {again}"
            elif decibels(list(again.values()), list(results["interp"].values())) < np.inf:
                return "wrong", f"{text}, another result of the file"
            else:
                text += ", equal as a file"
    return "equal" if noise >= FLOOR_DB else "rounding", f"{text}, {figures(ratios)}"


def from_file(save: Callable[[Path], None], given: Mapping[str, Array]) -> dict[str, Array] | str:
    """Return the results of the network in a file, or the reason of its refusal."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "network.pt2")
        save(path)
        try:
            return ceras.load(path).run(dict(given))
        except ceras.InputError as error:
            return str(error).partition("\n")[0].replace(str(path), path.name)


def figures(ratios: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {ratio:.0f} dB" for name, ratio in ratios.items())


def in_child(build: Callable[[], Network], in_c: bool) -> tuple[str, str]:
    """Try a network in another process, which may use all memory or hang."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=send, args=(sender, build, in_c))
    child.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(SECONDS) else ("slow", f"more than {SECONDS} s")
    except EOFError:
        child.join()
        return "crashed", f"status {child.exitcode}"
    finally:
        child.kill()
        child.join()


def send(sender: Connection, build: Callable[[], Network], in_c: bool) -> None:
    # The exporters print their progress.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        sender.send(tried(build, in_c))
    except Exception as error:
        traceback.print_exc()
        sender.send(("crashed", f"{type(error).__name__}: {error}".partition("\n")[0]))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--from", dest="framework", choices=("torch", "keras"), required=True)
    parser.add_argument("--only", default="", metavar="TEXT", help="networks with TEXT in the name")
    parser.add_argument("--no-c", action="store_true")
    arguments = parser.parse_args()
    os.environ |= {"KERAS_BACKEND": "torch", "HF_HUB_OFFLINE": "1"}
    networks: dict[str, Callable[[], Network]] = import_module(
        f"{arguments.framework}_networks"
    ).networks()
    totals = Counter[str]()
    for name, build in networks.items():
        if arguments.only in name:
            verdict, text = in_child(build, not arguments.no_c)
            totals[verdict] += 1
            print(f"{name:32} {verdict:9} {text}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in totals.most_common()))
    return 1 if totals["wrong"] or totals["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main())
