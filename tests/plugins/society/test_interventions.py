"""Interventions: one input is changed, everything before it stays the same, and what it changes can be seen."""

from pathlib import Path
from typing import Any

import pytest

from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings, recordable_settings, restore_settings
from bot.core.errors import ConfigError
from bot.core.plugin_specs import ForecasterSpec
from bot.plugin_system.registry import load_registry
from plugins.society import foxcast_forecasters
from plugins.society.interventions import ScenarioInterventions, apply_interventions
from plugins.society.scenario_files import load_shipped_scenario, read_shipped_text
from plugins.society.settings import CourtSettings
from tests.plugins.society.cases import (
    ScriptedParticipant,
    done,
    heard,
    named,
    scripted_context,
    steps_of,
    told,
    wanted,
)


def settings(**changes: Any) -> CourtSettings:
    return CourtSettings(interventions=ScenarioInterventions(**changes))


async def test_a_variable_keeps_the_value_that_it_was_given() -> None:
    at = scripted_context(
        prosecution=ScriptedParticipant(), judge=ScriptedParticipant(says={"say": {"statement": "strict rules"}})
    )
    steps = await done(at, settings(variables={"rules": "Anything goes."}))
    assert "Anything goes." in heard(at, "prosecution")
    assert "strict rules" not in heard(at, "prosecution")
    # What the judge said all the same is on record.
    assert named(steps, "rules")[0].observation.text == "strict rules"
    assert "intervention: variables rules = Anything goes." in steps[0].remarks


async def test_the_jury_can_be_given_and_the_clerk_is_not_asked() -> None:
    at = scripted_context(clerk=ScriptedParticipant(), juror_1=ScriptedParticipant(), juror_2=ScriptedParticipant())
    steps = await done(at, settings(jurors=({"name": "Ann", "trade": "pilot"}, {"name": "Ben", "trade": "cook"})))
    assert told(named(steps, "jury")[0], "jurors") == [
        {"name": "Ann", "trade": "pilot"},
        {"name": "Ben", "trade": "cook"},
    ]
    assert "trade: pilot" in heard(at, "juror_1")
    assert not any(one.role == "clerk" for one in at.prompts)


async def test_a_placeholder_keeps_the_value_that_it_was_given() -> None:
    at = scripted_context(juror=ScriptedParticipant(says={"deliberate": {"statement": "the tide is low"}}))
    changed = ScenarioInterventions(variables={"reasons": "The others keep silent."})
    await done(at, CourtSettings(scenario="full", rounds=0, jurors=2, interventions=changed))
    assert heard(at, "juror").count("The others keep silent.") == 2
    # Its own words are in the conversation as a call; those of the other one are nowhere.
    assert "the tide is low" not in heard(at, "juror")


@pytest.mark.parametrize("part", ["search_1_result_2", "port.example", "harbour CLOSED"])
async def test_an_article_can_be_left_out(part: str) -> None:
    at = scripted_context()
    steps = await done(at, settings(without_articles=(part,)))
    assert [one["id"] for one in told(named(steps, "ranking")[0], "articles")] == ["search_1_result_1"]
    assert any("left out by an intervention" in remark for remark in named(steps, "ranking")[0].remarks)


async def test_the_other_articles_are_rated_as_in_a_trial_with_the_one_that_is_left_out() -> None:
    plain, changed = scripted_context(), scripted_context()
    await done(plain)
    steps = await done(changed, settings(without_articles=("port.example",)))
    rating = [[one for one in at.prompts if wanted(one.prompt).name == "rate"] for at in (plain, changed)]
    assert rating[0] == rating[1] != []
    # Nobody else reads it.
    later = changed.prompts[changed.prompts.index(rating[1][0]) + 1 :]
    assert not any("Harbour closed" in message.text for one in later for message in one.prompt.messages)
    assert "Harbour closed" not in named(steps, "ranking")[0].observation.text


async def test_a_message_a_system_message_and_the_model_of_a_role_can_be_changed() -> None:
    changes: dict[str, Any] = {
        "messages": {"rules": "Be brief about {title}.", "8": "Vote at once."},
        "systems": {"judge": "You are a harsh judge.", "jury": "You are curt. {profile}"},
        "roles": {"judge": "other", "jury": "crowd"},
    }
    at = scripted_context(other=ScriptedParticipant(), crowd=ScriptedParticipant())
    steps = await done(at, settings(**changes))
    assert "You are a harsh judge." in heard(at, "other")
    assert "You are curt." in heard(at, "crowd")
    assert "Vote at once." in heard(at, "crowd")
    assert told(named(steps, "rules")[0], "message").startswith("Be brief about <untrusted-")
    assert sum(one.role == "crowd" for one in at.prompts) == 3


