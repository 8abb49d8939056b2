"""
Run the stages that lead to the quantized graph once, and share the results.

A step is a list of passes. Its key is the digest of the network before the step, and the text of
the passes with digests in place of files. The stored value is the digest of the network after the
step. Different steps that lead to equal networks therefore share all later steps. A step ends after
a pass with options, because pipelines with different options diverge at such a pass, and can lead
to equal networks again after it.
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
from ceras_ir.support.diagnostics import InputError, with_remedy
from ceras_ir.support.files import ContentCache, key_of
from ceras_ir.support.user_files import regular
from ceras_ir.targets.protocol import Stage
from ceras_ir.transforms.pass_kinds import flatten


class StageCache:
    """
    A cache of networks as IR text, at the levels above those of a target. Compilations that begin
    with the same passes share the results.
    """

    def __init__(self, cache: ContentCache):
        self.cache = cache

    def source(
        self, path: str, *, batch: int = 1, shapes: Mapping[str, Sequence[int]] | None = None
    ) -> "CachedModule":
        """
        Return the network in the file at `path`, which is parsed when it is needed. For `batch` and
        `shapes` see `read_network`.
        """
        key = key_of(compiler_digest(), "network", digest_of(path), str(batch), repr(shapes))

        def make() -> ModuleOp:
            return read_network(path, batch=batch, shapes=shapes)

        return CachedModule(self, lambda: key, make)

    def after(self, source: "CachedModule", stages: Sequence[Stage]) -> "CachedModule":
        """Return `source` after `stages`; they run when the network is needed."""
        for stage in stages:
            for step in _steps(stage):
                source = self._after(source, step)
        return source

    def _after(self, before: "CachedModule", step: Stage) -> "CachedModule":
        passes = spell_pipeline(step.passes, lambda _, value: with_digests(value))

        def make() -> ModuleOp:
            module = before.module()
            run_stages(load_context(), module, [step])
            return module

        return CachedModule(self, lambda: key_of(compiler_digest(), before.digest, passes), make)


def _steps(stage: Stage) -> Iterator[Stage]:
    passes = [inner for each in stage.passes for inner in flatten(each)]
    start = 0
    for end, each in enumerate(passes, start=1):
        if end == len(passes) or "{" in spell_pipeline([each]):
            yield replace(stage, passes=tuple(passes[start:end]))
            start = end


class CachedModule:
    """A network that is loaded from the cache, or computed and stored, when it is needed."""

    def __init__(self, stages: StageCache, key: Callable[[], str], make: Callable[[], ModuleOp]):
        self._cache, self._key, self._make = stages.cache, key, make

    @cached_property
    def digest(self) -> str:
        """
        The digest of the IR text of the network. Equal networks have equal digests, also if
        different passes created them.
        """
        return self._cache.computed(self._key(), self._made).decode()

    def module(self) -> ModuleOp:
        """Return a copy of the network, which the caller may change."""
        if self.digest not in _PARSED:
            # The cache may have evicted the text and kept the digest.
            text = self._cache.computed(self.digest, lambda: TextCarrier().pack(self._make()))
            # The process that computed the text parses it too, so all processes use equal modules.
            _PARSED[self.digest] = TextCarrier().unpack(text)
        _PARSED.move_to_end(self.digest)
        while len(_PARSED) > MAX_PARSED_NETWORKS:
            _PARSED.popitem(last=False)
        return _PARSED[self.digest].clone()

    def _made(self) -> bytes:
        text = TextCarrier().pack(self._make())
        digest = key_of(text)
        self._cache.put(digest, text)
        return digest.encode()


MAX_PARSED_NETWORKS = 8
"""The number of parsed networks that a process keeps: parsing is much slower than a copy."""

_PARSED: OrderedDict[str, ModuleOp] = OrderedDict()


@cache
def compiler_digest() -> str:
    """
    Return the digest of the files of this package. It is a part of each key, so that results of
    other versions are not used.
    """
    root = Path(__file__).parents[1]
    found = sha256()
    for path in sorted(p for p in root.rglob("*") if p.is_file() and p.suffix != ".pyc"):
        found.update(path.relative_to(root).as_posix().encode() + b"\0")
        found.update(path.read_bytes())
    return found.hexdigest()


_DIGESTS: dict[tuple[str, int, int], str] = {}
"""Digests by path, time and size: a study needs the same files at each point."""


def digest_of(path: str) -> str:
    """Return the digest of a file, or of the names and content of the images in a folder."""
    place = Path(path)
    try:
        if place.is_dir():
            files = sorted(p for p in place.rglob("*") if p.suffix.lower() in SUFFIXES)
            return key_of(*(part for p in files for part in (p.name, digest_of(str(p)))))
        status = place.stat()
        key = str(place.resolve()), status.st_mtime_ns, status.st_size
        if key not in _DIGESTS:
            with open(regular(place), "rb") as stream:
                _DIGESTS[key] = file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read: {with_remedy(error, path)}", path) from None
    return _DIGESTS[key]


def with_digests(value: object) -> object:
    """
    Return the value of an option with each file that it names replaced by a digest, so that a key
    depends on the content of the files.
    """
    if not isinstance(value, str):
        return value
    return ",".join(_identified(value))


def _identified(text: str) -> Iterator[str]:
    parts = [text] if Path(text).exists() else text.split(",")
    for part in parts:
        path, mark, options = part.partition("?")
        yield f"{digest_of(path)}{mark}{options}" if path and Path(path).exists() else part


def spelled(value: object) -> str:
    """
    Return the value of an option as part of a key of the cache: files are replaced by their
    digests.
    """
    return spell(with_digests(value))
