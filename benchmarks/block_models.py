"""
Convert matrix products of an ONNX model to weights in blocks: MatMulNBits of ONNX Runtime.

    python benchmarks/block_models.py MODEL.onnx OUT.onnx [--bits 4] [--block 32] [--level 4]
        [--scales float32|float16]

Each block of weights along the input axis has a float scale, and no zero point. As in the quantizer
of ONNX Runtime, the extreme weight of a block becomes the lowest integer. With `--scales float16`,
scales have the values of float16, in tensors of float32 as the operator requires. Products with
computed weights remain.
"""

import argparse
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper


def quantized(
    weights: NDArray[np.float32], bits: int, block: int, scale_type: str
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Return packed integers [N, blocks, bytes] and scales [N * blocks] of weights [N, K]."""
    n, k = weights.shape
    blocks = -(-k // block)
    padded = np.zeros((n, blocks * block), np.float32)
    padded[:, :k] = weights
    split = padded.reshape(n, blocks, block)
    low = 1 << bits - 1
    at = np.abs(split).argmax(2, keepdims=True)
    extreme = np.take_along_axis(split, at, 2) / np.float32(-low)
    scales = extreme.astype(scale_type).astype(np.float32)
    inverse = np.divide(1, scales, where=scales != 0, out=np.zeros_like(scales))
    integers = np.clip(np.rint(split * inverse), -low, low - 1) + low
    fields = integers.astype(np.uint8).reshape(n, blocks, -1, 8 // bits)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(fields << shifts, 3), scales.reshape(-1)


def in_blocks(
    model: onnx.ModelProto,
    bits: int = 4,
    block: int = 32,
    level: int = 4,
    scale_type: str = "float32",
) -> onnx.ModelProto:
    """Return the model with constant weights of MatMul in blocks. `level` is accuracy_level."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    known = {t.name: t for t in graph.initializer}
    for node in graph.node:
        if node.op_type != "MatMul" or node.input[1] not in known:
            continue
        tensor = known[node.input[1]]
        weights = numpy_helper.to_array(tensor).astype(np.float32)
        (k, n), name = weights.shape, tensor.name
        packed, scales = quantized(np.ascontiguousarray(weights.T), bits, block, scale_type)
        graph.initializer.remove(tensor)
        graph.initializer.append(numpy_helper.from_array(packed, name))
        graph.initializer.append(numpy_helper.from_array(scales, f"{name}_scales"))
        inputs = [node.input[0], name, f"{name}_scales"]
        node.CopyFrom(
            helper.make_node(
                "MatMulNBits", inputs, list(node.output), node.name, domain="com.microsoft",
                K=k, N=n, bits=bits, block_size=block, accuracy_level=level,
            )
        )  # fmt: skip
    copy.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return copy


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--bits", type=int, choices=(2, 4, 8), default=4)
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--level", type=int, default=4)
    parser.add_argument("--scales", choices=("float32", "float16"), default="float32")
    arguments = parser.parse_args()
    model = onnx.ModelProto.FromString(arguments.model.read_bytes())
    sizes = arguments.bits, arguments.block, arguments.level
    changed = in_blocks(model, *sizes, arguments.scales)
    arguments.out.write_bytes(changed.SerializeToString())


if __name__ == "__main__":
    main()
