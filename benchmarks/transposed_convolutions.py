"""
Compare transposed convolutions in C with ONNX Runtime, each as a network.

    python benchmarks/transposed_convolutions.py [--rounds 5] [--only NAME]...

The script prints a table, see convolution_peers.py.
"""

from collections.abc import Sequence

from convolution_peers import Layer, print_table


def transposed(
    name: str,
    kernel: Sequence[int],
    size: Sequence[int] = (32, 32),
    inputs: int = 64,
    outputs: int = 32,
    groups: int = 1,
    stride: int = 2,
) -> Layer:
    return Layer(name, kernel, stride, size, inputs, outputs, groups, is_transposed=True)


LAYERS = (
    transposed("2x2, stride 2", (2, 2)),
    transposed("3x3, stride 2", (3, 3)),
    transposed("4x4, stride 2", (4, 4)),
    transposed("5x5, stride 2", (5, 5)),
    transposed("3x3, stride 2, 8 outputs", (3, 3), (64, 64), 32, 8),
    transposed("16, stride 8", (16,), (512,), stride=8),
    *(
        transposed(f"4x4, depthwise, {n} channels of {s}x{s}", (4, 4), (s, s), n, n, n)
        for n in (64, 256)
        for s in (14, 28, 56)
    ),
    *(
        transposed(f"{k}x{k}, depthwise, {n} channels of 28x28", (k, k), (28, 28), n, n, n)
        for n in (64, 256)
        for k in (2, 3)
    ),
    *(
        transposed(
            f"{k}x{k}, 64 channels of 28x28 in groups of {c}", (k, k), (28, 28), 64, 64, 64 // c
        )
        for c in (4, 8, 16)
        for k in (2, 3, 4)
    ),
)


if __name__ == "__main__":
    print_table(LAYERS, __doc__)
