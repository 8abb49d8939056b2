"""`functions.h` of the engine: every function of floats, made of the interpreters' C texts."""

from ceras_ir.backends.nnet.encoding import FUNCTIONS
from ceras_ir.interpreters.float_text import expression, float_text, needed

HEADER = "functions.h"


def functions_header() -> str:
    """`apply`, which takes a function by its number, and the functions that it calls."""
    names = ["exp_f32"]  # of softmax
    cases: list[str] = []
    for function, number in FUNCTIONS.items():
        parameters = [f"p[{i}]" for i in range(len(function.facts.parameters))]
        called, text = expression(function, "x", parameters)
        names += called
        cases.append(f"    case {number}:\n      return {text};\n")
    bodies = [text.body for name in dict.fromkeys(needed(names)) if (text := float_text(name))]
    functions = "\n".join(bodies).replace("static inline ", "static ").replace("static ", "inline ")
    return (
        f"{functions}\n"
        f"constexpr uint8_t LAST_FUNCTION = {len(FUNCTIONS)};\n\n"
        "inline float apply(Function function, const float* p, float x) {\n"
        "  switch (static_cast<int>(function)) {\n"
        f"{''.join(cases)}"
        "    default:\n      return x;\n  }\n}\n"
    )
