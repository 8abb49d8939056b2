"""
Print the C tables of graph inputs and outputs for the Linux driver of an accelerator.

The type `DeviceTensor` is that of `support/device/samples.h`. Sizes are in bytes.
"""

from xdsl.dialects.func import FuncOp

from ceras_ir.network.artefacts import network_inputs, network_outputs


def c_string(value: str) -> str:
    """Return a C string literal. Bytes other than printable ASCII are octal escapes of 3 digits."""
    plain = (
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in value.encode()
    )
    return f'"{"".join(plain)}"'


def tensor_tables(main: FuncOp) -> tuple[str, str]:
    """
    Return C definitions of the static arrays `inputs` and `outputs` and of the static function
    `run(arena, inputs, outputs)`, which calls `model_run_in`; and their numbers of tensors, as text
    for an initializer.
    """
    tensors = {"inputs": network_inputs(main), "outputs": network_outputs(main)}
    text, arguments = "", ["arena"]
    for table, found in tensors.items():
        # C has no empty arrays.
        rows = [f"  {{{c_string(t.name)}, {t.nbytes}u}},\n" for t in found] or ["  {0, 0},\n"]
        text += f"static const DeviceTensor {table}[] = {{\n{''.join(rows)}}};\n"
        arguments += [f"{table}_[{i}]" for i in range(len(found))]
    text += (
        "\nstatic int run(void *arena, const void *const *inputs_, void *const *outputs_)\n{\n"
        "  (void)inputs_;\n"
        f"  return model_run_in({', '.join(arguments)});\n}}\n\n"
    )
    return text, ", ".join(f"{len(found)}u" for found in tensors.values())
