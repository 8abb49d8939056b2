"""
Operator sets: the names of operators with their domains, and the versions that models import.
"""

from collections.abc import Iterable, Sequence

import onnx

from ceras_ir.frontends.onnx.tensors import text
from ceras_ir.support.diagnostics import InputError


def operator_name(domain: str, op_type: str) -> str:
    """Return the operator with its domain; `ai.onnx`, the default domain, is omitted."""
    if domain in ("", "ai.onnx"):
        return text(op_type)
    return f"{text(domain)}::{text(op_type)}"


def imported_versions(entries: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Return the version of each domain; the default domain is the empty string."""
    versions: dict[str, int] = {}
    for entry in entries:
        domain = "" if entry.domain == "ai.onnx" else text(entry.domain)
        if versions.setdefault(domain, entry.version) != entry.version:
            name = domain or "ai.onnx"
            raise InputError(f"two versions of operator set '{name}' are imported")
    return versions


def has_one_definition(operator: str, first: int, second: int) -> bool:
    """
    Return whether ONNX defines `operator` equally in two versions of the set of its domain: with
    the same operands, results, attributes and defaults. Element types may differ.
    """
    domain, _, kind = operator.rpartition("::")
    if not onnx.defs.has(kind, domain):
        return True  # Not an operator of ONNX.
    try:
        signatures = [_signature(kind, version, domain) for version in (first, second)]
    except onnx.defs.SchemaError:
        return False
    return signatures[0] == signatures[1]


def _signature(kind: str, version: int, domain: str) -> Sequence[object]:
    schema = onnx.defs.get_schema(kind, version, domain)
    attributes = schema.attributes.items()
    return [
        [(operand.name, operand.option) for operand in schema.inputs],
        [(result.name, result.option) for result in schema.outputs],
        [(name, a.type, a.required, a.default_value) for name, a in sorted(attributes)],
    ]
