"""What a check of a stream has to say."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StreamFinding:
    """One instruction that is wrong, and why."""

    index: int
    """Position in the stream."""
    rule: str
    """`tokens`, `finish`, `hazard`, `range`, `uninitialised` or `portable`."""
    message: str

    def __str__(self) -> str:
        return f"instruction {self.index}: {self.rule}: {self.message}"
