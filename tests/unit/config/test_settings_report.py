"""What is said of settings: every one has a description, and types and defaults are in words."""

from typing import Annotated, Literal

import pytest
from pydantic import Field, SecretStr

from bot.config.base_schema import ConfigSection
from bot.config.schema import Config
from bot.config.settings_report import describe_settings, find_setting, fits_key, parse_key, suggest_settings


class PriceTable(ConfigSection):
    """What something costs."""

    usd: float = Field(ge=0)
    """US dollars."""


class ExampleSettings(ConfigSection):
    size: int = Field(default=3, ge=1, le=5_000)
    """How large."""

    share: float | None = Field(default=None, gt=0, lt=1)
    """Which part; unset: all."""

    kind: Literal["a", "b", "c"] = "a"
    """Which kind."""

    names: tuple[str, ...] = ()
    """Whose."""

    band: tuple[float, float] = (0.25, 0.75)
    """Between what."""

    key: SecretStr
    """The key."""

    prices: dict[Annotated[str, Field(pattern="^[a-z]+$")], PriceTable] = Field(default_factory=dict)
    """Prices by name."""

    steps: tuple[PriceTable, ...] = ()
    """Prices one by one."""

    headers: dict[str, str] = Field(default_factory=dict)
    """Headers."""

    common: PriceTable = PriceTable(usd=1.0)


DESCRIBED = describe_settings(ExampleSettings, ("here",), summary="An example")


@pytest.mark.parametrize(
    ("name", "kind", "default"),
    [
        ("here.size", "whole number, 1 to 5,000", "3"),
        ("here.share", "number, above 0, below 1", "unset"),
        ("here.kind", '"a", "b" or "c"', '"a"'),
        ("here.names", "list of texts", "empty"),
        ("here.band", "list of 2 numbers", "[0.25, 0.75]"),
        ("here.key", "secret text", ""),
        ("here.prices", "table with entries of any name", ""),
        ("here.prices.NAME.usd", "number, at least 0", ""),
        ("here.steps", "list of tables", ""),
        ("here.steps[N].usd", "number, at least 0", ""),
        ("here.headers", "table with entries of any name", "empty"),
        ("here.common", "table", ""),
    ],
)
def test_type_and_default_are_in_words(name: str, kind: str, default: str) -> None:
    found = {setting.name: setting for setting in DESCRIBED}[name]
    assert (found.type, found.default) == (kind, default)


def test_the_table_itself_comes_first_with_its_keys() -> None:
    assert (DESCRIBED[0].name, DESCRIBED[0].description) == ("here", "An example")
    assert DESCRIBED[0].keys[:3] == ("size", "share", "kind")


def test_a_table_without_a_text_of_its_own_is_described_by_its_class() -> None:
    assert {setting.name: setting.description for setting in DESCRIBED}["here.common"] == "What something costs."


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("here.size", "here.size"),
        ("here.prices.apples.usd", "here.prices.NAME.usd"),
        ("here.prices.*.usd", "here.prices.NAME.usd"),
        ("here.prices.NAME.usd", "here.prices.NAME.usd"),
        ("here.steps[4].usd", "here.steps[N].usd"),
        ("here.headers.accept", "here.headers"),
        ("here.common.usd", "here.common.usd"),
    ],
)
def test_a_key_finds_its_setting(key: str, found: str) -> None:
    setting = find_setting(DESCRIBED, parse_key(key))
    assert setting is not None
    assert setting.name == found


@pytest.mark.parametrize("key", ["here.siz", "size", "here.common.usd.more", ""])
def test_a_stray_key_finds_nothing(key: str) -> None:
    assert find_setting(DESCRIBED, parse_key(key)) is None


def test_suggestions_end_as_the_key_does_or_look_like_it() -> None:
    assert suggest_settings(DESCRIBED, "size") == ("here.size",)
    assert suggest_settings(DESCRIBED, "here.shar")[0] == "here.share"
    assert suggest_settings(DESCRIBED, "") == ()


def test_a_quoted_part_of_a_key_may_have_dots() -> None:
    assert parse_key('llm.models."a:b.c".free') == ("llm", "models", "a:b.c", "free")
    assert parse_key("choose[12].tag") == ("choose", 12, "tag")


def test_a_wildcard_in_the_key_fits_one_part_only() -> None:
    assert fits_key(("venues", "NAME", "mode"), ("venues", "*", "mode"))
    assert not fits_key(("venues", "NAME", "mode"), ("venues", "*"))


def test_no_setting_of_the_engine_is_listed_twice() -> None:
    names = [setting.name for setting in describe_settings(Config)]
    assert len(names) == len(set(names)) > 100
