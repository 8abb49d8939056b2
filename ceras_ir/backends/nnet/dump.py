"""Print an nnet file for people and tests: every table, and constants by size and checksum."""

import zlib

from ceras_ir.backends.nnet.file import Layer, NnetFile, Tensor
from ceras_ir.backends.nnet.reader import read


def dump(data: bytes) -> str:
    """The content of a file as text, one line per entry."""
    file = read(data)
    lines = [f"nnet version 4, {len(data)} bytes", "sections:"]
    lines += [f"  {name}: {len(content)} bytes" for name, content in file.sections.items()]
    lines.append(f"arena: {file.arena_size} bytes, aligned to {file.alignment}")
    lines.append("blocks:")
    for i, block in enumerate(file.blocks):
        lines.append(
            f"  {i}: block {block.id}, bytes [{block.offset}, {block.offset + block.size})"
        )
    lines.append("tensors:")
    lines += [f"  {i}: {_tensor(file, t)}" for i, t in enumerate(file.tensors)]
    for title, borders in (("inputs", file.inputs), ("outputs", file.outputs)):
        lines.append(f"{title}:")
        lines += [f"  '{name}' = tensor {id}" for id, name in borders]
    if file.states:
        lines.append("states:")
        ends = zip(file.inputs[-file.states :], file.outputs[-file.states :], strict=True)
        lines += [f"  '{name}' was '{last}' of the run before" for (_, name), (_, last) in ends]
    lines.append("layers:")
    lines += [f"  {i}: {_layer(layer)}" for i, layer in enumerate(file.layers)]
    return "\n".join(lines) + "\n"


def _tensor(file: NnetFile, tensor: Tensor) -> str:
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    text = f"'{tensor.name}' {shape} {tensor.storage}"
    if tensor.storage != "f32":
        point = f":{tensor.zero_point}" if tensor.zero_point else ""
        text += f" scale {tensor.scale!r}{point}"
    if tensor.location == "arena":
        gaps = f", rows {tensor.pitch} bytes apart" if tensor.pitch else ""
        return f"{text} in block {tensor.block} at {tensor.offset}{gaps}"
    return (
        f"{text} in {tensor.location} at {tensor.offset}, crc {zlib.crc32(file.data(tensor)):08x}"
    )


def _layer(layer: Layer) -> str:
    operands = ", ".join(map(str, layer.operands))
    text = f"{layer.opcode} on {layer.device} '{layer.name}' ({operands}) -> {layer.result}"
    if layer.attributes:
        text += f" attributes {list(layer.attributes)}"
    if layer.function != "none":
        text += f" function {layer.function} {list(layer.parameters)}"
    if layer.residual:
        text += f" residual << {layer.residual_shift}"
    if (r := layer.requant) is not None:
        factor = f"* {r.multiplier} " if r.multiplier != 1 else ""
        factor = "* multipliers " if layer.multipliers else factor
        point = f" + {r.zero_point}" if r.zero_point else ""
        text += f" requant {factor}>> {r.shift} {r.rounding}{point} in [{r.low}, {r.high}]"
    return text if layer.table is None else f"{text} table {layer.table}"
