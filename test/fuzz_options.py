"""
Run random networks with random options through the commands, along two routes.

- `verify`: `ceras-verify` runs all levels on all targets.
- `text`: `ceras-compile` writes a folder, and each level as text. The levels and the folder compute
  the same bits, texts are equal after parsing and printing, `ceras-opt` creates the same text from
  the same options, and the results of compiled texts are equal (`text_route.py`).

A command that rejects a network exits with status 3; any status other than 0 and 3 is printed.

    python test/fuzz_options.py [--count 100] [--first 0] [--route verify] [--family images]
                                [--keep DIR]
"""

import argparse
import contextlib
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import random_options as table
from called import Refused, Wrong, call
from random_cases import FAMILIES, Case, random_case
from text_route import through_text

from ceras_ir.driver.verify.tool import main as verify_main
from ceras_ir.targets.registry import find_target

VERIFIED = ("c,nnet,vta", "c,nnet,vta", "c", "nnet", "vta", "onnx", "arduino")
COMPILED = ("c", "c", "nnet", "nnet", "vta", "vta", "onnx", "arduino")
FLOAT_TARGETS = ("c", "arduino", "onnx")
ROUTES = ("verify", "text")


def judge(route: str, family: str, seed: int, folder: Path) -> str | None:
    """Return `fine` or `refused`; None if the family has no network of the seed."""
    case = random_case(family, seed)
    if case is None:
        return None
    random = np.random.default_rng([seed, ROUTES.index(route), list(FAMILIES).index(family)])
    states = case.save(folder)
    named = VERIFIED if route == "verify" else COMPILED
    if case.states:
        named = [name for name in named if "," not in name and find_target(name).keeps_states]
    targets = str(random.choice(named))
    options = [*scheme(random, case, targets, folder), *states]
    for target in targets.split(",") if "," not in targets else ():
        own = table.draw(random, table.TARGETS[target])
        # Files of weights are for computers only.
        board = [] if "--weights" in own else table.draw_board(random, target, folder)
        options += [*own, *board]
    try:
        # Reproducers of crashes are written to this folder.
        with contextlib.chdir(folder):
            if route == "text":
                options += table.draw(random, table.FOLDERS) if targets == "c" else []
                through_text(folder, targets, options, case, random)
            else:
                options += [] if "none" in options[:2] else table.draw(random, table.AGAIN)
                few = [] if case.states else ["--samples", "2"]
                # Bits are compared; random weights need not be accurate in 8 bits.
                any_noise = ["--floor", "-1000"]
                words = ["--targets", targets, *options, "--inputs", "data.npz", *few, *any_noise]
                call(verify_main, "model.onnx", *words)
    except Refused:
        return "refused"
    return "fine"


def scheme(random: np.random.Generator, case: Case, targets: str, folder: Path) -> list[str]:
    """Draw the options of pruning and quantization."""
    pruning = table.draw(random, table.PRUNING, case.layers)
    if targets in FLOAT_TARGETS and random.integers(8) == 0:
        return ["--quantize", "none", *pruning]
    options = ["--quantize", "int8"]
    if random.integers(8):
        options = ["--calibrate", str(folder / "data.npz")]
    options += table.draw(random, table.QUANTIZATION)
    # A model that specifies the quantization is quantized again only for VTA.
    if not case.quantized or (targets == "vta" and not case.keeps_scales):
        options += table.draw(random, table.PRECISION, case.layers)
    return [*options, *pruning]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--route", choices=ROUTES, action="append")
    parser.add_argument("--family", choices=tuple(FAMILIES), action="append")
    parser.add_argument("--keep", type=Path, help="write the network of the last seed here")
    arguments = parser.parse_args()
    found = Counter[str]()
    for seed in range(arguments.first, arguments.first + arguments.count):
        for route in arguments.route or ROUTES:
            for family in arguments.family or FAMILIES:
                with tempfile.TemporaryDirectory() as name:
                    folder = (arguments.keep or Path(name)).absolute()
                    folder.mkdir(parents=True, exist_ok=True)
                    try:
                        outcome = judge(route, family, seed, folder)
                    except Wrong as error:
                        outcome = "wrong"
                        where = f"--route {route} --family {family} --first {seed}"
                        print(f"{where}: {error}", flush=True)
                found[f"{route} {family}: {outcome or 'no network'}"] += 1
        if (seed - arguments.first) % 10 == 9:
            print(f"before seed {seed + 1}: {dict(sorted(found.items()))}", flush=True)
    for outcome, number in sorted(found.items()):
        print(f"{outcome:40} {number}")
    return 1 if any(outcome.endswith("wrong") for outcome in found) else 0


if __name__ == "__main__":
    raise SystemExit(main())
