"""Tokens: made once, shown once, and kept as the scrypt hash alone.

A request that goes to the daemon as a file carries no token but a proof: an HMAC of the request under the hash. Who can
write files into the folder of requests, and not read the ledger, cannot make one.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from bot.errors import Unauthorized
from bot.store.principals import Principal

# 16 MiB and some 50 ms for each try.
_COST, _BLOCK, _LANES, _LENGTH = 2**14, 8, 1, 32
_SALT_BYTES = 16
PREFIX = "fox_"


@dataclass(frozen=True, slots=True)
class Hashed:
    """The hash of a token, and its salt, both in hex."""

    salt: str
    hash: str


def new_token() -> str:
    """Return a token of 256 bits that nobody can guess."""
    return PREFIX + secrets.token_urlsafe(_LENGTH)


def hashed(token: str, salt: str | None = None) -> Hashed:
    """Return the hash of a token, with the salt given in hex or a new one."""
    salt = secrets.token_hex(_SALT_BYTES) if salt is None else salt
    return Hashed(salt, scrypt(token.encode(), bytes.fromhex(salt)).hex())


def scrypt(password: bytes, salt: bytes) -> bytes:
    """Return the key that RFC 7914 derives with our parameters."""
    return hashlib.scrypt(password, salt=salt, n=_COST, r=_BLOCK, p=_LANES, dklen=_LENGTH, maxmem=64 * 1024 * 1024)


def owner_of(token: str, principals: Iterable[Principal]) -> Principal:
    """Return whose token it is; raises Unauthorized, without saying anything of the token, where it is nobody's."""
    found = None
    for principal in principals:
        # All are tried, so that the time it takes tells nothing.
        if hmac.compare_digest(hashed(token, principal.salt).hash, principal.hash):
            found = principal
    if found is None:
        message = "the token is nobody's: it was mistyped, or taken away; look at FOXCAST_TOKEN or the token file"
        raise Unauthorized(message)
    return found


def proof_of(key: str, text: str) -> str:
    """Return the proof that whoever knows the hash of a token says this text."""
    return hmac.new(bytes.fromhex(key), text.encode(), hashlib.sha256).hexdigest()


def proves(proof: str, key: str, text: str) -> bool:
    """Say whether the proof is that of the text."""
    # As bytes: of text, only ASCII can be compared.
    return hmac.compare_digest(proof.encode(errors="replace"), proof_of(key, text).encode())
