"""
Run networks of the families in `generated/` through the interpreter, C and nnet.

The references share no code with the compiler: ONNX Runtime without optimizations, and ONNX's
definition in float64, with bounds that are computed for each output (`generated/reference.py`).

    python test/fuzz_generated.py [--count 1000] [--first 0] [--family NAME] [--keep DIR]

A network is wrong if a route has a result that neither reference allows, or an error other than
`unsupported`. For a network in float, nnet has to equal the interpreter of the same quantized
network. The last lines count networks, routes and reasons of refusals, and name the seeds of wrong
networks.
"""

from __future__ import annotations

import argparse
import re
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

sys.path.insert(0, str(Path(__file__).parent))

from generated.builder import Case
from generated.families import FAMILIES, generate
from generated.reference import Exact, Results, runtime
from generated.routes import Refused, Routes, quick_compiler


@dataclass
class Judgement:
    """The result for a single network."""

    family: str
    opset: int
    routes: dict[str, str] = field(default_factory=dict[str, str])
    """`right`, or the reason of a refusal, for each route."""
    wrong: list[str] = field(default_factory=list[str])
    disputed: str = ""
    """The difference between ONNX Runtime and the definition, if there is one."""


class References:
    """The references of a case that support it."""

    def __init__(self, case: Case):
        self.runtime: Results | None = None
        try:
            self.runtime = runtime(case)
        except Exception as error:  # The runtime has no narrower error type.
            self.refusal = str(error)
        self.exact = Exact(case)
        self.disputed = ""
        if self.runtime is not None:
            self.disputed = "; ".join(map(str, self.exact.check(self.runtime)))

    def difference(self, results: Results) -> str:
        """Describe the errors of results; empty if a reference allows them."""
        found = self.exact.check(results)
        if found and self.disputed and self.runtime is not None:
            found = [d for d in found if not self._as_runtime(results, d.sample, d.output)]
        return "; ".join(map(str, found[:3]))

    def _as_runtime(self, results: Results, sample: int, output: str) -> bool:
        """Return whether an output is as near to ONNX Runtime as the bound to the definition."""
        assert self.runtime is not None
        return self.exact.allows(results, self.runtime, sample, output)


def judge(seed: int, family: str = "") -> Judgement:
    """Run the network of a seed on all routes."""
    name, case = generate(seed, family)
    found = Judgement(name, case.model.opset_import[0].version)
    references = References(case)
    found.disputed = references.disputed
    try:
        routes = Routes(case)
    except Refused as refusal:
        found.routes["import"] = str(refusal)
        return found
    except Exception:
        found.wrong.append(f"import: {traceback.format_exc(limit=-3)}")
        return found
    for route in ("interp", "c", "nnet"):
        try:
            if route == "nnet" and not case.comes_quantized:
                text = routes.nnet_differs()
            else:
                text = references.difference(routes.run(route))
        except Refused as refusal:
            found.routes[route] = str(refusal)
            continue
        except Exception:
            text = traceback.format_exc(limit=-3)
        if text:
            found.wrong.append(f"{route}: {text}")
        found.routes[route] = "wrong" if text else "right"
    return found


def reason(refusal: str) -> str:
    """Return a refusal without names and numbers."""
    first = next((line for line in refusal.splitlines() if "unsupported" in line), refusal)
    text = first.partition("unsupported ")[2] or first
    return re.sub(r"'[^']*'|\d+(\.\d+)?(e-?\d+)?", "_", text)[:110]


def judged(first: int, count: int, family: str = "") -> Iterator[tuple[int, Judgement]]:
    with quick_compiler():
        for seed in range(first, first + count):
            yield seed, judge(seed, family)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--family", choices=tuple(FAMILIES), default="")
    parser.add_argument("--keep", type=Path, help="write the model of --first here, and judge it")
    arguments = parser.parse_args()
    if arguments.keep is not None:
        arguments.keep.write_bytes(
            generate(arguments.first, arguments.family)[1].model.SerializeToString()
        )
        arguments.count = 1
    counts, refusals, opsets = Counter[str](), Counter[str](), Counter[int]()
    wrong: list[int] = []
    disputed: list[int] = []
    start = monotonic()
    for done, (seed, found) in enumerate(
        judged(arguments.first, arguments.count, arguments.family), 1
    ):
        opsets[found.opset] += 1
        for route, outcome in found.routes.items():
            counts[f"{route}: {outcome if outcome in ('right', 'wrong') else 'refused'}"] += 1
            if outcome not in ("right", "wrong"):
                refusals[f"{route}: {reason(outcome)}"] += 1
        disputed += [seed] if found.disputed else []
        for text in found.wrong:
            print(f"seed {seed} ({found.family}, operator set {found.opset}): {text}", flush=True)
        if found.wrong:
            wrong.append(seed)
        if done % 50 == 0 or done == arguments.count:
            rate = 60 * done / (monotonic() - start)
            print(f"{done} networks, {len(wrong)} wrong, {rate:.0f} a minute", flush=True)
    print(f"operator sets: {', '.join(f'{k}: {v}' for k, v in sorted(opsets.items()))}")
    for name, number in sorted(counts.items()):
        print(f"{name:20} {number}")
    for name, number in refusals.most_common():
        print(f"{number:5} {name}")
    print(f"references disagree: {len(disputed)}, seeds {disputed}")
    print(f"wrong: {len(wrong)}, seeds {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
