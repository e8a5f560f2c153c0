from datetime import UTC, datetime

import pytest

from bot.domain.permission import Role
from bot.errors import Unauthorized
from bot.gate.tokens import hashed, new_token, owner_of, proof_of, proves, scrypt
from bot.store.principals import Principal


def principal(name: str, token: str) -> Principal:
    kept = hashed(token)
    made_at = datetime(2026, 3, 1, tzinfo=UTC)
    return Principal(name=name, role=Role.VIEWER, salt=kept.salt, hash=kept.hash, made_at=made_at)


def test_the_hash_is_that_of_the_standard() -> None:
    # RFC 7914, section 12: N=16384, r=8, p=1; the first 32 of its 64 bytes, as PBKDF2 makes them in blocks of 32.
    expected = "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
    assert scrypt(b"pleaseletmein", b"SodiumChloride").hex() == expected


def test_the_proof_is_that_of_the_standard() -> None:
    # RFC 4231, test case 2.
    key, text = b"Jefe".hex(), "what do ya want for nothing?"
    expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert proof_of(key, text) == expected
    assert proves(expected, key, text)
    assert not proves(expected, key, text + "!")


def test_a_token_finds_its_owner_and_no_other_does() -> None:
    first, second = new_token(), new_token()
    known = [principal("ann", first), principal("bob", second)]
    assert owner_of(first, known).name == "ann"
    assert owner_of(second, known).name == "bob"
    with pytest.raises(Unauthorized) as caught:
        owner_of(new_token(), known)
    assert "fox_" not in str(caught.value)


def test_tokens_and_salts_are_new_each_time_and_kept_nowhere() -> None:
    token = new_token()
    assert token != new_token()
    assert len(token) > 40
    assert hashed(token) != hashed(token)
    assert token not in str(hashed(token))
