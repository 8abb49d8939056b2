"""
Run the stages that lead to the quantized graph once for all who need them.

The key of a stage is the key of the one before, the text of its passes with files replaced by
their digests, and the digest of the compiler. Pipelines are spelled as the passes in them, so that
targets with the same passes share a stage whatever they are called.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import file_digest, sha256
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.image_folder import SUFFIXES
from ceras_ir.pipeline.carrier import TextCarrier
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.pass_options import spell, spell_pipeline
from ceras_ir.pipeline.reading import read_network
from ceras_ir.pipeline.stages import run_stages
from ceras_ir.support.content_cache import ContentCache, key_of
from ceras_ir.support.diagnostics import InputError
from ceras_ir.targets.protocol import Stage
from ceras_ir.transforms.pipeline import flatten


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

        return CachedModule(self, key, make)

    def behind(self, source: "CachedModule", stages: Sequence[Stage]) -> "CachedModule":
        """`source` after `stages`; nothing runs before the module is asked for."""
        for stage in stages:
            source = self._behind(source, stage)
        return source

    def _behind(self, before: "CachedModule", stage: Stage) -> "CachedModule":
        passes = [inner for each in stage.passes for inner in flatten(each)]
        key = key_of(before.key, spell_pipeline(passes, lambda _, value: with_digests(value)))

        def make() -> ModuleOp:
            module = before.module()
            run_stages(load_context(), module, [stage])
            return module

        return CachedModule(self, key, make)


class CachedModule:
    """A network that is read from the cache, or made and kept there, when it is asked for."""

    def __init__(self, stages: StageCache, key: str, make: Callable[[], ModuleOp]):
        self._stages, self.key, self._make = stages, key, make

    def module(self) -> ModuleOp:
        """A module of the caller's own."""
        carrier = TextCarrier()
        text = self._stages.cache.computed(self.key, lambda: carrier.pack(self._make()))
        # Even the one who made it goes on from the text: all see the same.
        return carrier.unpack(text)


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
