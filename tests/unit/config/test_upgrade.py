"""Rewriting an old configuration: the same values under the names of today, and every comment where it was."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.config.loader import load_config
from bot.config.upgrade import SettingsModels, rename_keys, upgrade_text
from bot.core.errors import ConfigError
from bot.core.plugin_specs import PluginSettings
from plugins.models.openai_compatible import OpenAiCompatibleSettings
from plugins.polymarket.settings import PolymarketSettings
from plugins.team.settings import TeamSettings

MODELS: SettingsModels = {
    ("venues", "polymarket", "settings"): PolymarketSettings,
    ("forecasters", "team", "settings"): TeamSettings,
    ("models", "oc", "settings"): OpenAiCompatibleSettings,
}

# Each old key with a value that it may have, by table; then what Config calls the value now.
OLD_SETTINGS: Mapping[tuple[str, ...], Mapping[str, tuple[str, object]]] = {
    ("daemon",): {"attend_every_s": ("7.5", 7.5), "lease_s": ("9", 9)},
    ("desk",): {"results": ("3", 3), "blocked_hosts": ('["a.example", "b.example"]', ["a.example", "b.example"])},
    ("limits",): {"least_trials": ("0.25", 0.25)},
    ("llm", "health"): {"half": ("0.125", 0.125), "gap": ("0.5", 0.5), "hours": ("1", 1)},
    ("venues", "x", "caps"): {"doubts": ("2", 2), "per_day": ("5.0", 5.0)},
    ("venues", "x", "trading"): {"stay_out_h": ("24", 24), "kelly": ("0.5", 0.5)},
    ("venues", "x", "bankroll"): {"least": ("2", 2)},
}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("daemon.attend_every_s = 5", "daemon.requests_every_s = 5"),
        ("[desk]\nresults = 3", "[research]\nresults = 3"),
        ("[ desk . sources . 'a.b' ]\nfirst = 'x'", "[ research . sources . 'a.b' ]\nfirst = 'x'"),
        ('[daemon]\n"attend_every_s"\t=  5 # why', "[daemon]\nrequests_every_s\t=  5 # why"),
        ("daemon = { lease_s = 1, attend_every_s = 5 }", "daemon = { lease_s = 1, requests_every_s = 5 }"),
        ("[venues.x]\ncaps.doubts = 1", "[venues.x]\ncaps.unknown_writes = 1"),
        ("state = 'attend_every_s = 5'", "state = 'attend_every_s = 5'"),
        ('state = """\n[desk]\nattend_every_s = 5\n"""', 'state = """\n[desk]\nattend_every_s = 5\n"""'),
        ("# [desk]\n#attend_every_s = 5\nseed = 1", "# [desk]\n#attend_every_s = 5\nseed = 1"),
        ("[daemon]\r\nattend_every_s = 5\r\n", "[daemon]\r\nrequests_every_s = 5\r\n"),
        ("[venues.polymarket.settings]\nmost_pages = 5", "[venues.polymarket.settings]\nmax_pages = 5"),
        (
            "[venues.polymarket]\nsettings = {most_pages = 5, tags = [\n'a', # b\n'c']}",
            "[venues.polymarket]\nsettings = {max_pages = 5, tags = [\n'a', # b\n'c']}",
        ),
        (
            "[forecasters.team.settings]\ngoals = [{words = 'a'},\n # most\n {words = 'b'}]",
            "[forecasters.team.settings]\ngoals = [{search_words = 'a'},\n # most\n {search_words = 'b'}]",
        ),
        (
            "[[forecasters.team.settings.goals]]\nwords = 'a'\n[[forecasters.team.settings.goals]]\nwords = 'b'",
            (
                "[[forecasters.team.settings.goals]]\nsearch_words = 'a'\n"
                "[[forecasters.team.settings.goals]]\nsearch_words = 'b'"
            ),
        ),
        (
            "[models.oc.settings.endpoints.a]\nnotices_cuts = true",
            "[models.oc.settings.endpoints.a]\ndetect_cut_prompts = true",
        ),
        # The same words elsewhere are other settings.
        ("[venues.x.exclude]\nwords = ['a']", "[venues.x.exclude]\nwords = ['a']"),
        ("[models.oc.settings.endpoints.desk]\nbase_url = ''", "[models.oc.settings.endpoints.desk]\nbase_url = ''"),
        ("", ""),
    ],
)
def test_keys_are_renamed_and_nothing_else_changes(old: str, new: str) -> None:
    upgraded, changes = upgrade_text(old, MODELS)
    assert upgraded == new
    assert bool(changes) is (old != new)
    assert upgrade_text(upgraded, MODELS) == (new, [])


def test_what_was_renamed_is_told_with_its_line() -> None:
    _, changes = upgrade_text("# a\n[desk]\nresults = 1\n[daemon]\n\nattend_every_s = 1\n", MODELS)
    assert [(one.line, one.old, one.new) for one in changes] == [
        (2, "desk", "research"),
        (6, "daemon.attend_every_s", "daemon.requests_every_s"),
    ]


@pytest.mark.parametrize(
    "text",
    ["[daemon]\nattend_every_s = 1\nrequests_every_s = 2", "[desk]\nresults = 1\n[research]\nresults = 2"],
)
def test_both_names_at_once_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="which is set too; remove one of them"):
        upgrade_text(text, MODELS)


def test_values_that_equal_nothing_are_no_obstacle() -> None:
    assert upgrade_text("daemon.attend_every_s = nan", MODELS)[0] == "daemon.requests_every_s = nan"


class PoorlyRenamedSettings(PluginSettings):
    renamed_keys = {"size": "two words"}  # noqa: RUF012 - as an author may write it


def test_a_text_that_would_not_mean_the_same_is_not_written() -> None:
    with pytest.raises(ConfigError, match=r"cannot be rewritten safely; rename by hand: .*\.size to .*\.two words"):
        upgrade_text("[data.x.settings]\nsize = 1", {("data", "x", "settings"): PoorlyRenamedSettings})


COMMENT = st.text(st.sampled_from("ab #\"'[]{}=,."), max_size=12)


@st.composite
def old_files(draw: st.DrawFn) -> str:
    """Return an old file in some layout: tables by header, dotted or inline; quoted keys; comments everywhere."""
    head, rest = ["[venues.x]", 'forecasters = ["y"]'], []
    for table, values in draw(st.permutations(list(OLD_SETTINGS.items()))):
        names = draw(st.lists(st.sampled_from(sorted(values)), unique=True))
        pairs = [(draw(st.sampled_from([name, f'"{name}"', f"'{name}'"])), values[name][0]) for name in names]
        form = draw(st.sampled_from(["header", "inline", "dotted"])) if pairs else "none"
        if form == "header":
            rest += [f"[{draw(st.sampled_from(['.', ' . '])).join(table)}] #{draw(COMMENT)}"]
            rest += [f"{name} = {value}  #{draw(COMMENT)}" for name, value in pairs]
        elif form == "inline" and table[0] == "venues":
            head += [f"{table[-1]} = {{ {', '.join(f'{name} = {value}' for name, value in pairs)} }} # {draw(COMMENT)}"]
        elif form == "dotted" and table[0] == "venues":
            head += [f"{table[-1]} . {name} = {value}#{draw(COMMENT)}" for name, value in pairs]
        else:
            rest = [f"{'.'.join(table)}.{name} = {value} #{draw(COMMENT)}" for name, value in pairs] + rest
        rest = [*rest, f"#{draw(COMMENT)}", ""]
    dotted = [line for line in rest if re.match(r"[a-z]+[.\w]*\.[\"'\w]+ = ", line)]
    tables = [line for line in rest if line not in dotted]
    return "\n".join([*dotted, *head, *tables])


@given(old_files())
def test_an_upgraded_file_loads_with_the_same_values_and_all_comments(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    before = tomllib.loads(text)
    upgraded, changes = upgrade_text(text, {})
    after = tomllib.loads(upgraded)
    assert after == rename_keys(before, {})
    assert text.count("\n") == upgraded.count("\n")
    for old, new in zip(text.split("\n"), upgraded.split("\n"), strict=True):
        assert old == new or old.partition("#")[2] == new.partition("#")[2]
    file: Path = tmp_path_factory.mktemp("upgraded") / "config.toml"
    file.write_text(upgraded, encoding="utf-8")
    loaded = load_config(file, {}).model_dump(mode="json")
    for table, values in OLD_SETTINGS.items():
        written: Any = before
        for part in table:
            written = written.get(part, {})
        for name in written:
            assert value_of(loaded, (*table, name)) == values[name][1]
    assert bool(changes) is (before != after)


def value_of(loaded: Mapping[str, Any], key: tuple[str, ...]) -> object:
    """Return the value of an old key under the names of today, which are written out here once more."""
    current = {
        "attend_every_s": "requests_every_s",
        "desk": "research",
        "least_trials": "min_trial_share",
        "half": "even_answers",
        "gap": "belief_gap",
        "doubts": "unknown_writes",
        "stay_out_h": "cooldown_h",
        "least": "min_stake",
    }
    value: Any = loaded
    for part in key:
        value = value[current.get(part, part)]
    return value
