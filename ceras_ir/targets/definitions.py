"""
Check the members of classes that a plugin defines, and name the file, the class and the member.

Passes, targets and accelerators are checked when they are loaded. Commands check the methods that
they need, such as `open`, before they read the network.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature, get_annotations, getattr_static, signature
from types import CodeType, FunctionType

from ceras_ir.command.exit_status import Diagnostic
from ceras_ir.support.diagnostics import UnsupportedError, UsageError, did_you_mean

TARGET_PAGE = "docs/new-target.md"

CONSEQUENCES = {
    "lower": "has no levels",
    "emit": "writes no files",
    "open": "cannot run what it compiles",
}
"""The methods of a target that commands need, and the consequence of a missing method."""


@dataclass(frozen=True)
class Contract:
    """
    The requirements on a plugin class: the base class, attributes, and the page that describes
    them.
    """

    base: type[object]
    page: str = TARGET_PAGE
    attributes: tuple[str, ...] = ()
    """Attributes without a default that a class must have, in addition to abstract methods."""

    def defects(self, cls: type, show: Callable[[str], str]) -> Iterator[Diagnostic]:
        """
        Yield an error for each member of `cls` that is missing, or that does not match the base
        class. `show` converts the path of a file to the printed name.
        """
        for code, message in self._findings(cls):
            line = first_line(cls) if code is None else code.co_firstlineno
            text = f"class {cls.__name__} {message} ({self.page})"
            yield Diagnostic(text, show(file_of(cls)), line)

    def _findings(self, cls: type) -> Iterator[tuple[CodeType | None, str]]:
        """
        Yield the code of each wrong method, or `None` if the finding concerns the class, and a
        message.
        """
        # A class with subclasses can leave members to them.
        if not cls.__subclasses__():
            for name in sorted(getattr(cls, "__abstractmethods__", ())):
                yield None, f"has no method '{name}'{_similar(cls, name)}"
            for name in self.attributes:
                if not hasattr(cls, name):
                    yield None, f"has no attribute '{name}': add {name} = \"...\""
        if fields := [name for name in _fields(cls) if not hasattr(self.base, name)]:
            message = f"has the option '{fields[0]}' but is no dataclass"
            yield None, f"{message}: add @dataclass(frozen=True)"
        for name, member in vars(cls).items():
            expected = getattr_static(self.base, name, None)
            if not name.startswith("_") and (message := _mismatch(member, expected)) is not None:
                function = _function(member)
                yield None if function is None else function.__code__, message.format(name)


def _mismatch(member: object, expected: object) -> str | None:
    """
    Return the reason why `member` cannot override `expected`, a member of the base class; `None` if
    it can. `{}` in the text is replaced by the name of the method.
    """
    wanted, given = _function(expected), _function(member)
    if wanted is not None:
        if given is None:
            return None if callable(member) or hasattr(member, "__get__") else "needs a method '{}'"
        if type(expected) is not type(member):
            if isinstance(expected, classmethod):
                return "needs @classmethod above method '{}'"
            return f"has @{type(member).__name__} above method '{{}}': remove it"
        if not _accepts(signature(given), signature(wanted)):
            names = " and not ".join(
                f"({', '.join(signature(f).parameters)})" for f in (wanted, given)
            )
            return f"needs the parameters {names} in method '{{}}'"
        return None
    if expected is None or isinstance(expected, property):
        return None
    kind = Mapping if isinstance(expected, Mapping) else type(expected)
    if isinstance(member, kind) or hasattr(member, "__get__"):
        return None
    return f"has attribute '{{}}' of type {type(member).__name__}, expected {kind.__name__}"


def _accepts(given: Signature, wanted: Signature) -> bool:
    """
    Return whether a function with the signature `given` can be called with all arguments of
    `wanted`, the signature in the base class.
    """
    parameters = wanted.parameters.values()
    keywords = [p.name for p in parameters if p.kind is Parameter.KEYWORD_ONLY]
    try:
        given.bind(*[None] * (len(parameters) - len(keywords)), **dict.fromkeys(keywords))
    except TypeError:
        return False
    return True


def _function(member: object) -> FunctionType | None:
    """Return the Python function of a method or class method; `None` for any other member."""
    function: object = getattr(member, "__func__", member)
    return function if isinstance(function, FunctionType) else None


def _fields(cls: type) -> list[str]:
    """
    Return the annotated names of `cls` if it is no dataclass, else []. They are options that the
    author forgot to make fields.
    """
    if "__dataclass_fields__" in vars(cls):
        return []
    return [name for name, kind in get_annotations(cls).items() if "ClassVar" not in str(kind)]


def _similar(cls: type, name: str) -> str:
    return did_you_mean(name, [n for n, v in vars(cls).items() if callable(v)])


def require_device(target: str, accelerator: object) -> None:
    """Raise a `UsageError` if the accelerator of a target has no attribute `device`."""
    if not hasattr(accelerator, "device"):
        cls = type(accelerator)
        raise UsageError(
            f"target {target}: class {cls.__name__} has no attribute 'device': name the device "
            f'with a word, such as device = "npu" ({TARGET_PAGE})',
            _nearby(file_of(cls)),
        )


def require_methods(cls: type, base: type, *names: str) -> None:
    """
    Raise an `UnsupportedError` if the target `cls` does not override one of the methods `names` of
    `base`.
    """
    for name in names:
        if getattr_static(cls, name) is getattr_static(base, name):
            raise missing_method(cls, name)


def missing_method(cls: type, name: str) -> UnsupportedError:
    """
    Return the error about the method `name`, which a command needs and the target `cls` does not
    define.
    """
    return UnsupportedError(
        f"unsupported: target {getattr(cls, 'name', '')} {CONSEQUENCES[name]}, because class "
        f"{cls.__name__} has no method '{name}'{_similar(cls, name)} ({TARGET_PAGE})",
        _nearby(file_of(cls)),
    )


def file_of(cls: type) -> str:
    """Return the path of the file that defines `cls`; "" for a class of an interactive session."""
    return getattr(sys.modules.get(cls.__module__), "__file__", None) or ""


def _nearby(file: str) -> str | None:
    """Return the shorter of the absolute and the relative path of a file; `None` for ""."""
    return min(file, os.path.relpath(file), key=len) if file else None


def first_line(cls: type) -> int | None:
    """Return the line number of the statement `class`; `None` if the source is not available."""
    # Only an error needs the source.
    from inspect import findsource

    try:
        return findsource(cls)[1] + 1
    except (OSError, TypeError):
        return None
