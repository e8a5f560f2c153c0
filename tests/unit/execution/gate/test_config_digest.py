from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bot.config.key_lines import KeyPath
from bot.config.schema import Config
from bot.config.sources import ConfigSources, EnvironmentVariable, TomlDocument, variable_name
from bot.core.plugin_specs import (
    ConfigurableSpec,
    ForecasterSpec,
    LocalPath,
    ModelSpec,
    PluginSettings,
    PluginTableName,
    SearchSpec,
    VenueSpec,
)
from bot.execution.gate.config_digest import config_digest as digest_with
from bot.execution.gate.config_digest import credentials_digest, is_same_public_config
from bot.execution.gate.execution_policy import venue_policies, venue_policy

TABLE: dict[str, Any] = {"forecasters": ["first"], "settings": {"groups": ["weather"]}}


class GroupSettings(PluginSettings):
    groups: tuple[str, ...] = ()
    pace: float = 1.0
    key: SecretStr | None = None
    keys: tuple[SecretStr, ...] = ()
    token_file: LocalPath | None = None


class EngineSettings(PluginSettings):
    key: SecretStr | None = None
    depth: int = 1


def opened(*_: object) -> Any:
    message = "nothing is opened to find out what is armed"
    raise AssertionError(message)


# The first one's forecasts leave, and it builds on the member's; the second one is scored beside it.
FORECASTERS = [
    ForecasterSpec(name="first", summary="Thing.", settings=GroupSettings, open=opened, members=lambda _: ["member"]),
    ForecasterSpec(
        name="member",
        summary="Thing.",
        settings=GroupSettings,
        open=opened,
        roles=("judge",),
        optional_roles=("juror_*",),
    ),
    ForecasterSpec(
        name="second", summary="Thing.", settings=GroupSettings, open=opened, roles=("second_opinion", "judge")
    ),
]
SHELF: Mapping[PluginTableName, Iterable[ConfigurableSpec[Any]]] = {
    PluginTableName.FORECASTERS: FORECASTERS,
    PluginTableName.VENUES: [
        VenueSpec(name="torch", summary="Thing.", settings=GroupSettings, reader=opened),
        VenueSpec(name="lantern", summary="Thing.", settings=GroupSettings, reader=opened, fees=opened),
    ],
    PluginTableName.MODELS: [
        ModelSpec(name=name, summary="Thing.", settings=EngineSettings, open=opened) for name in ("there", "elsewhere")
    ],
    PluginTableName.SEARCH: [SearchSpec(name="finder", summary="Thing.", settings=EngineSettings, open=opened)],
}


def offered(table: PluginTableName) -> Iterable[ConfigurableSpec[Any]]:
    return SHELF.get(table, ())


def config_digest(config: Config, venue: str) -> str:
    return digest_with(config, venue, offered)


def within(environment: Mapping[tuple[str, ...], str], **changes: Any) -> str:
    """Return the digest of the lantern where the environment sets some keys."""
    variables: Mapping[KeyPath, EnvironmentVariable] = {
        key: EnvironmentVariable(name=variable_name(key), value=value) for key, value in environment.items()
    }
    return config_digest(config(**changes).with_sources(ConfigSources(variables=variables)), "lantern")


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
        {"policy": {"price_move": 0.1}},
        {"plugin_files": ["mine.py"]},
        {"limits": {"steps": 3}},
        {"research": {"results": 3}},
        {"venues": venues(comment=True)},
        {"venues": venues(choose=[{"tag": "ai", "forecasters": ["second"]}])},
        {"forecasters": {"member": {"trials": 5}}},
        {"llm": {"roles": {"judge": {"model": "there:small"}}}},
        {"llm": {"roles": {"juror_3": {"model": "there:small"}}}},
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
        {"plugins": ["other"]},
        {"notifiers": {"mail": {}}},
        {"forecasters": {"second": {"trials": 5}}},
        {"venues": venues(forecasters=["first", "second"])},
        {"venues": venues(paper={"cash": 5.0})},
        {"venues": venues(discover_every_s=5.0)},
        {"llm": {"budget": {"day_usd": 99.0}}},
        {"llm": {"providers": {"there": {"concurrency": 1}}}},
        {"llm": {"models": {"there:small": {"price_in": 1.0, "price_out": 2.0}}}},
        {"llm": {"roles": {"second_opinion": {"model": "there:small"}}}},
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
    make_policy = venue_policy(
        config(venues=venues(caps={"total": 9.0}, close_margin_s=30.0, approval_h=2.0)), "lantern", offered
    )
    assert (make_policy.primary_forecaster, make_policy.account, make_policy.caps.total) == ("first", "default", 9.0)
    assert (make_policy.close_margin.total_seconds(), make_policy.approval_lifetime.total_seconds()) == (30.0, 7200.0)
    assert make_policy.is_live


