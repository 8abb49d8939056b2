"""`; did you mean ...?` for a mistyped name."""

from collections.abc import Iterable

MISTYPED = 0.85
"""How similar a name is that can hardly be another: one letter of six may be wrong."""


def did_you_mean(name: str, known: Iterable[str], least: float = 0.6) -> str:
    """
    The end of a message about the unknown `name`: the most similar known one, if any is similar
    by `least` of 1.
    """
    from difflib import get_close_matches

    matches = get_close_matches(name, sorted(known), n=1, cutoff=least)
    return f"; did you mean '{matches[0]}'?" if matches else ""
