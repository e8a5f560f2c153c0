"""The key before it is used: whose it is, and whether that is a bot (MF-R1)."""

import pytest
from pydantic import SecretStr

from bot.api import Rejected, Unauthorized
from plugins.manifold import rates_of
from plugins.manifold.check import check
from plugins.manifold.settings import ManifoldSettings
from tests.plugins.manifold.stand import KEY, Stand


async def test_mf_r1_the_account_is_asked_once_with_the_key(stand: Stand) -> None:
    (told,) = await check(stand.settings, stand.place)
    assert "ada" in told
    assert "1000.00 mana" in told
    (asked,) = stand.venue.requests
    assert (asked.method, asked.path, asked.headers["authorization"]) == ("GET", "/v0/me", f"Key {KEY}")


async def test_mf_r1_a_key_that_is_not_taken_names_the_setting(stand: Stand) -> None:
    with pytest.raises(Unauthorized, match=r"401.*check key in \[venues\.manifold\.settings\]") as caught:
        await check(stand.with_settings(key=SecretStr("wrong-key-0000")), stand.place)
    assert "wrong-key" not in str(caught.value)


async def test_mf_r1_without_a_key_nothing_is_asked(stand: Stand) -> None:
    with pytest.raises(Unauthorized, match="no key: make one"):
        await check(stand.with_settings(key=None), stand.place)
    with pytest.raises(Unauthorized, match="no development_key: make one"):
        await check(stand.with_settings(environment="development"), stand.place)
    assert stand.venue.requests == []


async def test_mf_r1_an_account_that_is_no_bot_is_rejected(stand: Stand) -> None:
    stand.ada.is_bot = False
    with pytest.raises(Rejected, match="not marked as a bot"):
        await check(stand.settings, stand.place)


@pytest.mark.parametrize(("username", "why"), [("bob", "is bob"), ("", "set username")])
async def test_mf_r1_the_key_of_another_account_is_rejected(stand: Stand, username: str, why: str) -> None:
    with pytest.raises(Rejected, match=why):
        await check(stand.with_settings(username=username), stand.place)


def test_mf_l1_everything_has_one_budget_well_under_500_a_minute_and_writes_go_one_at_a_time() -> None:
    everything, writes = rates_of(ManifoldSettings())
    assert everything.count / everything.per_s * 60.0 <= 250
    assert everything.methods == frozenset()
    for url in ("https://api.manifold.markets/v0/me", "wss://api.manifold.markets/ws"):
        assert url.startswith(everything.prefixes)
    assert writes.methods == {"POST"}
    assert writes.at_once == 1
    assert everything.name.startswith("manifold")
    assert writes.name.startswith("manifold")
