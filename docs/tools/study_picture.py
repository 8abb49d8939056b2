"""
Draw two figures of the `points.csv` of a study as SVG, for docs/explore.md.

    python docs/tools/study_picture.py cheapest.study/points.csv euros top_1 OUT.svg
"""

import csv
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

WIDTH, HEIGHT, LEFT, BELOW, ABOVE, RIGHT = 760, 360, 70, 60, 16, 120
LABEL, LINE = 110, 14
"""Width and height of the name of a board."""
COLOURS = ("#2f6fb5", "#d9822b", "#2e8b57", "#8b5fa8")


def picture(rows: Sequence[dict[str, str]], across: str, up: str) -> str:
    """Return a picture of the points, with a color per pruning and precision."""
    done = [row for row in rows if row["state"] == "done"]
    xs, ys = ([float(row[name]) for row in done] for name in (across, up))
    groups = list(dict.fromkeys((row["prune"], row["precision"]) for row in done))
    margin = (max(ys) - min(ys)) * 0.1 or max(ys) * 0.1
    top, bottom = max(ys) + margin, min(ys) - margin
    most = max(xs) * 1.1

    def place(x: float, y: float) -> tuple[float, float]:
        height = HEIGHT - BELOW - ABOVE
        return (
            LEFT + (WIDTH - LEFT - RIGHT) * x / most,
            ABOVE + height * (1 - (y - bottom) / (top - bottom)),
        )

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#5d6b7a">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for i in range(6):
        value = bottom + (top - bottom) * i / 5
        y = place(0, value)[1]
        lines.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dde3ea"/>'
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.3f}</text>'
        )
    boards = dict(zip((row["arduino.board"] for row in done), xs, strict=True))
    last, low = -float(LABEL), False
    for label, x in sorted(boards.items(), key=lambda board: board[1]):
        at = place(x, bottom)
        # A name that would touch the previous name is placed a line lower.
        low = at[0] - last < LABEL and not low
        last = at[0]
        y = at[1] + 18 + (LINE if low else 0)
        lines.append(
            f'<text x="{at[0]:.1f}" y="{y:.1f}" text-anchor="middle">{escape(label)}, {x:g}</text>'
        )
    for row, x, y in zip(done, xs, ys, strict=True):
        at, colour = place(x, y), COLOURS[groups.index((row["prune"], row["precision"]))]
        lines.append(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="5" fill="{colour}"/>')
    for i, (pruned, precision) in enumerate(groups):
        y = ABOVE + 14 + 34 * i
        text = f'<tspan>{escape(precision)}</tspan><tspan x="{WIDTH - RIGHT + 26}" dy="14">'
        lines.append(
            f'<circle cx="{WIDTH - RIGHT + 14}" cy="{y - 4}" r="5" fill="{COLOURS[i]}"/>'
            f'<text x="{WIDTH - RIGHT + 26}" y="{y}">{text}{escape(pruned)}</tspan></text>'
        )
    lines += [
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">'
        f"{escape(across)}</text>",
        f'<text x="16" y="{HEIGHT / 2}" transform="rotate(-90 16 {HEIGHT / 2})" '
        f'text-anchor="middle">{escape(up)}</text></svg>',
    ]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str]) -> int:
    table, across, up, output = argv
    rows = list(csv.DictReader(Path(table).read_text(encoding="utf-8").splitlines()))
    Path(output).write_text(picture(rows, across, up), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
