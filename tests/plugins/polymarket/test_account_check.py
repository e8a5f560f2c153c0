"""What is looked at before a venue is live: every obstacle is named with what to do about it."""

import re
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from bot.api import AuthenticationError, MalformedDataError, RequestRejectedError
from bot.simulator.faults import FaultDetails, RequestFault
from plugins.polymarket.account_check import check_account, describe_account, require_trading_allowed
from tests.plugins.polymarket.writer_fixture import KEY, WriterFixture, key_file, open_writer_fixture


@pytest.fixture
async def polymarket(tmp_path: Path) -> AsyncIterator[WriterFixture]:
    async with open_writer_fixture(tmp_path) as opened:
        yield opened


async def account_report(polymarket: WriterFixture) -> str:
    return "\n".join(await describe_account(polymarket.settings, polymarket.place, polymarket.signer()))


async def test_an_account_that_may_trade_is_told_and_nothing_is_written(polymarket: WriterFixture) -> None:
    # The real signer, in a process of its own.
    lines = await check_account(polymarket.settings, polymarket.place)
    assert f"wallet {polymarket.user.wallet} (deposit), signed for by {polymarket.user.address}" in lines
    assert "1000.00 dollars in the wallet" in lines
    assert [one.path for one in polymarket.venue.requests if one.method != "GET"] == []
    assert KEY[2:] not in "".join(lines)


async def test_without_attestation_nothing_is_asked(polymarket: WriterFixture) -> None:
    with pytest.raises(AuthenticationError, match=r"set attested = true in \[venues.polymarket.settings\]"):
        await check_account(polymarket.changed(attested=False), polymarket.place)
    assert polymarket.venue.requests == []


async def test_a_blocked_region_is_told_and_no_way_round_is_offered(polymarket: WriterFixture) -> None:
    polymarket.venue.is_blocked, polymarket.venue.country = True, "GB"
    with pytest.raises(
        AuthenticationError, match=r'accepts no orders from this region; set mode = "paper".*region: GB'
    ):
        await check_account(polymarket.settings, polymarket.place)


async def test_a_region_that_is_not_told_is_not_permitted(polymarket: WriterFixture) -> None:
    polymarket.venue.faults.schedule(
        FaultDetails(fault=RequestFault.ALTERED, alter=lambda _: {"ip": "1.2.3.4"}), path="/site/api/geoblock"
    )
    with pytest.raises(MalformedDataError, match="does not say whether this region is blocked"):
        await require_trading_allowed(polymarket.settings, polymarket.http)
    polymarket.venue.faults.schedule(RequestFault.PAGE_BEFORE, path="/site/api/geoblock")
    with pytest.raises(MalformedDataError, match="does not say"):
        await require_trading_allowed(polymarket.settings, polymarket.http)


async def test_a_key_that_is_not_set_or_open_to_others_is_named(polymarket: WriterFixture) -> None:
    with pytest.raises(AuthenticationError, match="key_file and wallet are not set"):
        await check_account(polymarket.changed(key_file=None), polymarket.place)
    key_file(polymarket.folder, mode=0o644)
    with pytest.raises(AuthenticationError, match="chmod 600"):
        await account_report(polymarket)


@pytest.mark.parametrize("skew_s", [-40.0, 40.0])
async def test_a_clock_that_is_off_is_told_with_by_how_much(polymarket: WriterFixture, skew_s: float) -> None:
    polymarket.venue.faults.skew_s = skew_s
    with pytest.raises(RequestRejectedError, match=rf"{re.escape(f'{-skew_s:+.0f}')} s off the venue's.*NTP"):
        await account_report(polymarket)
    polymarket.venue.faults.skew_s = skew_s / 2
    assert "dollars in the wallet" in await account_report(polymarket)


async def test_a_time_that_is_none_is_not_believed(polymarket: WriterFixture) -> None:
    polymarket.venue.faults.schedule(RequestFault.PAGE_BEFORE, path="/time")
    with pytest.raises(MalformedDataError, match="not a time"):
        await account_report(polymarket)


async def test_an_account_that_may_only_close_is_not_live(polymarket: WriterFixture) -> None:
    polymarket.user.closed_only = True
    with pytest.raises(RequestRejectedError, match="only close positions"):
        await account_report(polymarket)


async def test_an_account_without_an_api_key_is_told_and_none_is_made(polymarket: WriterFixture) -> None:
    polymarket.user.key = ""
    assert "no API key yet; it is created when the venue is first live" in await account_report(polymarket)
    assert polymarket.venue.ledger.effects("api key") == []


async def test_a_wallet_without_dollars_or_allowance_is_told(polymarket: WriterFixture) -> None:
    polymarket.user.allowance = Decimal(50)
    assert "may take 50.00 of them: set the allowance on the venue's site" in await account_report(polymarket)
    polymarket.user.cash = Decimal(0)
    assert "wallet or wallet_type are wrong" in await account_report(polymarket)


async def test_a_wallet_that_cannot_be_derived_from_the_key_is_told(polymarket: WriterFixture) -> None:
    assert "cannot be derived from the key" in await account_report(polymarket)
