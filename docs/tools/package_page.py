"""
Print docs/package-index.md, the description on a package index: the beginning and the limits of
README.md, without relative links. The other sections are commands, examples and links, which need a
clone of the repository.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)\n*")
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(?=## )", re.MULTILINE)
SECTIONS = ("## Limits\n",)
REST = "`README.md` has the installation, examples of each command, and links to all pages."


def package_page() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source: str | None = project.get("urls", {}).get("Source")
    opening, *sections = HEADING.split((ROOT / "README.md").read_text(encoding="utf-8"))
    kept = [section for section in sections if section.startswith(SECTIONS)]
    license_note = sections[-1].rpartition("\n\n")[2]
    return absolute("".join([opening, *kept, f"{REST}\n", license_note]), source)


def absolute(text: str, source: str | None) -> str:
    """
    Make relative links absolute, below the repository `source`. Without a repository, replace a
    link by its text and the path of the file, and remove images.
    """
    if source is None:
        text = IMAGE.sub(lambda m: m[0] if "://" in m[1] else "", text)

    def link(match: re.Match[str]) -> str:
        label, target = match.groups()
        if "://" in target:
            return match[0]
        if source is not None:
            return f"[{label}]({source.rstrip('/')}/blob/main/{target})"
        path = target.partition("#")[0]
        return f"`{path}`" if not path or label == path else f"{label} (`{path}`)"

    return LINK.sub(link, text)
