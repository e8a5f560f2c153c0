from itertools import product

import pytest

from bot.core.errors import AuthenticationError
from bot.core.permissions import UserRole
from bot.execution.gate.access_control import PrivilegedAction, is_allowed, require_role

# The matrix as it was decided, written out: who may do what.
ALLOWED = {
    None: {PrivilegedAction.HALT},
    UserRole.VIEWER: {PrivilegedAction.HALT},
    UserRole.OPERATOR: {
        PrivilegedAction.HALT,
        PrivilegedAction.DISARM,
        PrivilegedAction.REJECT,
        PrivilegedAction.RESUME,
        PrivilegedAction.UNLOCK,
        PrivilegedAction.FORECAST,
        PrivilegedAction.WITHDRAW,
    },
    UserRole.APPROVER: {
        PrivilegedAction.HALT,
        PrivilegedAction.DISARM,
        PrivilegedAction.REJECT,
        PrivilegedAction.RESUME,
        PrivilegedAction.ARM,
        PrivilegedAction.APPROVE,
        PrivilegedAction.CLOSE,
        PrivilegedAction.ADD_PRINCIPAL,
        PrivilegedAction.REVOKE_PRINCIPAL,
        PrivilegedAction.ADOPT,
        PrivilegedAction.UNLOCK,
        PrivilegedAction.FORECAST,
        PrivilegedAction.WITHDRAW,
    },
}


@pytest.mark.parametrize(("role", "act"), [*product([None, *UserRole], PrivilegedAction)])
def test_each_role_may_do_what_it_may_and_nothing_else(role: UserRole | None, act: PrivilegedAction) -> None:
    assert is_allowed(role, act) == (act in ALLOWED[role])
    if act in ALLOWED[role]:
        require_role(role, act, who="bob")
    else:
        with pytest.raises(AuthenticationError, match=f"{act} needs the role .*approver, and bob"):
            require_role(role, act, who="bob")
