"""What is looked at before a venue is live: every obstacle is named with what to do about it."""

import re
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from bot.api import ContractError, Rejected, Unauthorized
from bot.testing.venues.faults import Fault, Trouble
from plugins.polymarket.check import check, checked, require_permitted
from tests.plugins.polymarket.writer_stand import KEY, Stand, key_file, standing


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    async with standing(tmp_path) as opened:
        yield opened


async def told(stand: Stand) -> str:
    return "\n".join(await checked(stand.settings, stand.place, stand.signer()))


async def test_an_account_that_may_trade_is_told_and_nothing_is_written(stand: Stand) -> None:
    # The real signer, in a process of its own.
    lines = await check(stand.settings, stand.place)
    assert f"wallet {stand.user.wallet} (deposit), signed for by {stand.user.address}" in lines
    assert "1000.00 dollars in the wallet" in lines
    assert [one.path for one in stand.venue.requests if one.method != "GET"] == []
    assert KEY[2:] not in "".join(lines)


async def test_without_attestation_nothing_is_asked(stand: Stand) -> None:
    with pytest.raises(Unauthorized, match=r"set attested = true in \[venues.polymarket.settings\]"):
        await check(stand.changed(attested=False), stand.place)
    assert stand.venue.requests == []


async def test_a_blocked_region_is_told_and_no_way_round_is_offered(stand: Stand) -> None:
    stand.venue.is_blocked, stand.venue.country = True, "GB"
    with pytest.raises(Unauthorized, match=r'takes no orders from this region; set mode = "paper".*it says: GB'):
        await check(stand.settings, stand.place)


async def test_a_region_that_is_not_told_is_not_permitted(stand: Stand) -> None:
    stand.venue.faults.next(Trouble(fault=Fault.ALTERED, alter=lambda _: {"ip": "1.2.3.4"}), path="/site/api/geoblock")
    with pytest.raises(ContractError, match="does not say whether this region is blocked"):
        await require_permitted(stand.settings, stand.http)
    stand.venue.faults.next(Fault.PAGE_BEFORE, path="/site/api/geoblock")
    with pytest.raises(ContractError, match="does not say"):
        await require_permitted(stand.settings, stand.http)


async def test_a_key_that_is_not_set_or_open_to_others_is_named(stand: Stand) -> None:
    with pytest.raises(Unauthorized, match="key_file and wallet are not set"):
        await check(stand.changed(key_file=None), stand.place)
    key_file(stand.folder, mode=0o644)
    with pytest.raises(Unauthorized, match="chmod 600"):
        await told(stand)


@pytest.mark.parametrize("skew_s", [-40.0, 40.0])
async def test_a_clock_that_is_off_is_told_with_by_how_much(stand: Stand, skew_s: float) -> None:
    stand.venue.faults.skew_s = skew_s
    with pytest.raises(Rejected, match=rf"{re.escape(f'{-skew_s:+.0f}')} s off the venue's.*NTP"):
        await told(stand)
    stand.venue.faults.skew_s = skew_s / 2
    assert "dollars in the wallet" in await told(stand)


async def test_a_time_that_is_none_is_not_believed(stand: Stand) -> None:
    stand.venue.faults.next(Fault.PAGE_BEFORE, path="/time")
    with pytest.raises(ContractError, match="no time"):
        await told(stand)


async def test_an_account_that_may_only_close_is_not_live(stand: Stand) -> None:
    stand.user.closed_only = True
    with pytest.raises(Rejected, match="only close positions"):
        await told(stand)


async def test_an_account_without_an_api_key_is_told_and_none_is_made(stand: Stand) -> None:
    stand.user.key = ""
    assert "no API key yet; one is made when it is live first" in await told(stand)
    assert stand.venue.ledger.effects("api key") == []


async def test_a_wallet_without_dollars_or_allowance_is_told(stand: Stand) -> None:
    stand.user.allowance = Decimal(50)
    assert "may take 50.00 of them: set the allowance on the venue's site" in await told(stand)
    stand.user.cash = Decimal(0)
    assert "wallet or wallet_type are wrong" in await told(stand)


async def test_a_wallet_that_cannot_be_derived_from_the_key_is_told(stand: Stand) -> None:
    assert "cannot be derived from the key" in await told(stand)
