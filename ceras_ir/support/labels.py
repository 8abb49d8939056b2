"""
Estimate the width of text in SVG, and choose labels that do not overlap.

The estimates are the advance widths of DejaVu Sans, which is wider than other sans-serif fonts of
browsers, so text is never wider than its estimate.
"""

from dataclasses import dataclass

NARROW_WIDTH, UPPER_WIDTH, WIDE_WIDTH = 0.42, 0.79, 1.0
"""Widths of groups of characters, relative to the font size."""
OTHER_WIDTH = 0.64
BOLD_FACTOR = 1.13

NARROW_CHARACTERS = frozenset("frtijlI-()[]{}/\\:;.,'|!` ")
WIDE_CHARACTERS = frozenset("mwMW@%")

MIN_LABEL_CHARACTERS = 5
"""The minimum length of a shortened label; a shorter label is omitted."""


def text_width(text: str, size: float, bold: bool = False) -> float:
    """
    Return an upper estimate of the width in pixels of `text` at the font size `size` in pixels.
    """
    total = 0.0
    for character in text:
        if character in NARROW_CHARACTERS:
            total += NARROW_WIDTH
        elif character in WIDE_CHARACTERS or not character.isascii():
            total += WIDE_WIDTH
        else:
            total += UPPER_WIDTH if character.isupper() else OTHER_WIDTH
    return total * size * (BOLD_FACTOR if bold else 1.0)


def end_of_name(text: str, longest: int) -> str:
    """
    Return `text`, or the last `longest - 1` characters after an ellipsis if it is longer than
    `longest`. The end is kept because names of layers usually differ there.
    """
    return text if len(text) <= longest else f"\N{HORIZONTAL ELLIPSIS}{text[1 - longest :]}"


def fitted(text: str, width: float, size: float, bold: bool = False) -> str:
    """
    Return `text`, or the end after an ellipsis, so that it is at most `width` pixels wide at the
    font size `size`. The result is empty if fewer than `MIN_LABEL_CHARACTERS` characters would
    remain.
    """
    shown = text
    while text_width(shown, size, bold) > width:
        longest = len(shown) - 1
        if longest < MIN_LABEL_CHARACTERS:
            return ""
        shown = end_of_name(text, longest)
    return shown


@dataclass(frozen=True)
class Box:
    """A rectangle of a picture in pixels. y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "Box") -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


class OccupiedBoxes:
    """The rectangles of a picture that already contain a label, so that labels do not overlap."""

    def __init__(self) -> None:
        self._boxes: list[Box] = []

    def take(self, box: Box) -> bool:
        """Reserve the rectangle `box` and return True, unless it overlaps a reserved rectangle."""
        if any(box.overlaps(other) for other in self._boxes):
            return False
        self._boxes.append(box)
        return True
