"""The key before it is used: whose it is, and whether that is a bot."""

import pytest
from pydantic import SecretStr

from bot.api import AuthenticationError, RequestRejectedError
from plugins.manifold import rate_limits
from plugins.manifold.account import check_account
from plugins.manifold.settings import ManifoldSettings
from tests.plugins.manifold.fixture import KEY, ManifoldFixture


async def test_mf_r1_the_account_is_asked_once_with_the_key(manifold: ManifoldFixture) -> None:
    (reported,) = await check_account(manifold.settings, manifold.place)
    assert "ada" in reported
    assert "1000.00 mana" in reported
    (asked,) = manifold.venue.requests
    assert (asked.method, asked.path, asked.headers["authorization"]) == ("GET", "/v0/me", f"Key {KEY}")


async def test_mf_r1_a_key_that_is_not_taken_names_the_setting(manifold: ManifoldFixture) -> None:
    with pytest.raises(AuthenticationError, match=r"401.*check key in \[venues\.manifold\.settings\]") as caught:
        await check_account(manifold.with_settings(key=SecretStr("wrong-key-0000")), manifold.place)
    assert "wrong-key" not in str(caught.value)


async def test_mf_r1_without_a_key_nothing_is_asked(manifold: ManifoldFixture) -> None:
    with pytest.raises(AuthenticationError, match="no key: create one"):
        await check_account(manifold.with_settings(key=None), manifold.place)
    with pytest.raises(AuthenticationError, match="no development_key: create one"):
        await check_account(manifold.with_settings(environment="development"), manifold.place)
    assert manifold.venue.requests == []


async def test_mf_r1_an_account_that_is_no_bot_is_rejected(manifold: ManifoldFixture) -> None:
    manifold.ada.is_bot = False
    with pytest.raises(RequestRejectedError, match="not marked as a bot"):
        await check_account(manifold.settings, manifold.place)


@pytest.mark.parametrize(("username", "why"), [("bob", "is bob"), ("", "set username")])
async def test_mf_r1_the_key_of_another_account_is_rejected(manifold: ManifoldFixture, username: str, why: str) -> None:
    with pytest.raises(RequestRejectedError, match=why):
        await check_account(manifold.with_settings(username=username), manifold.place)


def test_mf_l1_everything_has_one_budget_well_under_500_a_minute_and_writes_go_one_at_a_time() -> None:
    everything, writes = rate_limits(ManifoldSettings())
    assert everything.count / everything.per_s * 60.0 <= 250
    assert everything.methods == frozenset()
    for url in ("https://api.manifold.markets/v0/me", "wss://api.manifold.markets/ws"):
        assert url.startswith(everything.prefixes)
    assert writes.methods == {"POST"}
    assert writes.max_in_flight == 1
    assert everything.name.startswith("manifold")
    assert writes.name.startswith("manifold")
