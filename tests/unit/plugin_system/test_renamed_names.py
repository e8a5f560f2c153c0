"""Old names of the plugin API are refused with the new ones."""

import importlib

import pytest

import bot.api
from bot.plugin_system.renamed_names import RENAMED_NAMES


def test_every_new_name_is_offered_and_no_old_one_is() -> None:
    assert {*RENAMED_NAMES.values()} <= vars(bot.api).keys()
    assert RENAMED_NAMES.keys() & vars(bot.api).keys() == set()


@pytest.mark.parametrize(
    ("old", "new"), [("Settings", "PluginSettings"), ("Desk", "TrialContext"), ("walk", "run_loop")]
)
def test_an_import_of_an_old_name_says_the_new_one(old: str, new: str) -> None:
    with pytest.raises(ImportError, match=rf"^bot\.api: {old} is now {new}$"):
        exec(f"from bot.api import {old}", {})  # noqa: S102 - as a plugin does
    with pytest.raises(ImportError, match=f"is now {new}"):
        getattr(importlib.import_module("bot.api"), old)


def test_a_name_that_never_was_is_missing_as_usual() -> None:
    assert not hasattr(bot.api, "Harpsichord")
    with pytest.raises(ImportError, match="cannot import name 'Harpsichord'"):
        exec("from bot.api import Harpsichord", {})  # noqa: S102 - as a plugin does
