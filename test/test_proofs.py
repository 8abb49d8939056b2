"""
Run the fast proofs, in slow tests all proofs, and check the code that relies on them. Analyse the C
of three networks, and check MISRA rules in the digits network.
"""

import re
import shutil
from importlib import import_module
from pathlib import Path

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
@pytest.mark.parametrize("name", ["products", "elementwise", "integer softmax"])
def test_c_has_no_access_out_of_range_and_no_overflow(name: str):
    """All other networks are in `make proofs`."""
    line, is_known = abstract.report(name, abstract.analyse(abstract.NETWORKS[name]()))
    assert is_known, line


@pytest.mark.slow
@needs_frama_c
def test_layers_of_digits_have_no_access_out_of_range_and_no_overflow():
    """All other layers are in `make proofs`."""
    module = abstract.NETWORKS["digits in int8"]()
    found = dict(abstract.analyse_layers(module, "matmul"))
    assert list(found) == ["layer_9_matmul"]
    assert all(abstract.report(name, outcome)[1] for name, outcome in found.items()), found
    # The layer itself is analysed, not only the program around it.
    assert int(found["layer_9_matmul"].statements.split("/")[0]) > 150


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


needs_cppcheck = pytest.mark.skipif(not shutil.which("cppcheck"), reason="needs cppcheck")


@needs_cppcheck
@pytest.mark.parametrize("build", misra.BUILDS)
def test_violations_of_misra_are_in_the_table(build: str, monkeypatch: pytest.MonkeyPatch):
    found = misra.findings(abstract.NETWORKS[misra.CHECKED](), misra.BUILDS[build])
    assert misra.excess({build: found}, are_counted=True) == []
    one_less = {
        rule: misra.Deviation(found[rule] - 1, found[rule] - 1, known.reason)
        for rule, known in misra.DEVIATIONS.items()
        if rule != "2.4"
    }
    monkeypatch.setattr(misra, "DEVIATIONS", one_less)
    assert len(misra.excess({build: found}, are_counted=True)) == len(found)


@pytest.mark.slow
@needs_cppcheck
def test_violated_rules_of_misra_have_reasons():
    """All networks of kernels are in `python test/misra.py NAME`."""
    for name in ("products", "elementwise", "recurrence"):
        found = misra.findings(abstract.NETWORKS[name](), misra.BUILDS["microcontroller"])
        assert misra.excess({name: found}, are_counted=False) == []


@needs_cppcheck
def test_rules_on_a_line_are_separate_findings(tmp_path: Path):
    """cppcheck omits a second finding with the same message on a line."""
    (tmp_path / "model.c").write_text(
        "int f(int n);\nint f(int n)\n{\n  if (n > 2) return 1;\n  return n;\n}\n"
    )
    (tmp_path / "model_weights.c").write_text("")
    assert {"15.5", "15.6"} <= set(misra.check(tmp_path))
