"""Turn docstrings into Markdown."""

import inspect
import re


def markdown(doc: str | None) -> str:
    """Return a docstring as Markdown. A paragraph of code becomes a code block."""
    paragraphs = inspect.cleandoc(doc or "").split("\n\n")
    return "\n\n".join(map(_paragraph, paragraphs))


def _paragraph(text: str) -> str:
    if len(text) <= 40 or not re.fullmatch(r"`[^`]+`(\n`[^`]+`)*", text):
        return text
    return "```\n" + text.replace("`", "") + "\n```"