@pytest.mark.parametrize(("settings", "lasts"), [({"pace": 48}, timedelta(hours=48)), ({"pace": "odd"}, None)], ids=str)
def test_how_long_a_forecast_lasts_at_a_venue_is_as_its_settings_say(
    settings: dict[str, Any], lasts: timedelta | None
) -> None:
    lapsing = VenueSpec(
        name="lantern",
        summary="Thing.",
        settings=GroupSettings,
        reader=opened,
        forecast_lifetime=lambda given: timedelta(hours=given.pace),
    )
    made = venue_policy(config(venues=venues(settings=settings)), "lantern", lambda _: [lapsing])
    assert made.forecast_lifetime == lasts
    assert venue_policy(config(), "lantern", offered).forecast_lifetime is None


GROUPS, PACE = ("venues", "lantern", "settings", "groups"), ("venues", "lantern", "settings", "pace")
KEY, OTHER = ("venues", "lantern", "settings", "key"), ("search", "finder", "settings", "key")


@pytest.mark.parametrize(
    "environment", [{PACE: "2"}, {("search", "finder", "settings", "depth"): "3"}, {KEY: "of another account"}], ids=str
)
def test_what_the_environment_sets_of_a_plugin_counts(environment: dict[tuple[str, ...], str]) -> None:
    assert within(environment) != within({})


def test_where_a_setting_comes_from_does_not_count() -> None:
    assert within({PACE: "2"}) == within({}, venues=venues(settings={"groups": ["weather"], "pace": 2}))


def test_where_the_configuration_lies_does_not_count_and_where_its_files_lie_does(tmp_path: Path) -> None:
    def lying(folder: Path, token_file: str, *plugins: str) -> str:
        placed = config(venues=venues(settings={"token_file": token_file}), plugin_files=plugins)
        return config_digest(
            placed.with_sources(ConfigSources(document=TomlDocument(path=folder / "config.toml"))), "lantern"
        )

    here, there = tmp_path / "here", tmp_path / "there"
    assert lying(here, "token") == lying(there, "token")
    assert lying(here, "../token") == lying(there, "../token")
    assert lying(here, "token") != lying(here, "../token")
    assert lying(here, "token", "mine.py") == lying(there, "token", "mine.py") != lying(there, "token", "yours.py")
    assert lying(there, str(there / "token")) == lying(there, "token")


def test_another_key_is_another_account_and_a_key_for_reading_is_not() -> None:
    assert within({KEY: "of one account"}) != within({KEY: "of another account"})
    assert within({KEY: "of one account"}) == within({KEY: "of one account"})
    assert within({OTHER: "one to search with"}) == within({})


def test_a_digest_does_not_hold_what_a_key_can_be_guessed_from_at_speed() -> None:
    public, _, hidden = within({KEY: "hunter2"}).partition(".")
    assert public == within({})
    # As long as what RFC 7914 derives here; nothing is said of a venue where nothing real leaves.
    assert len(bytes.fromhex(hidden)) == 32
    assert within({KEY: "hunter2"}, mode="paper") == within({}, mode="paper")


