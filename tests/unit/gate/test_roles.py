from itertools import product

import pytest

from bot.domain.permission import Role
from bot.errors import Unauthorized
from bot.gate.roles import Act, may, require

# The matrix as it was decided, written out: who may do what.
ALLOWED = {
    None: {Act.HALT},
    Role.VIEWER: {Act.HALT},
    Role.OPERATOR: {Act.HALT, Act.DISARM, Act.REJECT, Act.RESUME, Act.UNLOCK, Act.FORECAST, Act.WITHDRAW},
    Role.APPROVER: {
        Act.HALT,
        Act.DISARM,
        Act.REJECT,
        Act.RESUME,
        Act.ARM,
        Act.APPROVE,
        Act.CLOSE,
        Act.ADD_PRINCIPAL,
        Act.REVOKE_PRINCIPAL,
        Act.ADOPT,
        Act.UNLOCK,
        Act.FORECAST,
        Act.WITHDRAW,
    },
}


@pytest.mark.parametrize(("role", "act"), [*product([None, *Role], Act)])
def test_each_role_may_do_what_it_may_and_nothing_else(role: Role | None, act: Act) -> None:
    assert may(role, act) == (act in ALLOWED[role])
    if act in ALLOWED[role]:
        require(role, act, who="bob")
    else:
        with pytest.raises(Unauthorized, match=f"{act} needs the role .*approver, and bob"):
            require(role, act, who="bob")
