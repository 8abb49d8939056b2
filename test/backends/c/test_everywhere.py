"""Test a few networks of `everywhere.py` with all compilers and processors."""

import os
from pathlib import Path

import pytest
from backends.c.everywhere import BUILDS, Network, difference, make, outputs_of

COUNT = int(os.environ.get("CERAS_C_NETWORKS", "4"))
"""Networks of alternating kinds: integers, mixed, Q/DQ, float."""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(BUILDS["gcc"].missing), reason="needs gcc")]


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> list[Network]:
    made: list[Network] = []
    seed = 0
    while len(made) < COUNT:
        network = make(seed, tmp_path_factory.mktemp(f"network{seed}"))
        made += [] if network is None else [network]
        seed += 1
    return made


@pytest.mark.parametrize("name", BUILDS)
def test_every_build_computes_the_same(name: str, networks: list[Network]) -> None:
    build = BUILDS[name]
    if build.missing:
        pytest.skip(f"needs {build.missing}")
    for network in networks:
        portable = outputs_of(network, BUILDS["gcc"])
        assert difference(network, build, outputs_of(network, build), portable)[0] == ""


def test_other_bits_are_seen(tmp_path: Path) -> None:
    network = make(0, tmp_path)
    assert network is not None
    wrong = {name: array ^ 1 for name, array in network.expected.items()}
    assert "has other bits" in difference(network, BUILDS["gcc"], wrong, {})[0]
