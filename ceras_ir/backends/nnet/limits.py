"""Numbers that the engine's headers state, read from them: there is no copy to go stale."""

import re
from functools import cache
from importlib.resources import files

_CONSTANT = re.compile(
    r"^constexpr \w+ (\w+) = (?:uint64_t\{)?(\d+)u?\}?(?: << (\d+))?;", re.MULTILINE
)


@cache
def _constants(header: str) -> dict[str, int]:
    text = (files("ceras_ir.backends.nnet") / "runtime" / header).read_text("ascii")
    return {name: int(n) << int(shift or 0) for name, n, shift in _CONSTANT.findall(text)}


def limit(header: str, name: str) -> int:
    """The integer constant `name` of a header in `runtime/`."""
    return _constants(header)[name]
