"""
The measured benefit of each pass and rule: the network that is worse without it.

`benchmarks/pass_benefits.py` writes the file; `--help-pass` and `docs/passes.md` print it.
"""

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

BENEFITS = Path(__file__).with_name("pass_benefits.json")


@dataclass(frozen=True)
class Benefit:
    """What a network loses without a step."""

    changed: int
    """Builds in which the step changes the IR."""
    builds: int
    network: str
    """A network of `benchmarks/benefit_networks.py`; empty if none loses."""
    setting: str
    """Target, and `float` if the network is not quantized."""
    figure: str

    def text(self) -> str:
        """One sentence."""
        counted = f"Changes {self.changed} of {self.builds} builds."
        if not self.figure:
            return counted
        return f"{counted} Network `{self.network}` for {self.setting}: {self.figure}."

    def to_json(self) -> dict[str, int | str]:
        return asdict(self)


@cache
def benefits() -> dict[str, Benefit]:
    """Benefits by step, which is a pass or `pass{rule}`."""
    content = json.loads(BENEFITS.read_text(encoding="utf-8"))
    return {step: Benefit(**entry) for step, entry in content.items()}
