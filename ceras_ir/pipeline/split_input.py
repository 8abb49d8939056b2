"""Files that hold several independent modules, as tests do: parts between lines of `// -----`."""

import re
from collections.abc import Iterator

SPLIT_MARKER = re.compile(r"^// -----[ \t\r]*$", re.MULTILINE)


def parts_of(text: str) -> Iterator[str]:
    """Every part; lines before it are left empty, so that its line numbers are the file's."""
    start = 0
    for marker in [*SPLIT_MARKER.finditer(text), None]:
        end = marker.start() if marker else len(text)
        yield "\n" * text.count("\n", 0, start) + text[start:end]
        start = marker.end() if marker else end
