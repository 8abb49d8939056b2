"""Check that the table of `make mutants` fits the sources, and that tests detect a sample."""

import pytest
from faults.seeded import (
    ROOT,
    TIME_LIMIT,
    Fault,
    Outcome,
    faults,
    is_detected,
    package_copy,
    run_with,
)

FAULTS = faults()


def test_every_text_is_in_its_file_exactly_once():
    assert [(f.file, f.old) for f in FAULTS if f.count != 1] == []


def test_every_fault_changes_something_and_names_tests():
    assert len({(f.file, f.old, f.new) for f in FAULTS}) == len(FAULTS) >= 100
    assert all(f.old != f.new and f.tests for f in FAULTS)
    files = {test.split("::")[0] for fault in FAULTS for test in fault.tests}
    assert [name for name in sorted(files) if not (ROOT / name).is_file()] == []


def test_a_time_limit_detects_only_declared_faults():
    ends = Fault("file", "old", "new", ("test.py::test[a b]",))
    hangs = Fault("file", "old", "new", ("test.py::test[a b]",), hangs=True)
    assert not is_detected(ends, Outcome(TIME_LIMIT, 1.0, ""))
    assert is_detected(hangs, Outcome(TIME_LIMIT, 1.0, ""))
    for fault in (ends, hangs):
        assert is_detected(fault, Outcome("test.py::test[a b]", 1.0, ""))
        assert not is_detected(fault, Outcome("", 1.0, ""))


@pytest.mark.slow
def test_a_sample_is_caught():
    """Detect faults with pytest and with lit; a change that is no fault is not detected."""
    by_lit = [f for f in FAULTS if f.tests[0].endswith(".mlir")]
    by_pytest = [f for f in FAULTS if f.file == "network/integer.py"]
    with package_copy() as folder:
        for fault in (by_pytest[0], by_lit[0], by_pytest[-1]):
            assert run_with(fault, folder).caught_by.split("::")[0] in fault.tests[0]
        good = Fault(by_lit[0].file, by_lit[0].old, by_lit[0].old, by_lit[0].tests)
        assert run_with(good, folder).caught_by == ""
