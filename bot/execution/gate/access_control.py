"""Access control: user roles with the actions that they allow, and API tokens.

Only the scrypt hash of a token is kept. A request that reaches the daemon as a file carries a proof
instead of a token: an HMAC of the request under the hash. A process that can write to the request folder but cannot
read the ledger cannot make one.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from bot.core.errors import AuthenticationError
from bot.core.light_dataclass import dataclass
from bot.core.permissions import UserRole
from bot.store.permissions import PrincipalRecord


class PrivilegedAction(StrEnum):
    """What a person may ask for."""

    HALT = "halt"
    DISARM = "disarm"
    REJECT = "reject"
    RESUME = "resume"
    ARM = "arm"
    APPROVE = "approve"
    ADD_PRINCIPAL = "principal add"
    REVOKE_PRINCIPAL = "principal revoke"
    ADOPT = "orders adopt"
    WITHDRAW = "withdraw"
    UNLOCK = "unlock"
    FORECAST = "forecast"
    CLOSE = "close"
    ADOPT_FOLDER = "adopt"
    DECIDE_PAIR = "pairs"


# The lowest role for each action; None: anybody, also without a token.
REQUIRED_ROLES: Mapping[PrivilegedAction, UserRole | None] = MappingProxyType(
    {
        PrivilegedAction.HALT: None,
        PrivilegedAction.DISARM: UserRole.OPERATOR,
        PrivilegedAction.REJECT: UserRole.OPERATOR,
        PrivilegedAction.RESUME: UserRole.OPERATOR,
        PrivilegedAction.ARM: UserRole.APPROVER,
        PrivilegedAction.APPROVE: UserRole.APPROVER,
        PrivilegedAction.ADD_PRINCIPAL: UserRole.APPROVER,
        PrivilegedAction.REVOKE_PRINCIPAL: UserRole.APPROVER,
        PrivilegedAction.ADOPT: UserRole.APPROVER,
        PrivilegedAction.WITHDRAW: UserRole.OPERATOR,
        PrivilegedAction.UNLOCK: UserRole.OPERATOR,
        PrivilegedAction.FORECAST: UserRole.OPERATOR,
        PrivilegedAction.CLOSE: UserRole.APPROVER,
        PrivilegedAction.ADOPT_FOLDER: UserRole.APPROVER,
        PrivilegedAction.DECIDE_PAIR: UserRole.OPERATOR,
    }
)


def is_allowed(role: UserRole | None, action: PrivilegedAction) -> bool:
    """Return whether a user with this role (None: no token) may perform the action."""
    needed = REQUIRED_ROLES[action]
    return needed is None or (role is not None and role.includes(needed))


def require_role(role: UserRole | None, action: PrivilegedAction, *, who: str) -> None:
    """Raise AuthenticationError, naming the roles that would suffice, if the action is not allowed."""
    if is_allowed(role, action):
        return
    sufficient_roles = " or ".join(_allowed_roles(action))
    description = "has no token" if role is None else f"is {role}"
    message = f"{action} needs the role {sufficient_roles}, and {who} {description}"
    raise AuthenticationError(message)


def _allowed_roles(action: PrivilegedAction) -> Sequence[str]:
    return [role.value for role in UserRole if is_allowed(role, action)]


# 16 MiB and some 50 ms for each try.
_SCRYPT_COST, _SCRYPT_BLOCK_SIZE, _SCRYPT_PARALLELISM, _KEY_BYTES = 2**14, 8, 1, 32


_SALT_BYTES = 16


KEY_PREFIX = "fox_"


@dataclass(frozen=True, slots=True)
class HashedToken:
    """The hash of a token, and its salt, both in hex."""

    salt: str
    hash: str


def create_token() -> str:
    """Return a token of 256 bits that nobody can guess."""
    return KEY_PREFIX + create_random_key()


def create_random_key() -> str:
    """Return 256 bits of chance as text, such as the cookie of a session."""
    return secrets.token_urlsafe(_KEY_BYTES)


def hash_token(token: str, salt: str | None = None) -> HashedToken:
    """Return the hash of a token, with the salt given in hex or a new one."""
    salt = secrets.token_hex(_SALT_BYTES) if salt is None else salt
    return HashedToken(salt, scrypt_hash(token.encode(), bytes.fromhex(salt)).hex())


def scrypt_hash(password: bytes, salt: bytes) -> bytes:
    """Return the key that RFC 7914 derives with our parameters."""
    return hashlib.scrypt(
        password,
        salt=salt,
        n=_SCRYPT_COST,
        r=_SCRYPT_BLOCK_SIZE,
        p=_SCRYPT_PARALLELISM,
        dklen=_KEY_BYTES,
        maxmem=64 * 1024 * 1024,
    )


def find_token_owner(token: str, principals: Iterable[PrincipalRecord]) -> PrincipalRecord:
    """Return the principal of a token. Raises AuthenticationError, without quoting the token, if it is unknown."""
    found = None
    for principal in principals:
        # All are tried, so that the time taken reveals nothing.
        if hmac.compare_digest(hash_token(token, principal.salt).hash, principal.hash):
            found = principal
    if found is None:
        message = "the token is unknown: it was mistyped or revoked; check FOXCAST_TOKEN or the token file"
        raise AuthenticationError(message)
    return found


def make_request_proof(key: str, text: str) -> str:
    """Return the proof that the text comes from a holder of the token's hash."""
    return hmac.new(bytes.fromhex(key), text.encode(), hashlib.sha256).hexdigest()


def verify_request_proof(proof: str, key: str, text: str) -> bool:
    """Return whether the proof belongs to the text."""
    # As bytes: of text, only ASCII can be compared.
    return hmac.compare_digest(proof.encode(errors="replace"), make_request_proof(key, text).encode())
