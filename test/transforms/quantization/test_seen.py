"""What matters of an array: without a copy the same as of one that was cut off."""

import numpy as np
import pytest

from ceras_ir.transforms.quantization.analysis.observers import Bounds, Seen


@pytest.mark.parametrize("shape", [(5,), (1, 3, 7, 6), (1, 41, 50, 40), (1, 1, 1, 5000)])
@pytest.mark.parametrize("kind", ["none", "one", "channels"])
def test_parts_are_those_of_the_whole(shape: tuple[int, ...], kind: str) -> None:
    random = np.random.default_rng(len(shape))
    array = random.normal(size=shape).astype(np.float32)
    bounds = {
        "none": None,
        "one": Bounds(np.array(-0.5, np.float32), np.array(np.inf, np.float32)),
        "channels": Bounds(
            *(sign * random.uniform(0.1, 2, shape[-1]).astype(np.float32) for sign in (-1, 1))
        ),
    }[kind]
    seen = Seen(array, bounds)
    whole = array if bounds is None else np.clip(array, bounds.least, bounds.most)
    assert seen.whole.tobytes() == whole.tobytes()
    assert seen.ends == (whole.min(), whole.max())
    assert seen.channel_peaks.tolist() == np.abs(whole).reshape(-1, shape[-1]).max(axis=0).tolist()
    for count in (3, 1000, 1 << 16):
        assert seen.sampled(count).tobytes() == Seen(whole).sampled(count).tobytes()
        kinds = np.arange(shape[-1]) % 3
        of_all = np.broadcast_to(kinds, shape).astype(np.float32)
        found = Seen(array, bounds, kinds).sampled_kinds(count)
        expected = Seen(of_all).sampled(count)
        assert found is not None
        assert np.resize(found, expected.size).tolist() == expected.tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_does_not_matter_must_be_finite_too(bad: float) -> None:
    bounds = Bounds(np.full(4, -1, np.float32), np.full(4, 1, np.float32))
    array = np.ones((6, 4), np.float32)
    assert Seen(array, bounds).is_finite
    array[2, 3] = bad
    assert not Seen(array, bounds).is_finite
    assert not Seen(array).is_finite
