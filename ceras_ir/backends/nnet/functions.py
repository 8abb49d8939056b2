"""`functions.h` of the engine: every function of floats, made of the interpreters' C texts."""

from ceras_ir.backends.nnet.encoding import FUNCTIONS
from ceras_ir.interpreters.float_text import expression, float_text, needed

HEADER, STRICT = "functions.h", "strict_floats.h"


def functions_header() -> str:
    """
    `apply_all`, which replaces values by those of a function, taken by its number, and what it
    calls.
    """
    names = ["exp_f32", "sum_f32", "power_f32"]  # of softmax and binary
    cases: list[str] = []
    for function, number in FUNCTIONS.items():
        parameters = [f"p[{i}]" for i in range(len(function.facts.parameters))]
        called, text = expression(function, "x", parameters)
        names += called
        each = f"const float x = values[i];\n        values[i] = {text};\n"
        loop = f"for (int64_t i = 0; i < count; ++i) {{\n        {each}      }}\n"
        cases.append(f"    case {number}:\n      {loop}      return;\n")
    bodies = [text.body for name in dict.fromkeys(needed(names)) if (text := float_text(name))]
    functions = "\n".join(bodies).replace("static inline ", "static ").replace("static ", "inline ")
    return (
        f"{functions}\n"
        f"constexpr uint8_t LAST_FUNCTION = {len(FUNCTIONS)};\n\n"
        "// A loop for each function, which compilers make vectors of.\n"
        "inline void apply_all(Function function, const float* parameters, float* values,\n"
        "                      int64_t count) {\n"
        "  const float p[] = {parameters[0], parameters[1]};\n"
        "  switch (static_cast<int>(function)) {\n"
        f"{''.join(cases)}"
        "    default:\n      return;\n  }\n}\n"
    )
