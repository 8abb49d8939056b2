"""Every level and target on the same inputs, as `ceras-verify` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ceras_ir.api import html
from ceras_ir.api.diagnosed import diagnosed
from ceras_ir.api.model import Model
from ceras_ir.api.samples import Data, read_samples
from ceras_ir.data.image_options import ImageOptions
from ceras_ir.driver.differences import Verdict
from ceras_ir.driver.target_options import compiling_targets
from ceras_ir.driver.verify.levels import check_request, verifications
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import configured, find_target


@dataclass(frozen=True)
class Verification:
    """One verdict per level; true if every level is good."""

    verdicts: tuple[Verdict, ...]
    samples: int

    @property
    def ok(self) -> bool:
        return all(verdict.good for verdict in self.verdicts)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = (f"{verdict.level:32} {verdict.text}" for verdict in self.verdicts)
        return "\n".join([f"{self.samples} sample(s)", *lines])

    def _repr_html_(self) -> str:
        rows = [[v.level, "yes" if v.good else "NO", v.text] for v in self.verdicts]
        title = html.paragraph(f"{'all' if self.ok else 'NOT all'} levels agree")
        return html.joined([title, html.table(["level", "good", "what"], rows)])


def verify(
    model: Model,
    inputs: Data | None = None,
    *,
    targets: Sequence[str] | None = None,
    board: str | None = None,
    samples: int | None = None,
    images: ImageOptions | None = None,
) -> Verification:
    """
    Run `model` at every level and on every target, by default all that `ceras-verify` takes, on
    the first `samples` of `inputs`, or on made-up ones. A model that `quantize` made keeps its
    scales; another one is quantized as the target asks.
    """
    if isinstance(targets, str):
        raise UsageError("targets is a list of names")
    classes = (
        [cls for cls in compiling_targets() if cls.verified_by_default]
        if targets is None
        else [find_target(name) for name in targets]
    )
    if not classes:
        raise UsageError("targets is empty: name some")
    if useless := [cls.name for cls in classes if not cls.compiles]:
        raise UsageError(f"target {useless[0]} is the reference that others are compared with")
    options = model.options
    verdicts: list[Verdict] = []
    with diagnosed(model.title):
        check_request(options.quantize, classes, samples)
        data = None
        if inputs is not None:
            data = list(read_samples(inputs, model.inputs, "inputs", images).first(samples))
        chosen: list[Target] = [configured(cls.name, board) for cls in classes]
        count = 0
        options = replace(options, target=chosen[0])
        for found, group in verifications(model.module, options, chosen, data, samples):
            count = len(found.samples)
            verdicts += found.run(group)
    return Verification(tuple(verdicts), count)
