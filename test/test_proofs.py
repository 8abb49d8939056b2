"""
Run the fast proofs, in slow tests all proofs, and check the code that relies on them. Analyse the C
of two networks, and check MISRA rules in one.
"""

import re
import shutil
from importlib import import_module

import misra
import pytest
from proofs import abstract
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


needs_frama_c = pytest.mark.skipif(not shutil.which("frama-c"), reason="needs frama-c")


@pytest.mark.slow
@needs_frama_c
@pytest.mark.parametrize("name", ["products", "integer softmax"])
def test_c_has_no_access_out_of_range_and_no_overflow(name: str):
    """All other networks are in `make proofs`."""
    line, is_known = abstract.report(name, abstract.analyse(abstract.NETWORKS[name]()))
    assert is_known, line


@pytest.mark.slow
@needs_frama_c
def test_arrays_that_are_too_short_are_alarms(monkeypatch: pytest.MonkeyPatch):
    separate = abstract.separate

    def shorter(text: str) -> str:
        return re.sub(r"(static \w+ own_\w+\[\d+ / sizeof\(\w+\))\]", r"\1 - 1]", separate(text))

    monkeypatch.setattr(abstract, "separate", shorter)
    outcome = abstract.analyse(abstract.NETWORKS["products"]())
    assert outcome.alarms["write"] + outcome.alarms["precondition"] > 0
    assert not abstract.report("products", outcome)[1]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("cppcheck"), reason="needs cppcheck")
def test_violated_rules_of_misra_have_reasons():
    found = misra.findings(abstract.NETWORKS["products"]())
    assert found and set(found) <= set(misra.DEVIATIONS)
