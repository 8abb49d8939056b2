"""
Cache the compiled methods of data classes.

`dataclasses` writes methods as text, and compiles the text whenever a module is imported. A command
imports about 400 data classes, most of them from xDSL, and a tenth of its start would be spent in
this compiler. The cache is in the folder of the bytecode of this module, and is as optional: a file
that is missing, damaged or not writable costs only time. The keys are the complete texts, so no
entry is ever stale.
"""

import atexit
import marshal
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import cache_from_source
from types import CodeType

REPLACED = "exec"
"""The function that `dataclasses` calls to compile methods."""

MAX_TEXTS = 1 << 14
"""The number of texts beyond which no more are kept."""


class CachedMethods:
    """A replacement of `exec` for `dataclasses`, with the cache in the file `path`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.known: dict[str, bytes] = {}
        """
        The marshalled code of each text. A command decodes only the code that it uses: the file has
        the methods of all commands that have run.
        """
        self.is_changed = False
        # Errors of `marshal` in a damaged file have various classes.
        with suppress(Exception), open(path, "rb") as file:
            # `marshal.load` would read the file in steps of few bytes, which takes 8 times as long.
            found: dict[str, bytes] = marshal.loads(file.read())
            self.known = dict(found)

    def run(
        self,
        text: str,
        module: dict[str, object],
        names: Mapping[str, object] | None = None,
    ) -> None:
        """Execute `text` as `exec` does."""
        code: object = None
        with suppress(Exception):  # As above, or the file has no code for this text.
            code = marshal.loads(self.known[text])
        if not isinstance(code, CodeType):
            code = compile(text, "<string>", "exec")
            if len(self.known) < MAX_TEXTS:
                self.known[text] = marshal.dumps(code)
                self.is_changed = True
        exec(code, module, names)

    def save(self) -> None:
        """Write new texts to the file, unless Python shall write no bytecode."""
        if not self.is_changed or sys.dont_write_bytecode:
            return
        # A reader sees the old or the new file, never a part.
        temporary = f"{self.path}.{os.getpid()}"
        with suppress(OSError):
            try:
                os.makedirs(os.path.dirname(self.path), exist_ok=True)
                with open(temporary, "wb") as file:
                    marshal.dump(self.known, file)
                os.replace(temporary, self.path)
            finally:
                with suppress(OSError):
                    os.remove(temporary)


def cache_methods() -> None:
    """
    Let `dataclasses` use the cache until the process ends. Only commands call it: other programs
    that use this package have their own modules.
    """
    import dataclasses

    if REPLACED in vars(dataclasses):
        return
    methods = CachedMethods(f"{cache_from_source(__file__)}.methods")
    setattr(dataclasses, REPLACED, methods.run)
    atexit.register(methods.save)
