"""Roles: who may do what. Halting is open to all, and what takes risk needs more than what takes it away."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from bot.domain.permission import Role
from bot.errors import Unauthorized


class Act(StrEnum):
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


# The least role for each; None: anybody, also without a token.
NEEDED: Mapping[Act, Role | None] = MappingProxyType(
    {
        Act.HALT: None,
        Act.DISARM: Role.OPERATOR,
        Act.REJECT: Role.OPERATOR,
        Act.RESUME: Role.OPERATOR,
        Act.ARM: Role.APPROVER,
        Act.APPROVE: Role.APPROVER,
        Act.ADD_PRINCIPAL: Role.APPROVER,
        Act.REVOKE_PRINCIPAL: Role.APPROVER,
        Act.ADOPT: Role.APPROVER,
        Act.WITHDRAW: Role.OPERATOR,
        Act.UNLOCK: Role.OPERATOR,
        Act.FORECAST: Role.OPERATOR,
        Act.CLOSE: Role.APPROVER,
    }
)


def may(role: Role | None, act: Act) -> bool:
    """Say whether somebody of this role (None: without a token) may do that."""
    needed = NEEDED[act]
    return needed is None or (role is not None and role.includes(needed))


def require(role: Role | None, act: Act, *, who: str) -> None:
    """Raise Unauthorized, naming who could, for somebody who may not."""
    if may(role, act):
        return
    able = " or ".join(_able(act))
    have = "has no token" if role is None else f"is {role}"
    message = f"{act} needs the role {able}, and {who} {have}"
    raise Unauthorized(message)


def _able(act: Act) -> Sequence[str]:
    return [role.value for role in Role if may(role, act)]
