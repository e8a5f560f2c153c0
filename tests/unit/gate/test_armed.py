from typing import Any

import pytest

from bot.config.model import Config
from bot.gate.armed import config_digest
from bot.gate.lanes import lane_in

TABLE: dict[str, Any] = {"forecasters": ["first"], "settings": {"groups": ["weather"]}}


def config(**changes: Any) -> Config:
    return Config(**({"mode": "live", "venues": {"lantern": TABLE, "torch": TABLE}} | changes))


def venues(**changes: Any) -> dict[str, Any]:
    return {"lantern": TABLE | changes, "torch": TABLE}


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "approve"},
        {"venues": venues(caps={"per_order": 5.0})},
        {"venues": venues(trading={"kelly": 0.5})},
        {"venues": venues(account="other")},
        {"venues": venues(close_margin_s=0.0)},
        {"venues": venues(approval_h=1.0)},
        {"venues": venues(settings={"groups": ["sports"]})},
        {"venues": venues(forecasters=["second"])},
        {"forecasters": {"first": {"trials": 5}}},
        {"calibration": {"use": "gated"}},
        {"llm": {"roles": {"main": {"model": "there:small"}}}},
        {"plugins": ["other"]},
        {"policy": {"price_move": 0.1}},
        {"seed": 2},
    ],
    ids=str,
)
def test_a_change_of_what_decides_what_leaves_changes_the_digest(changes: dict[str, Any]) -> None:
    assert config_digest(config(**changes), "lantern") != config_digest(config(), "lantern")


@pytest.mark.parametrize(
    "changes",
    [
        {"log": {"level": "debug"}},
        {"daemon": {"submit_every_s": 5.0}},
        {"state": "elsewhere"},
        {"venues": {"lantern": TABLE, "torch": TABLE | {"caps": {"total": 1.0}}}},
        {"venues": {"torch": TABLE, "lantern": TABLE}},
        {"mode": "paper", "venues": {"lantern": TABLE | {"mode": "live"}}},
    ],
    ids=str,
)
def test_what_changes_nothing_about_it_leaves_the_digest_as_it_is(changes: dict[str, Any]) -> None:
    before = config(venues={"lantern": TABLE | {"mode": "live"}, "torch": TABLE}) if "mode" in changes else config()
    assert config_digest(config(**changes), "lantern") == config_digest(before, "lantern")


def test_a_lane_is_as_config_says() -> None:
    lane = lane_in(config(venues=venues(caps={"total": 9.0}, close_margin_s=30.0, approval_h=2.0)), "lantern")
    assert (lane.primary, lane.account, lane.caps.total) == ("first", "default", 9.0)
    assert (lane.close_margin.total_seconds(), lane.approval.total_seconds()) == (30.0, 7200.0)
    assert lane.live
