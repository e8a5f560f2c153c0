"""Ids derived from content: the same thing has the same id after a crash, and on every machine."""

import hashlib


def derive_id(kind: str, *parts: str) -> str:
    """Return a 24-character id that is derived from the kind and the parts, in this order."""
    material = "\x1f".join((kind, *parts)).encode()
    return hashlib.sha256(material).hexdigest()[:24]


def sha256_hex(content: bytes) -> str:
    """Return the SHA-256 of the content in hex, its address in the ledger."""
    return hashlib.sha256(content).hexdigest()
