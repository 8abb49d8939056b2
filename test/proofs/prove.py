"""
Prove the integer identities that passes and backends rely on.

    python test/proofs/prove.py [NAME...]    all, or names that contain one of these

The exit status is 1 if an identity is refuted or the text that relies on it has changed. Without
z3, identities that need it are skipped with a message.
"""

import sys
import time
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

FAMILIES = ("rounding", "folding", "ties", "averages", "swish", "padding", "winograd", "pairs")


def main(names: list[str]) -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from proofs.registry import IDENTITIES, MissingSolverError

    for family in FAMILIES:
        import_module(f"proofs.{family}")
    chosen = [i for i in IDENTITIES if not names or any(n in i.name for n in names)]
    if not chosen:
        print(f"no identity is named like {', '.join(names)}", file=sys.stderr)
        return 2
    table = Table("identity", "relied on in", "precondition", "proven by", "s")
    refuted = skipped = 0
    for one in chosen:
        start, answer = time.perf_counter(), one.by
        try:
            if missing := one.missing():
                raise AssertionError(f"not in the file any more: {missing[0]}")
            one.prove()
        except MissingSolverError:
            answer, skipped = "skipped: no z3", skipped + 1
        except AssertionError as error:
            answer, refuted = f"REFUTED: {error}", refuted + 1
        files = "\n".join(path.removeprefix("ceras_ir/") for path in one.relied_on)
        seconds = f"{time.perf_counter() - start:.2f}"
        table.add_row(f"{one.name}\n{one.states}", files, one.requires, answer, seconds)
        table.add_section()
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    proven = len(chosen) - refuted - skipped
    print(f"{proven} of {len(chosen)} identities proven, {refuted} refuted, {skipped} skipped")
    if skipped:
        print("skipped ones need z3: pip install '.[proofs]'", file=sys.stderr)
    return 1 if refuted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
