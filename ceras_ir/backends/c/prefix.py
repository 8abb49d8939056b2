"""
The prefix of all that a model's C names outside of functions: `--name`.

Templates and printers write `model_run`, `MODEL_OK` and `model.h`. This is the one place that
renames them, so that two models link into one program. What a comment quotes of the user's network
stays as it is: there only names of the interface are renamed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ceras_ir.backends.c.names import KEYWORDS, LOCAL
from ceras_ir.support.diagnostics import InputError, UsageError

DEFAULT = "model"
MAX_LETTERS = 40

_LEGAL = re.compile(rf"[A-Za-z][A-Za-z0-9_]{{0,{MAX_LETTERS - 1}}}")
_COMMENT = re.compile(r"(/\*.*?\*/|//[^\n]*)", re.DOTALL)
_FILE = r"\bmodel(?=\.(?:h|c|o|weights)\b)"
_CODE = re.compile(rf"(?:\b|(?<=-D))(?:model(?=_\w)|MODEL(?=_\w)|(?:layer|LAYER)(?=_\d))|{_FILE}")
_INTERFACE = re.compile(
    r"(?:\b|(?<=-D))(?:model"
    r"(?=_(?:run|run_in|reset|reset_in|self_test|launch|load_weights|trace|weights|kernels|bench)\b)"
    rf"|MODEL(?=_[A-Z.]))|{_FILE}"
)


@dataclass(frozen=True)
class Prefix:
    """A name that replaces `model`."""

    name: str = DEFAULT

    def __post_init__(self) -> None:
        if not _LEGAL.fullmatch(self.name):
            raise UsageError(
                f"--name '{self.name}' does not begin names of C: take a letter, then up to "
                f"{MAX_LETTERS - 1} letters, digits and underscores"
            )
        if self.name.lower() in KEYWORDS | LOCAL:
            raise UsageError(f"--name '{self.name}' is a word of C or of its code: add to it")

    @classmethod
    def of_manifest(cls, content: Mapping[str, object]) -> "Prefix":
        """The prefix of a compiled folder; files of that name are opened, so it is checked."""
        name = content.get("prefix", DEFAULT)
        try:
            if isinstance(name, str):
                return cls(name)
        except UsageError:
            pass
        raise InputError(f"names no prefix of C files, but {name!r}; compile again")

    def entry(self) -> dict[str, object]:
        """What a manifest says of it."""
        return {} if self.name == DEFAULT else {"prefix": self.name}

    def renamed(self, text: str) -> str:
        """C, C++ or text of build files with this prefix."""
        if self.name == DEFAULT:
            return text
        parts = _COMMENT.split(text)
        parts[::2] = [_CODE.sub(self._spelled, part) for part in parts[::2]]
        parts[1::2] = [_INTERFACE.sub(self._spelled, part) for part in parts[1::2]]
        return "".join(parts)

    def _spelled(self, found: re.Match[str]) -> str:
        match found[0]:
            case "model":
                return self.name
            case "MODEL":
                return self.name.upper()
            case "layer":
                return f"{self.name}_layer"
            case word:
                return f"{self.name.upper()}_{word}"


MODEL = Prefix()
"""What templates are written with."""
