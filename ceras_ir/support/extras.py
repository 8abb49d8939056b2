"""
Name the command that installs an optional part of this package.

Messages about a missing library contain this command, so it must work for the installation at
hand: from a clone, from an archive, or from a package index.
"""

import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ceras_ir.support.extensions import DISTRIBUTION

IN_CLONE = "."
"""The origin for pages and help texts, which are equal on all machines."""


def install_command(extra: str, origin: str | None = None) -> str:
    """
    Return the `pip install` command for this package with the optional packages of `extra`.
    `origin` is a path or package name; by default it is the place from which this package was
    installed.
    """
    if origin is None:
        origin, is_editable = _installed_from()
    else:
        is_editable = False
    # Without -e, pip would replace an editable installation by a copy.
    options = "-e " if is_editable else ""
    return f"pip install {options}{shlex.quote(f'{origin}[{extra}]')}"


def _installed_from() -> tuple[str, bool]:
    """Return the path or name that pip accepts, and whether the installation is editable."""
    try:
        recorded = distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        return IN_CLONE, False
    if recorded is None:
        return DISTRIBUTION, False
    record: dict[str, object] = json.loads(recorded)
    url = urlsplit(str(record["url"]))
    path = Path(unquote(url.path))
    if url.scheme != "file" or not path.exists():
        return IN_CLONE, False
    return str(path), record.get("dir_info") == {"editable": True}
