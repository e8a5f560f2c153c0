"""Principals: who may do what, known by the scrypt hash of a token. Works within the caller's transaction."""

from dataclasses import dataclass
from datetime import datetime

from sqlite_utils import Database

from bot.domain.permission import Role
from bot.errors import NotFound, Rejected
from bot.store.codec import clean, moment, stamp

_COLUMNS = "name, role, salt, hash, made_at, revoked_at"
_ADD = "insert into principal (name, role, salt, hash, made_at) values (:name, :role, :salt, :hash, :made_at)"
_REPLACE = "delete from principal where name = ? and revoked_at is not null"
_LIVING = f"select {_COLUMNS} from principal where revoked_at is null order by name"  # noqa: S608 - made of constants
_REVOKE = "update principal set revoked_at = :at where name = :name and revoked_at is null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A person or program with a token; salt and hash are in hex and never shown."""

    name: str
    role: Role
    salt: str
    hash: str
    made_at: datetime
    revoked_at: datetime | None = None


def living(database: Database) -> list[Principal]:
    """Read those whose tokens hold, by name."""
    return [
        Principal(name=name, role=Role(role), salt=salt, hash=hash_, made_at=moment(made), revoked_at=moment(revoked))
        for name, role, salt, hash_, made, revoked in database.execute(_LIVING)
    ]


def add(database: Database, principal: Principal) -> None:
    """Give a name a token; raises Rejected for a name in use, and for a first one that could let nobody else in."""
    known = living(database)
    if any(one.name == principal.name for one in known):
        message = f"there is a principal {principal.name}; take its token away first: foxcast principal revoke"
        raise Rejected(message)
    if not known and principal.role is not Role.APPROVER:
        message = "the first principal must be an approver: from then on only an approver may add others"
        raise Rejected(message)
    database.execute(_REPLACE, [principal.name])
    values = {
        "name": clean(principal.name),
        "role": principal.role.value,
        "salt": principal.salt,
        "hash": principal.hash,
        "made_at": stamp(principal.made_at),
    }
    database.execute(_ADD, values)


def revoke(database: Database, name: str, *, at: datetime) -> None:
    """Take a token away; raises NotFound, and Rejected for the last approver while others are left."""
    known = {one.name: one for one in living(database)}
    if name not in known:
        message = f"there is no principal {name}; list them with: foxcast principal list"
        raise NotFound(message)
    left = [one for one in known.values() if one.name != name]
    if left and all(one.role is not Role.APPROVER for one in left):
        message = f"{name} is the last approver; add another one first, or take away the tokens of the others"
        raise Rejected(message)
    database.execute(_REVOKE, {"name": name, "at": stamp(at)})
