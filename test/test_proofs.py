"""Run the fast proofs, in slow tests all proofs, and check the code that relies on them."""

from importlib import import_module

import pytest
from proofs.prove import FAMILIES
from proofs.registry import IDENTITIES, Identity, MissingSolverError, solver, valid

for family in FAMILIES:
    import_module(f"proofs.{family}")

CASES = [
    pytest.param(i, id=i.name, marks=[pytest.mark.slow] if i.is_slow else []) for i in IDENTITIES
]


@pytest.mark.parametrize("one", CASES)
def test_identity_holds(one: Identity):
    try:
        one.prove()
    except MissingSolverError as error:
        pytest.skip(str(error))


def test_what_relies_on_them_is_still_there():
    assert [missing for one in IDENTITIES for missing in one.missing()] == []


def test_what_is_false_is_refuted():
    pytest.importorskip("z3")
    x = solver().BitVec("x", 8)
    with pytest.raises(AssertionError, match="x = "):
        valid(x + 1 > x)
