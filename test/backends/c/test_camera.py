"""Frames of cameras become images in C as in the interpreter, and as formulas define them."""

import numpy as np
import pytest
from c_harness import check, make_network
from xdsl.dialects.builtin import IntegerType, Signedness

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.camera import Channels, FrameFormat, FrameLayout
from ceras_ir.dialects.graph.pooling import Resize

U8 = IntegerType(8, Signedness.UNSIGNED)
HEIGHT, WIDTH = 10, 14


@pytest.mark.parametrize("format", FrameFormat)
def test_c_computes_what_the_interpreter_computes(format: FrameFormat) -> None:
    """All channels, crops at odd places, and larger, equal and smaller images."""
    random = np.random.default_rng(7)
    layout = FrameLayout(format, HEIGHT, WIDTH)
    cases = [
        (Channels.RGB, Resize.LINEAR, (0, 0, HEIGHT, WIDTH), (HEIGHT, WIDTH)),
        (Channels.BGR, Resize.LINEAR, (1, 3, 7, 9), (5, 20)),
        (Channels.GRAY, Resize.NEAREST, (3, 1, 7, 13), (11, 4)),
        (Channels.RGB, Resize.NEAREST, (9, 13, 1, 1), (3, 2)),
        (Channels.GRAY, Resize.LINEAR, (2, 0, 8, 2), (1, 1)),
    ]
    module = make_network(
        [(U8, layout.shape)],
        lambda v: [
            graph.DecodeFrameOp(v, format, channels, kind, crop, size).result
            for channels, kind, crop, size in cases
        ],
    )
    frames = [random.integers(0, 256, layout.shape, dtype=np.uint8) for _ in range(3)]
    for frame in (*frames, np.zeros_like(frames[0]), np.full_like(frames[0], 255)):
        check(module, {"input0": frame})
