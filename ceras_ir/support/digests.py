"""Compute digests without an import of `hashlib`, which loads OpenSSL, before the first digest."""

from typing_extensions import Buffer


def sha256(*parts: Buffer) -> bytes:
    """Return the SHA-256 digest of `parts`, concatenated."""
    import hashlib

    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.digest()
