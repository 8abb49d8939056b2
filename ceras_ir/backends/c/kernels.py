"""
The C functions of `runtime/`: templates whose `@NAME@` holes are filled with types.

A model gets the functions that its layers ask for, each once, after those that it needs.
"""

import re
from functools import cache
from importlib.resources import files

from ceras_ir.backends.c.types import float_literal
from ceras_ir.interpreters import float_functions as f

NEEDS = {
    "dsp_band": ("dsp_widen",),
    "dsp_band_padded": ("dsp",),
    "dsp_columns": ("dsp",),
    "dsp_depthwise": ("dsp",),
    "dsp_pairs": ("dsp",),
    "dsp_products": ("dsp",),
    "dsp_winograd_input": ("dsp", "dsp_pairs"),
    "dsp_winograd_weights": ("dsp", "dsp_pairs"),
    "dsp_row_pairs": ("dsp", "dsp_pairs"),
    "dsp_rows": ("dsp_widen",),
    "dsp_tile": ("dsp",),
    "dsp_widen": ("dsp",),
    "gather": ("window",),
    "depthwise": ("window",),
    "lookup": ("lookup_lanes",),
    "lookup_channels": ("lookup_lanes",),
    "sum_window": ("window",),
    "max_window": ("window",),
    "sigmoid_f32": ("exp_f32",),
    "softmax": ("exp_f32",),
    "winograd_f32": ("vectors_f32",),
}
"""Which other functions a template calls."""


@cache
def _template(name: str) -> str:
    text = (files("ceras_ir.backends.c") / "runtime" / f"{name}.c").read_text("ascii")
    if name == "exp_f32":
        first, *rest = (float_literal(float(c)) for c in f.EXP_COEFFICIENTS)
        holes = {
            "LOW": float_literal(float(f.EXP_LOW)),
            "HIGH": float_literal(float(f.EXP_HIGH)),
            "LOG2_E": float_literal(float(f.LOG2_E)),
            "LN2_HIGH": float_literal(float(f.LN2_HIGH)),
            "LN2_LOW": f"({float_literal(float(f.LN2_LOW))})",
            "C0": first,
            "HORNER": "\n".join(f"  p = p * r + {c};" for c in rest),
        }
        return _filled(text, holes)
    return text


def _filled(text: str, holes: dict[str, str]) -> str:
    for hole, value in holes.items():
        text = text.replace(f"@{hole}@", value)
    return text


class Kernels:
    """The functions of one model, in the order they were asked for."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def use(self, name: str, **holes: str) -> str:
        """Ask for a function; returns what it is called."""
        for needed in NEEDS.get(name, ()):
            self.use(needed)
        text = _filled(_template(name), holes)
        assert "@" not in text, text
        suffix = holes.get("NAME")
        function = f"{name}_{suffix}" if suffix else name
        assert self._texts.setdefault(function, text) == text, function
        return function

    def add(self, function: str, text: str, condition: str) -> str:
        """Add a function made for this model under a condition; returns what it is called."""
        text = f"#if {condition}\n{text}#endif\n"
        assert self._texts.setdefault(function, text) == text, function
        return function

    @property
    def text(self) -> str:
        whole = "\n".join(self._texts.values())
        return re.sub(r"^static (?!const )", "MODEL_STATIC ", whole, flags=re.MULTILINE)
