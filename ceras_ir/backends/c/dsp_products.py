"""
Sums of products for four positions and two filters at a time on cores with SMLAD, both read
word by word from one place each: `[group][words][4]` of the input, `[pair][words][2]` of weights.
"""

from ceras_ir.backends.c.layer import Layer

COLUMNS, FILTERS = 4, 2
"""Of a call."""

LOOP_STEPS = 16
"""Words of a loop's body at most."""

SUMS = ("r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11")


def products(layer: Layer, words: int, runs: int, *, has_bias: bool) -> str:
    """The function for `runs` runs of `words` words each; sums start at the bias or at zero."""
    steps = next(count for count in range(LOOP_STEPS, 0, -1) if words % count == 0)
    begin: list[str] = []
    again: list[str] = []
    loops = words // steps
    if loops > 1:
        begin += [f"mov r12, #{loops}", "str r12, [sp]"]
        again = ["ldr r0, [sp]", "subs r0, #1", "str r0, [sp]", "bne 2b"]
    if has_bias:
        begin.append("ldrd r4, r5, [r3]")
        begin += [f"mov {r}, {SUMS[i % FILTERS]}" for i, r in enumerate(SUMS) if i >= FILTERS]
    elif loops > 1:
        begin += [f"mov {r}, #0" for r in SUMS]
    else:
        steps -= 1
        begin += ["ldrd r0, r3, [r2], #8", "ldrd r12, lr, [r1], #8"]
        for i, r in enumerate(SUMS):
            if i == len(SUMS) // 2:
                begin.append("ldrd r12, lr, [r1], #8")
            begin.append(f"smuad {r}, {('r12', 'lr')[i // 2 % 2]}, {('r0', 'r3')[i % 2]}")
    return layer.kernels.use(
        "dsp_products",
        NAME=f"{runs}x{words}",
        START="bias[f] + " if has_bias else "",
        WORDS=str(words),
        RUNS=str(runs),
        STEPS=str(steps),
        BEGIN=_assembler(begin),
        AGAIN=_assembler(again),
    )


def _assembler(lines: list[str]) -> str:
    return "\n".join(f'    "{line}\\n\\t"' for line in lines)
