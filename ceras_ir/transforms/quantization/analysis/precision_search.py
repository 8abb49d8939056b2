"""
The cheapest layers whose better precision brings the noise of a network down to a target.

What every layer adds was measured alone; noises are taken to add, up to a factor that the trials
tell. So the sum of what is left says how many layers are needed, a trial says whether it is
right, and what is still uncertain is halved.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import accumulate

from ceras_ir.transforms.quantization.analysis.sensitivity import Sensitivity

Trial = Callable[[Sequence[Sensitivity]], float]
"""The noise that is measured with some layers in better precision."""

CLOSE = 10**-0.05
"""Noise of this share of what is wanted is no waste: half a decibel below."""

RETURNS = 4
"""How often layers are given back."""

FLOAT = 4
"""How many multiplications of 16 bits one in float is worth."""


def costs(layers: Collection[Sensitivity]) -> dict[int, float]:
    """By identity: the multiplications that it changes, and as many as a layer has on average."""
    mean = sum(layer.macs for layer in layers) / max(len(layers), 1)
    return {id(s): max(s.macs + mean, 1.0) * (FLOAT if s.in_float else 1) for s in layers}


def enough_layers(
    ranked: Sequence[Sensitivity], first: int, noise: float, wanted: float, trial: Trial
) -> tuple[list[Sensitivity], float]:
    """
    How many layers from the start of `ranked` bring `noise` down to `wanted`, and the noise with
    them; all if nothing does. The search starts with `first` of them.
    """
    rest = [*accumulate((s.noise for s in reversed(ranked)), initial=0.0)][::-1]
    low, high, reached, jump = 0, len(ranked) + 1, 0.0, 1

    def guess() -> int:
        """The least number that is enough if noises add."""
        scale = noise / rest[low] if rest[low] > 0 else 0.0
        return next(k for k in range(low, len(rest)) if scale * rest[k] <= wanted)

    count, halve = first or guess(), False
    while low < len(ranked) and low + 1 < high:
        count = min(max(count, low + 1), high - 1, len(ranked))
        found = trial(ranked[:count])
        if found <= wanted:
            high, reached = count, found
            if found >= wanted * CLOSE:
                break
        else:
            low, noise = count, found
        if high > len(ranked):
            # Nothing is enough yet: what is guessed too low again and again must not take long.
            count, jump = max(guess(), low + jump), 2 * jump
        else:
            count, halve = ((low + high) // 2 if halve else guess()), not halve
    if high > len(ranked):
        return list(ranked), noise
    return list(ranked[:high]), reached


def give_back(
    chosen: list[Sensitivity],
    layers: Collection[Sensitivity],
    noise: float,
    wanted: float,
    trial: Trial,
) -> tuple[list[Sensitivity], float]:
    """
    Leave out as many of the `chosen` ones among all `layers`, the dearest for what they save
    first, as the noise that is allowed beyond `noise` has room for; and the noise then.
    """
    cost, share = costs(layers), 1.0
    total = sum(s.noise for s in layers)
    for _ in range(RETURNS):
        left = total - sum(s.noise for s in chosen)
        scale = max(noise / left, 1.0) if left > 0 else 1.0
        room, group = share * (wanted - noise), set[int]()
        for layer in sorted(chosen, key=lambda s: (s.noise / cost[id(s)], s.noise)):
            if scale * layer.noise <= room:
                room -= scale * layer.noise
                group.add(id(layer))
        if not group or noise >= wanted * CLOSE:
            break
        kept = [s for s in chosen if id(s) not in group]
        found = trial(kept)
        if found <= wanted:
            chosen, noise = kept, found
        else:
            share /= 4
    return chosen, noise
