"""
Assertions that files of one model were compiled together.

Two models have files of the same names. Where one is mixed with another's, the numbers of
elements differ somewhere, and compilation stops instead of the program reading garbage.
"""

from ceras_ir.backends.c.model import Model


def consistency_checks(model: Model) -> str:
    """One assertion per constant, for where `model.h` and `model_weights.h` are included."""
    lines = [
        "/* Compilation stops here if a file of another model is mixed in. */",
        f"MODEL_STATIC_ASSERT(MODEL_ARENA_BYTES == {model.arena_bytes}, arena_of_this_model);",
    ]
    lines += [
        f"MODEL_STATIC_ASSERT(MODEL_{name.upper()}_SIZE == {tensor.size}, {name}_of_this_model);"
        for tensor, name in zip(model.tensors, model.names, strict=True)
    ]
    if model.options.weights == "source":
        for c in model.pool.constants:
            lines += c.conditional(
                f"MODEL_STATIC_ASSERT(sizeof({c.name.upper()}) == {c.nbytes}, {c.name}_size);"
            )
    return "\n".join(lines) + "\n"
