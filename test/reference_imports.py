"""
Compare each model that a test imports with a reference, as `ceras-verify` does.

CERAS_REFERENCE=all compares all models and CERAS_REFERENCE=none compares no model. By default the
digest of a model selects a quarter of the models. Large models and long loops are left out.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from math import prod

import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.sample_stream import signed_sample
from ceras_ir.dialects.graph import LoopOp, shape_of
from ceras_ir.driver.verify.model_check import AsImported
from ceras_ir.driver.verify.model_reference import ModelReference, NoReferenceError
from ceras_ir.frontends.onnx.importer import Importer

SHARE = 4
"""The inverse of the default share of models to compare."""

MAX_ELEMENTS = 1 << 20
"""The default limit for the elements of all tensors of a model."""

MAX_STEPS = 64
"""The default limit for the steps of a loop in a model."""

_seen: set[str] = set()
_suspended = False


@contextmanager
def suspended() -> Generator[None]:
    """Disable the comparison for importers that are wrong on purpose."""
    global _suspended
    _suspended = True
    try:
        yield
    finally:
        _suspended = False


def install(patch: pytest.MonkeyPatch) -> None:
    """Compare models whenever they are imported."""
    start, emit = Importer.__init__, Importer.module
    originals: dict[int, onnx.ModelProto] = {}

    def init(self: Importer, model: onnx.ModelProto, **options: object) -> None:
        start(self, model, **options)  # pyright: ignore[reportArgumentType]
        originals[id(self)] = model

    def module(self: Importer, *, emits_always: bool = False) -> ModuleOp:
        original = originals.pop(id(self))
        emitted = emit(self, emits_always=emits_always)
        if not _suspended:
            _compare(self, original, emitted)
        return emitted

    patch.setattr(Importer, "__init__", init)
    patch.setattr(Importer, "module", module)


def _compare(importer: Importer, model: onnx.ModelProto, module: ModuleOp) -> None:
    mode = os.environ.get("CERAS_REFERENCE", "")
    digest = sha256(model.SerializeToString()).hexdigest()
    if mode == "none" or digest in _seen or (mode != "all" and int(digest[:8], 16) % SHARE):
        return
    _seen.add(digest)
    loops = [op for op in module.walk() if isinstance(op, LoopOp)]
    if mode != "all" and any(op.step_count > MAX_STEPS for op in loops):
        return
    try:
        folder = None if importer.folder is None else importer.folder.path
        reference = ModelReference(model, importer.named, folder)
        imported = AsImported(model, module, importer.named, reference, importer.sized)
        if mode != "all" and sum(prod(shape_of(v)) for v in imported.names) > MAX_ELEMENTS:
            return
        imported.compare(signed_sample(imported.main))
    except NoReferenceError:
        return
