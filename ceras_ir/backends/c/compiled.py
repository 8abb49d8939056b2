"""A folder of target c, or the host part of one for an accelerator, run through the host's cc."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.prefix import MODEL, Prefix
from ceras_ir.backends.c.runner import CModel, Launch
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.targets.execution import Array, Sample, Trace


class CompiledC:
    """
    The C in `folder`; `launch` runs what the host hands to an accelerator, and `image` is the
    memory that both share.
    """

    def __init__(
        self,
        folder: Path,
        inputs: list[TensorInfo],
        outputs: list[TensorInfo],
        launch: Launch | None = None,
        image: NDArray[np.uint8] | None = None,
        prefix: Prefix = MODEL,
    ):
        self.folder, self.inputs, self.outputs = folder, inputs, outputs
        self.launch, self.image, self.prefix = launch, image, prefix
        self._model: CModel | None = None

    def build(self, trace: Trace | None = None) -> CModel:
        model = CModel(
            self.folder,
            self.inputs,
            self.outputs,
            trace=trace,
            launch=self.launch,
            prefix=self.prefix,
        )
        if self.image is not None:
            model.use_arena(self.image)
        return model

    def run(self, samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        self._model = self._model or self.build()
        self._model.reset()
        for sample in samples:
            yield self._model.run(sample)

    def trace(self, sample: Sample, trace: Trace) -> None:
        self.build(trace).run(sample)