def test_who_arms_need_not_have_the_keys_but_no_others_either() -> None:
    ours = within({KEY: "of one account"})
    assert is_same_public_config(within({}), ours)
    assert is_same_public_config(ours, ours)
    assert not is_same_public_config(within({KEY: "of another account"}), ours)
    assert not is_same_public_config(within({PACE: "2"}), ours)
    assert not is_same_public_config(ours, within({}))


FIRST_PACE, SECOND_PACE = (("forecasters", name, "settings", "pace") for name in ("first", "second"))
ROLES = {"llm": {"roles": {"judge": {"model": "there:small:7b"}}}}


def test_only_the_settings_of_submitting_forecasters_and_of_the_models_that_they_ask_count() -> None:
    assert within({FIRST_PACE: "2"}) != within({}) == within({SECOND_PACE: "2"})
    there, elsewhere = ((PluginTableName.MODELS, name, "settings", "depth") for name in ("there", "elsewhere"))
    assert within({there: "3"}, **ROLES) != within({}, **ROLES) == within({elsewhere: "3"}, **ROLES)


def test_all_that_one_of_several_forecasters_builds_on_counts() -> None:
    chosen = venues(forecasters=["second"], choose=[{"tag": "ai", "forecasters": ["first"]}])
    before = config_digest(config(venues=chosen), "lantern")
    for name in ("first", "second", "member"):
        assert config_digest(config(venues=chosen, forecasters={name: {"trials": 5}}), "lantern") != before


def test_settings_of_a_plugin_count_as_they_take_effect_and_those_of_an_unknown_one_as_they_are_written() -> None:
    for written, same in (({"pace": 2}, {"pace": 2.0}), ({}, {"pace": 1.0})):
        for name in ("lantern", "first"):
            digests = {
                config_digest(config(venues=venues(settings=one)), "lantern")
                if name == "lantern"
                else config_digest(config(forecasters={name: {"settings": one}}), "lantern")
                for one in (written, same)
            }
            assert len(digests) == 1
    ghost = venues(forecasters=["ghost"])
    of_ghost = [
        config_digest(config(venues=ghost, forecasters={"ghost": {"settings": {"pace": pace}}}), "lantern")
        for pace in (1, 2)
    ]
    assert of_ghost[0] != of_ghost[1]
    of_nowhere = [
        config_digest(config(venues={"nowhere": TABLE | {"settings": settings}}), "nowhere")
        for settings in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 3})
    ]
    assert of_nowhere[0] == of_nowhere[1] != of_nowhere[2]


def test_a_venue_without_a_table_has_a_digest() -> None:
    assert config_digest(config(), "nowhere") != config_digest(config(), "lantern")


def test_each_of_several_keys_is_part_of_the_credentials() -> None:
    _, lantern = SHELF[PluginTableName.VENUES]
    keys = ("venues", "lantern", "settings", "keys")
    assert len({within({keys: value}) for value in ('["a", "b"]', '["a", "c"]', '["d", "b"]')}) == 3
    assert credentials_digest(config(), lantern) == ""
    variables: Mapping[KeyPath, EnvironmentVariable] = {
        KEY: EnvironmentVariable(name=variable_name(KEY), value="of one account")
    }
    hidden = credentials_digest(config().with_sources(ConfigSources(variables=variables)), lantern)
    assert len(bytes.fromhex(hidden)) == 32


def test_policies_that_exist_already_are_kept() -> None:
    made = venue_policies(config(), offered)
    assert {name: (policy.venue, policy.fees) for name, policy in made.items()} == {
        "lantern": ("lantern", opened),
        "torch": ("torch", None),
    }
    again = venue_policies(config(), offered, known={"lantern": made["lantern"]})
    assert again["lantern"] is made["lantern"]
    assert again["torch"] == made["torch"]
