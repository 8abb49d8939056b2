"""The folder of a point: the report of its compile, its figures, and how it is made again."""

import json
from html import escape
from pathlib import Path

from ceras_ir.command.exit_status import versions
from ceras_ir.command.output_files import REPORT, write_file
from ceras_ir.pipeline.stage_cache import compiler_digest, digest_of
from ceras_ir.workbench.explore.storage import Record
from ceras_ir.workbench.explore.trial import Outcome

PAGE = "report.html"

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em }
pre { background: #f4f6f8; padding: 1em; overflow: auto; border-radius: 6px }
table { border-collapse: collapse } td { padding: .15em 1.2em .15em 0 } .soft { color: #5d6b7a }
"""


def point_folder(folder: Path, identity: str) -> Path:
    """Where the report of a point is."""
    return folder / "points" / identity[:16]


def write_point(folder: Path, record: Record, outcome: Outcome, files: list[str]) -> None:
    """Write `report.html`, and `report.json` with the command, digests and versions."""
    place = point_folder(folder, record.identity)
    place.mkdir(parents=True, exist_ok=True)
    plain = [path.partition("?")[0] for path in files]
    content = {
        "state": record.state,
        "choices": record.point,
        "figures": record.figures,
        "diagnostic": record.diagnostic,
        "command": record.command,
        "versions": versions("ceras-explore"),
        "sha256": {path: digest_of(path) for path in plain} | {"compiler": compiler_digest()},
        **outcome.report,
    }
    write_file(str(place / REPORT), (json.dumps(content, indent=2) + "\n").encode())
    write_file(str(place / PAGE), _page(record, outcome).encode())


def _page(record: Record, outcome: Outcome) -> str:
    def rows(values: dict[str, object]) -> str:
        cells = (
            f"<tr><td>{escape(k)}</td><td>{escape(str(v))}</td></tr>" for k, v in values.items()
        )
        return f"<table>{''.join(cells)}</table>"

    said = f"<p><b>{escape(record.state)}</b></p>"
    if record.diagnostic:
        said += f"<pre>{escape(record.diagnostic)}</pre>"
    title = ", ".join(record.point.values())
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
            f'<p><a href="../../index.html">all points</a></p><h1>{escape(title)}</h1>{said}',
            f"<h2>Choices</h2>{rows({**record.point})}<h2>Figures</h2>{rows({**record.figures})}",
            f"<h2>Command</h2><pre>{escape(record.command)}</pre>",
            f"<h2>Report</h2><pre>{escape(outcome.table)}</pre></body></html>\n",
        ]
    )
