"""`; did you mean ...?` for a mistyped name."""

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about the unknown `name`: the most similar known one, if any is."""
    from difflib import get_close_matches

    matches = get_close_matches(name, sorted(known), n=1)
    return f"; did you mean '{matches[0]}'?" if matches else ""
