"""
Compare depthwise, grouped and dilated convolutions in C with ONNX Runtime, each as a network.

    python benchmarks/grouped_convolutions.py [--rounds 5] [--only NAME]...

The script prints a table, see convolution_peers.py. Convolutions of one dimension are like those of
audio networks.
"""

from convolution_peers import Layer, print_table

LAYERS = (
    *(
        Layer(
            f"{k}x{k}, stride {s}, depthwise, {n} of {size}x{size}",
            (k, k),
            s,
            (size, size),
            n,
            n,
            n,
        )
        for k in (3, 5, 7)
        for s in (1, 2)
        for n, size in ((64, 56), (256, 14))
    ),
    *(
        Layer(
            f"3x3, stride {s}, 128 of 28x28 in groups of {c}",
            (3, 3),
            s,
            (28, 28),
            128,
            128,
            128 // c,
        )
        for c in (4, 8, 16, 32)
        for s in (1, 2)
    ),
    Layer("3x3, dilation 2, 64 of 28x28", (3, 3), 1, (28, 28), dilation=2),
    *(Layer(f"3, dilation {d}, 64 of 400", (3,), 1, (400,), dilation=d) for d in (1, 2, 4, 8)),
    Layer("9, 64 of 400", (9,), 1, (400,)),
    Layer("9, 64 of 400 in groups of 16", (9,), 1, (400,), groups=4),
    *(Layer(f"{k}, depthwise, 256 of 400", (k,), 1, (400,), 256, 256, 256) for k in (3, 9, 31)),
)


if __name__ == "__main__":
    print_table(LAYERS, __doc__)
