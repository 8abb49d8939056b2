"""One input of a network, for what needs an example of its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ceras_ir.interpreters.network import Array


def first_sample(module: ModuleOp, data: str | None) -> Mapping[str, Array]:
    """The first of the calibration data; made up, with a fixed seed, where there is none."""
    from ceras_ir.network.function import main_function

    main = main_function(module)
    if data is not None:
        from ceras_ir.data.sample_stream import stream_samples
        from ceras_ir.network.artefacts import network_inputs

        return next(stream_samples(data, network_inputs(main), 1)[1])
    from ceras_ir.data.synthetic_samples import synthetic_samples

    return synthetic_samples(main, 1, 0)[0]
