"""Text that fits: rows in columns of one width each, names of a limited length."""

from collections.abc import Collection, Sequence


def shortened(name: str, longest: int = 40) -> str:
    """The name, of a longer one its beginning and three dots."""
    return name if len(name) <= longest else f"{name[: longest - 3]}..."


def aligned(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """A line for each row; the columns in `right` end together, the others start together."""
    columns = max(map(len, rows))
    full = [[*row, *[""] * (columns - len(row))] for row in rows]
    widths = [max(map(len, column)) for column in zip(*full, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in full
    ]