async def test_what_comes_before_an_intervention_is_asked_in_the_very_same_words_with_the_same_seeds() -> None:
    plain, changed = scripted_context(seed=1), scripted_context(seed=2)
    await done(plain)
    await done(changed, settings(messages={"defence_opening": "Say nothing of use."}))
    same = [one == other for one, other in zip(plain.prompts, changed.prompts, strict=True)]
    before = same.index(False)
    assert wanted(changed.prompts[before].prompt).name == "argue"
    assert before == 6
    # Another trial of the same court has chance of its own.
    second = scripted_context(trial=2)
    await done(second)
    assert {one.seed for one in plain.prompts}.isdisjoint({one.seed for one in second.prompts})


async def test_a_role_that_no_model_plays_is_no_intervention() -> None:
    steps, error = await steps_of(scripted_context(), settings(roles={"judge": "nobody"}))
    assert steps == []
    assert isinstance(error, ConfigError)


@pytest.mark.parametrize(
    ("changes", "told_so"),
    [
        ({"variables": {"ruels": "x"}}, "variables: no variable or placeholder is called ruels; did you mean rules?"),
        ({"messages": {"ruels": "x"}}, "messages: there is no step ruels; did you mean rules?"),
        ({"roles": {"jugde": "x"}}, "roles: there is no agent jugde; did you mean judge?"),
        ({"systems": {"x": "x"}}, "systems: there is no agent x; valid: "),
        ({"messages": {"rules": "{ruels}"}}, "nothing fills the placeholder {ruels}; did you mean rules?"),
        ({"variables": {"rules": "{summary}", "summary": "{rules}"}}, "holds itself"),
    ],
)
def test_an_intervention_on_what_is_not_there_is_refused(changes: dict[str, Any], told_so: str) -> None:
    with pytest.raises(ConfigError) as caught:
        apply_interventions(load_shipped_scenario("ten"), ScenarioInterventions(**changes))
    assert told_so in str(caught.value)


def spec() -> ForecasterSpec[CourtSettings]:
    (offered,) = foxcast_forecasters()
    return offered


def configured(folder: Path, text: str) -> Any:
    file = folder / "config.toml"
    file.write_text(f'plugins = ["society"]\n{text}')
    return load_config(file, {})


def test_a_variant_in_config_is_a_forecaster_of_its_own(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        '[forecasters.bold]\nuses = "court"\ntrials = 3\n[forecasters.bold.settings]\nscenario = "full"\njurors = 11\n'
        '[forecasters.bold.settings.interventions]\nwithout_articles = ["ads.example"]\n'
        '[forecasters.bold.settings.interventions.variables]\nrules = "Be bold."\n'
        '[[forecasters.bold.settings.interventions.jurors]]\nname = "Ann"\ntrade = "pilot"\n',
    )
    registry = load_registry(config)
    assert registry.broken == ()
    opened = load_plugin_settings(registry.forecasters["bold"], config)
    assert isinstance(opened, CourtSettings)
    assert (opened.jurors, opened.interventions.variables) == (11, {"rules": "Be bold."})
    assert opened.interventions.without_articles == ("ads.example",)
    # 28 steps, of which the two votes and the deliberation are a move for each juror; a jury that is given counts.
    steps = registry.forecasters["bold"].steps
    assert steps is not None
    assert steps(opened) == 25 + 3 * 1


@pytest.mark.parametrize(
    ("line", "told_so"),
    [
        ('scenario = "elven"', "settings.scenario: no scenario elven comes with the package; valid: full, ten"),
        ('scenario = "gone.toml"', "gone.toml: cannot be read"),
        ('scenario = "bad.toml"', "bad.toml:3: agents[0].nmae: there is no such key; did you mean name?"),
        ("jurors = 26", "settings.jurors: should be less than or equal to 25"),
        ("quantiles = [50, 10]", "settings.quantiles: should rise, each once"),
        ('aggregate = "mode"', "settings.aggregate: should be"),
        ('interventions = { variables = { ruels = "x" } }', "no variable or placeholder is called ruels"),
        ("clairvoyance = 1", "settings.clairvoyance: there is no such key"),
    ],
)
def test_settings_that_make_no_sense_are_refused_with_the_place(tmp_path: Path, line: str, told_so: str) -> None:
    (tmp_path / "bad.toml").write_text("[[agents]]\nname = 'x'\nnmae = 'x'\n")
    config = configured(tmp_path, f"[forecasters.court.settings]\n{line}\n")
    with pytest.raises(ConfigError) as caught:
        load_plugin_settings(spec(), config)
    assert told_so in str(caught.value)


async def test_a_scenario_of_ones_own_is_kept_with_the_settings_so_that_a_replay_needs_no_file(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(read_shipped_text("ten").replace("num_jurors = 3", "num_jurors = 2"))
    config = configured(tmp_path, '[forecasters.court.settings]\nscenario = "own.toml"\n')
    kept = recordable_settings(load_plugin_settings(spec(), config))
    own.unlink()
    again = restore_settings(spec(), config, kept)
    assert isinstance(again, CourtSettings)
    steps, error = await steps_of(scripted_context(), again)
    assert error is None
    assert len(told(steps[-1], "tally")["votes"]) == 2
