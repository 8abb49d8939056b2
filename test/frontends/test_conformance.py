"""Check that a sample of ONNX's test suite has the outcomes in docs/conformance.md."""

import pytest
from conformance_page import PAGE, outcome, required_cases
from onnx_compare import SHARED

TOOLS = SHARED / "tools"
EVERY = {"interp": 20, "c": 120}
"""The distance of the cases to run; docs/tools/conformance_page.py runs all."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not TOOLS.exists(), reason="no ../shared/tools"),
]


def test_sample() -> None:
    text = PAGE.read_text("utf-8")
    # A single test for both, because ONNX needs half a minute to create the cases.
    cases = required_cases(TOOLS)
    assert f"| all | {len(cases)} |" in text
    for engine, every in EVERY.items():
        failed = [case for case in cases if f"- `{case.name}` ({engine}): " in text]
        for case in {c.name: c for c in [*cases[::every], *failed]}.values():
            got = outcome(TOOLS, case, engine)
            if got.status == "PASS":
                assert f"- `{case.name}` ({engine}): " not in text, case.name
            else:
                assert f"- `{case.name}` ({engine}): {got.status}: {got.reason}" in text
