"""The static memory of `model_run`, which takes none of the caller's."""

from ceras_ir.backends.c.model import Model


def own_arrays(model: Model) -> list[str]:
    """What the arrays are called, one for each memory that the arena is made of."""
    return [f"arena_{region}" if region else "arena" for region in model.program.regions]


def own_memory(model: Model, indent: str = "") -> list[str]:
    """Their definitions."""
    lines = ["/* A union, so that any type of element may be stored in it. */"]
    for name, (region, size) in zip(own_arrays(model), model.region_bytes.items(), strict=True):
        section = f"MODEL_SECTION_{region.upper()} " if region else ""
        lines += [
            f"static {section}MODEL_ALIGN(64) union {{",
            f"  unsigned char bytes[{size}];",
            "  float f32;",
            "  int64_t i64;",
            f"}} {name};",
        ]
    return [indent + line for line in lines]
