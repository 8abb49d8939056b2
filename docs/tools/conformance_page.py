"""
docs/conformance.md: cases of ONNX's own test suite, run by the interpreter and as C.

    python docs/tools/conformance_page.py ../shared/tools             write the page: minutes
    python docs/tools/conformance_page.py ../shared/tools --every 20  print what a sample gives

`../shared/tools` has `onnx_conformance.py`, which knows the cases and their tolerances, and
`onnx_edge_required.txt`, which names those that an edge compiler should take. Every case is what
`ceras-run MODEL --inputs IN.npz --outputs OUT.npz [--target c]` does, but in one process.
"""

import argparse
import contextlib
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ceras_ir.driver.run.tool import main as ceras_run

PAGE = Path(__file__).resolve().parent.parent / "conformance.md"
ENGINES = ("interp", "c")
STATUSES = ("PASS", "UNSUPPORTED", "WRONG", "FAIL", "DIRTY")

HEAD = """\
<!-- Written by docs/tools/conformance_page.py. -->

# Conformance

ONNX has a test suite of its own. Of its cases these are the ones that an edge compiler should take,
with parameters as initializers, each run on every data set that it has: `ceras-run` in the
interpreter, and with `--target c`. PASS is within the case's own tolerance, integers and types
exactly. UNSUPPORTED is exit status 3 with a reason and no output. WRONG, FAIL (another
status) and DIRTY (a file left behind) are what must not occur.
"""


@dataclass(frozen=True)
class Outcome:
    """What became of one case in one engine."""

    name: str
    group: str
    engine: str
    status: str
    reason: str = ""


def harness(tools: Path) -> Any:
    """The module that knows ONNX's cases."""
    if str(tools) not in sys.path:
        sys.path.append(str(tools))
    return import_module("onnx_conformance")


def required_cases(tools: Path) -> list[Any]:
    """The cases of the list, by name."""
    lines = (tools / "onnx_edge_required.txt").read_text("utf-8").splitlines()
    names = {line.split("#")[0].strip() for line in lines}
    kinds = {"node", "expanded", "pytorch-converted", "pytorch-operator", "simple", "light"}
    cases, _ = harness(tools).load_cases(kinds)
    return sorted((case for case in cases if case.name in names), key=lambda case: case.name)


def outcome(tools: Path, case: Any, engine: str) -> Outcome:
    """Run one case."""
    known = harness(tools)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, data = known.materialise(case, folder, "freeze")
        output = folder / "out.npz"
        for inputs, reference in data:
            arguments = [str(model), "--inputs", str(inputs), "--outputs", str(output)]
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                status = ceras_run([*arguments, "--target", engine])
            if status:
                kind = "UNSUPPORTED" if status == 3 else "FAIL"
                kind = "DIRTY" if output.exists() else kind
                reason = said.getvalue().strip().replace(f"{model}: ", "")
                return Outcome(case.name, case.group, engine, kind, reason)
            wrong = known.compare(reference, output, case.rtol, case.atol)
            if wrong is not None:
                return Outcome(case.name, case.group, engine, "WRONG", wrong)
            output.unlink()
    return Outcome(case.name, case.group, engine, "PASS")


def page(outcomes: Sequence[Outcome]) -> str:
    """The text of the page."""
    return "\n".join([HEAD, *_table(outcomes), "", *_exceptions(outcomes)]) + "\n"


def _table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """A line for each group of operators, and one for all."""
    heads = [f"{engine} {status}" for engine in ENGINES for status in STATUSES]
    yield "| group | cases | " + " | ".join(heads) + " |"
    yield "|---" * (len(heads) + 2) + "|"
    counts = Counter((o.group, o.engine, o.status) for o in outcomes)
    cases = Counter(o.group for o in outcomes if o.engine == ENGINES[0])
    for group in [*sorted(cases), "all"]:
        groups = sorted(cases) if group == "all" else [group]
        cells = [
            str(sum(counts[g, engine, status] for g in groups))
            for engine in ENGINES
            for status in STATUSES
        ]
        yield f"| {group} | {sum(cases[g] for g in groups)} | " + " | ".join(cells) + " |"


def _exceptions(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """All that did not pass, with what was said."""
    yield "## Not passed\n"
    for o in outcomes:
        if o.status != "PASS":
            yield f"- `{o.name}` ({o.engine}): {o.status}: {o.reason}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tools", type=Path, help="the folder of onnx_conformance.py")
    parser.add_argument("--every", type=int, help="only every so many cases; print, write nothing")
    arguments = parser.parse_args()
    cases = required_cases(arguments.tools)[:: arguments.every or 1]
    outcomes = [outcome(arguments.tools, case, engine) for engine in ENGINES for case in cases]
    if arguments.every is not None:
        print(page(outcomes))
    else:
        PAGE.write_text(page(outcomes), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
