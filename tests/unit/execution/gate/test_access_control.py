from datetime import UTC, datetime
from itertools import product

import pytest

from bot.core.errors import AuthenticationError
from bot.core.permissions import UserRole
from bot.execution.gate.access_control import (
    PrivilegedAction,
    create_token,
    find_token_owner,
    hash_token,
    is_allowed,
    make_request_proof,
    require_role,
    scrypt_hash,
    verify_request_proof,
)
from bot.store.permissions import PrincipalRecord


def principal(name: str, token: str) -> PrincipalRecord:
    kept = hash_token(token)
    made_at = datetime(2026, 3, 1, tzinfo=UTC)
    return PrincipalRecord(name=name, role=UserRole.VIEWER, salt=kept.salt, hash=kept.hash, made_at=made_at)


def test_the_hash_is_that_of_the_standard() -> None:
    # RFC 7914, section 12: N=16384, r=8, p=1; the first 32 of its 64 bytes, as PBKDF2 makes them in blocks of 32.
    expected = "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
    assert scrypt_hash(b"pleaseletmein", b"SodiumChloride").hex() == expected


def test_the_proof_is_that_of_the_standard() -> None:
    # RFC 4231, test case 2.
    key, text = b"Jefe".hex(), "what do ya want for nothing?"
    expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert make_request_proof(key, text) == expected
    assert verify_request_proof(expected, key, text)
    assert not verify_request_proof(expected, key, text + "!")


def test_a_token_finds_its_owner_and_no_other_does() -> None:
    first, second = create_token(), create_token()
    known = [principal("ann", first), principal("bob", second)]
    assert find_token_owner(first, known).name == "ann"
    assert find_token_owner(second, known).name == "bob"
    with pytest.raises(AuthenticationError) as caught:
        find_token_owner(create_token(), known)
    assert "fox_" not in str(caught.value)


def test_tokens_and_salts_are_new_each_time_and_kept_nowhere() -> None:
    token = create_token()
    assert token != create_token()
    assert len(token) > 40
    assert hash_token(token) != hash_token(token)
    assert token not in str(hash_token(token))


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
        PrivilegedAction.DECIDE_PAIR,
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
        PrivilegedAction.ADOPT_FOLDER,
        PrivilegedAction.DECIDE_PAIR,
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


@pytest.mark.parametrize(("role", "words"), [(None, "ann has no token"), (UserRole.VIEWER, "ann is viewer")])
def test_who_may_not_do_something_is_named_with_the_role(role: UserRole | None, words: str) -> None:
    with pytest.raises(AuthenticationError, match=words):
        require_role(role, PrivilegedAction.ARM, who="ann")
