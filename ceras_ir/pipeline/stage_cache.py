"""
Run the stages that lead to the quantized graph once for all who need them.

A step is some passes. Its key is the digest of the network before it and the text of its passes
with files replaced by their digests; what it keeps is the digest of the network behind it. So steps
that differ and come to the same network share all that follows. Steps end behind passes that have
options, because those are where two pipelines part and may come together again.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from hashlib import file_digest, sha256
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.image_folder import SUFFIXES
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import TextCarrier, read_network
from ceras_ir.pipeline.pass_options import spell, spell_pipeline
from ceras_ir.pipeline.stages import run_stages
from ceras_ir.support.content_cache import ContentCache, key_of
from ceras_ir.support.diagnostics import InputError
from ceras_ir.targets.protocol import Stage
from ceras_ir.transforms.pass_kinds import flatten


class StageCache:
    """Networks at the levels above a target's, as text, in a cache."""

    def __init__(self, cache: ContentCache):
        self.cache = cache

    def source(
        self, path: str, *, batch: int = 1, shapes: Mapping[str, Sequence[int]] | None = None
    ) -> "CachedModule":
        """The network in a file."""
        key = key_of(compiler_digest(), "network", digest_of(path), str(batch), repr(shapes))

        def make() -> ModuleOp:
            return read_network(path, batch=batch, shapes=shapes)

        return CachedModule(self, lambda: key, make)

    def behind(self, source: "CachedModule", stages: Sequence[Stage]) -> "CachedModule":
        """`source` after `stages`; nothing runs before the network is asked for."""
        for stage in stages:
            for step in _steps(stage):
                source = self._behind(source, step)
        return source

    def _behind(self, before: "CachedModule", step: Stage) -> "CachedModule":
        passes = spell_pipeline(step.passes, lambda _, value: with_digests(value))

        def make() -> ModuleOp:
            module = before.module()
            run_stages(load_context(), module, [step])
            return module

        return CachedModule(self, lambda: key_of(compiler_digest(), before.digest, passes), make)


def _steps(stage: Stage) -> Iterator[Stage]:
    """The passes of a stage, cut behind those that have options."""
    passes = [inner for each in stage.passes for inner in flatten(each)]
    start = 0
    for end, each in enumerate(passes, start=1):
        if end == len(passes) or "{" in spell_pipeline([each]):
            yield replace(stage, passes=tuple(passes[start:end]))
            start = end


class CachedModule:
    """A network that is read from the cache, or made and kept there, when it is asked for."""

    def __init__(self, stages: StageCache, key: Callable[[], str], make: Callable[[], ModuleOp]):
        self._cache, self._key, self._make = stages.cache, key, make

    @cached_property
    def digest(self) -> str:
        """What the network is, however it came to be."""
        return self._cache.computed(self._key(), self._made).decode()

    def module(self) -> ModuleOp:
        """A module of the caller's own."""
        if self.digest not in _PARSED:
            # The text may have been removed to make room, and its digest not.
            text = self._cache.computed(self.digest, lambda: TextCarrier().pack(self._make()))
            # Even the one who made it goes on from the text: all see the same.
            _PARSED[self.digest] = TextCarrier().unpack(text)
        _PARSED.move_to_end(self.digest)
        while len(_PARSED) > KEPT:
            _PARSED.popitem(last=False)
        return _PARSED[self.digest].clone()

    def _made(self) -> bytes:
        text = TextCarrier().pack(self._make())
        digest = key_of(text)
        self._cache.put(digest, text)
        return digest.encode()


KEPT = 8
"""Networks that a process has parsed and keeps: parsing takes far longer than a copy."""

_PARSED: OrderedDict[str, ModuleOp] = OrderedDict()


@cache
def compiler_digest() -> str:
    """The digest of this package: what another version computed is not looked at."""
    root = Path(__file__).parents[1]
    found = sha256()
    for path in sorted(p for p in root.rglob("*") if p.is_file() and p.suffix != ".pyc"):
        found.update(path.relative_to(root).as_posix().encode() + b"\0")
        found.update(path.read_bytes())
    return found.hexdigest()


_DIGESTS: dict[tuple[str, int, int], str] = {}
"""Of files by path, time and size: a study asks for the same ones at every point."""


def digest_of(path: str) -> str:
    """The digest of a file, or of the names and content of the images below a folder."""
    place = Path(path)
    try:
        if place.is_dir():
            files = sorted(p for p in place.rglob("*") if p.suffix.lower() in SUFFIXES)
            return key_of(*(part for p in files for part in (p.name, digest_of(str(p)))))
        status = place.stat()
        key = str(place.resolve()), status.st_mtime_ns, status.st_size
        if key not in _DIGESTS:
            with open(place, "rb") as stream:
                _DIGESTS[key] = file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from None
    return _DIGESTS[key]


def with_digests(value: object) -> object:
    """An option's value with the files that it names replaced by what is in them."""
    if not isinstance(value, str):
        return value
    return ",".join(_identified(value))


def _identified(text: str) -> Iterator[str]:
    parts = [text] if Path(text).exists() else text.split(",")
    for part in parts:
        path, mark, options = part.partition("?")
        yield f"{digest_of(path)}{mark}{options}" if path and Path(path).exists() else part


def spelled(value: object) -> str:
    """An option's value as part of a key."""
    return spell(with_digests(value))
