"""``foxcast court`` as a person calls it, and trials of the whole engine on record: replayed, shown and compared."""

import asyncio
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # ships none
import pytest
from typer.main import get_command

from bot.cli.main import app
from bot.cli.options import CommandInvocation
from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings
from bot.core.clock import SeededRandom
from bot.core.errors import ConfigError, NotFoundError
from bot.core.forecasts import TrialLimits
from bot.core.questions import QuestionRef
from bot.evaluation.replay import replay_forecast
from bot.plugin_system.registry import load_registry
from bot.store.ledger import LEDGER_FILE
from bot.testing.models import ScriptedModelProvider
from plugins.society.forecaster import CourtForecaster
from plugins.society.interventions import ScenarioInterventions
from plugins.society.scenario_files import read_shipped_text
from plugins.society.settings import CourtSettings
from tests.plugins.society.cases import ScriptedParticipant
from tests.unit.forecast_run_fixture import BLF, model_with_beliefs, open_forecast_runs, question

CONFIG = 'plugins = ["society"]\n[forecasters.court_b]\nuses = "court"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text(CONFIG)
    return tmp_path


def foxcast(folder: Path, *arguments: str) -> None:
    call = CommandInvocation()
    command = get_command(app)
    command.main(["--config", str(folder / "config.toml"), *arguments], standalone_mode=False, obj=call)


def test_scenarios_are_listed_shown_checked_and_described(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foxcast(folder, "court", "scenarios")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["ten", "full"]
    foxcast(folder, "court", "show", "full")
    shown = capsys.readouterr().out
    assert "28 steps, 40 moves" in shown
    assert "juror_N, else juror, else main" in shown
    assert " 22  defence_rebuttal 8/8: message judge -> defence (argument)" in shown
    own = folder / "own.toml"
    own.write_text(read_shipped_text("ten"))
    foxcast(folder, "court", "check", str(own))
    assert "own.toml holds together: 10 steps, 12 moves" in capsys.readouterr().out
    own.write_text(read_shipped_text("ten").replace("{votes}", "{synthesis}", 1))
    foxcast(folder, "court", "check", str(own))
    told = capsys.readouterr().out.splitlines()
    assert [line.endswith("no step before this one stores {synthesis}, so it says (nothing yet)") for line in told] == [
        True,
        False,
    ]
    assert "own.toml holds together: 10 steps, 12 moves" in told[-1]
    own.write_text(read_shipped_text("ten"))
    foxcast(folder, "court", "schema")
    jsonschema.validate(tomllib.loads(own.read_text()), json.loads(capsys.readouterr().out))
    own.write_text(read_shipped_text("ten").replace("{votes}", "{votse}", 1))
    with pytest.raises(
        ConfigError, match=r"own\.toml:\d+: steps\[11\]\.message: nothing fills the placeholder \{votse\}"
    ):
        foxcast(folder, "court", "check", str(own))


def test_a_variant_is_printed_as_the_table_that_makes_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [
        "jurors=5",
        "aggregate=median",
        'variables.rules=Be "bold"\nnow',
        "without_articles=a",
        "without_articles=b",
    ]
    foxcast(folder, "court", "variant", "bold", *given, "roles.judge=big")
    (folder / "config.toml").write_text(CONFIG + capsys.readouterr().out)
    config = load_config(folder / "config.toml", {})
    opened: Any = load_plugin_settings(load_registry(config).forecasters["bold"], config)
    assert (opened.jurors, opened.aggregate) == (5, "median")
    assert opened.interventions == ScenarioInterventions(
        variables={"rules": 'Be "bold"\nnow'}, without_articles=("a", "b"), roles={"judge": "big"}
    )


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ('["search_1_result_1", "b"]', ("search_1_result_1", "b")),
        ("['a', 'b']", ("a", "b")),
        (r'["\ud83d\ude00"]', ("\U0001f600",)),
        ("[]", ()),
        ("[Update] ships", ("[Update] ships",)),
        ('["a"]\nb = 1', ('["a"]\nb = 1',)),
    ],
)
def test_articles_are_left_out_by_a_list_too(
    folder: Path, capsys: pytest.CaptureFixture[str], value: str, read: tuple[str, ...]
) -> None:
    written = ["variables.rules=[1]", f"without_articles={value}", "without_articles=last", "quantiles=[10, 50, 90]"]
    foxcast(folder, "court", "variant", "bold", *written, 'interventions.jurors=[{"age": "40"}]')
    (folder / "config.toml").write_text(CONFIG + capsys.readouterr().out)
    config = load_config(folder / "config.toml", {})
    opened: Any = load_plugin_settings(load_registry(config).forecasters["bold"], config)
    assert opened.interventions == ScenarioInterventions(
        variables={"rules": "[1]"}, without_articles=(*read, "last"), jurors=({"age": "40"},)
    )
    assert opened.quantiles == (10, 50, 90)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["variant", "x", "jurors=26"], "jurors: Input should be less than or equal to 25"),
        (["variant", "x", "jurrors=3"], "there is no setting or intervention jurrors; did you mean jurors?"),
        (["variant", "x", "jurors"], "'jurors' should be KEY=VALUE"),
        (["variant", "x", "messages.ruels=x"], "there is no step ruels; did you mean rules?"),
        (["variant"], "name a name for the variant"),
        (["compare", "abc123"], "compare needs two forecasts"),
        (["show"], "name a scenario, and one alone"),
        (["transcript", "abc123"], "foxcast court transcript is now foxcast transcript"),
        (["scenarios", "x"], "scenarios takes no name, so leave out 'x'"),
        (["schema", "x"], "schema takes no name, so leave out 'x'"),
        (["score"], "score needs one forecast or more"),
        (["variant", "bad name", "variables.rules=x"], "the name 'bad name' should be lower-case letters"),
        (["variant", "a__b"], "the name 'a__b' should be lower-case letters"),
        (["variant", "a" * 61], "single underscores, 60 at most"),
        (["variant", "blf"], "the name 'blf' is that of a plugin"),
        (["variant", "court"], "the name 'court' is the forecaster that the variant is made of"),
        (["variant", "x", "without_articles=[1]"], "interventions.without_articles.0: Input should be a valid string"),
        (["variant", "x", "jurors=3", "jurors.x=1"], "jurors.x: jurors has a value already"),
    ],
)
def test_what_is_asked_wrongly_is_told(folder: Path, arguments: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        foxcast(folder, "court", *arguments)


def test_an_unknown_scenario_or_a_ledger_that_is_not_there_is_told(folder: Path) -> None:
    with pytest.raises(NotFoundError, match="did you mean full"):
        foxcast(folder, "court", "show", "fulll")
    with pytest.raises(NotFoundError, match="there is no ledger"):
        foxcast(folder, "court", "score", "abcdef")


async def sat_through(folder: Path) -> dict[str, str]:
    """Let two courts that differ in one input forecast; both are replayed at once, and nothing may differ."""
    play: Any = ScriptedParticipant(answers=(0.6, 0.5, 0.7, 0.8, 0.65))
    llm = ScriptedModelProvider(turns=[play])
    changed = CourtSettings(interventions=ScenarioInterventions(variables={"rules": "Be <b>bold</b>."}))
    made = {}
    async with open_forecast_runs(folder, llm) as forecast_fixture:
        forecast_fixture.forecasters |= {"court": CourtForecaster(CourtSettings()), "court_b": CourtForecaster(changed)}
        for name in forecast_fixture.forecasters:
            forecast_fixture.limits = TrialLimits(steps=50)
            asked = len(llm.requests)
            # The one is known by its moves, the other, under a name of its own, by its settings.
            kept: dict[str, Any] = (
                {} if name == "court" else {"variant_of": "court", "settings": changed.model_dump(mode="json")}
            )
            forecast = await forecast_fixture.forecast(question(), name, trials=2, **kept)
            made[name] = forecast.id
            trace = await forecast_fixture.ledger.forecasts.trace(forecast.id)
            again = await replay_forecast(
                trace,
                forecast_fixture.configure_forecaster(name),
                forecast_fixture.make_tool_factory(sealed=True),
                SeededRandom(1),
                None,
            )
            assert again.is_identical, again
            assert [len(record.steps) for record in trace.trials] == [12] * 2
            made[f"{name} asked"] = str(len(llm.requests) - asked)
        elsewhere = replace(question(), ref=QuestionRef("lantern", "snow"))
        made["elsewhere"] = (await forecast_fixture.forecast(elsewhere, name, trials=1, **kept)).id
    async with open_forecast_runs(
        folder, ScriptedModelProvider(turns=[model_with_beliefs(0.6, 0.7)])
    ) as forecast_fixture:
        made[BLF] = (await forecast_fixture.forecast(question(), BLF)).id
    return made


def test_trials_on_record_are_replayed_shown_and_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "state" / "paper").mkdir(parents=True)
    made = asyncio.run(sat_through(folder / "state" / "paper"))
    assert (folder / "state" / "paper" / LEDGER_FILE).exists()
    # Two trials: clerk, queries, one call for all ratings, summary, rules, two openings, three votes, synthesis.
    assert made["court asked"] == "22"
    # The variant asks again from the first message on that holds the rules: openings and votes, and the synthesis where
    # the votes are not the same by chance. What comes before is answered from the record.
    assert 10 <= int(made["court_b asked"]) <= 12

    foxcast(folder, "transcript", made["court"])
    told = capsys.readouterr().out
    assert "== Trial 2 ==" in told
    assert "8. votes: name 2 (juror_2), asked by judge" in told
    page = folder / "court.html"
    foxcast(folder, "transcript", made["court_b"], made["court"], "--html", str(page))
    assert "Be &lt;b&gt;bold&lt;/b&gt;." in page.read_text()
    assert page.read_text().count("<h1>") == 2
    capsys.readouterr()
    foxcast(folder, "transcript", made[BLF], "--json")
    (plain,) = json.loads(capsys.readouterr().out)
    assert (plain["forecaster"], all(trial["entries"] for trial in plain["trials"])) == (BLF, True)

    foxcast(folder, "court", "compare", made["court"], made["court_b"])
    told = capsys.readouterr().out
    assert "B  intervention: variables rules = Be <b>bold</b>." in told
    assert "first said otherwise: 6. prosecution opening" not in told
    assert "first said otherwise: 8. votes" in told or "every word is the same" in told
    with pytest.raises(ConfigError, match=r"of one question; these are of lantern:rain and lantern:snow$"):
        foxcast(folder, "court", "compare", made["court"], made["elsewhere"])
    foxcast(folder, "court", "score", made["court"], made["court_b"])
    assert "nothing can be scored" in capsys.readouterr().out
    for deed, *given in (("compare", "court", BLF), ("score", "court_b", BLF)):
        with pytest.raises(ConfigError, match=rf"^{made[BLF][:12]} is by blf, not by a court$"):
            foxcast(folder, "court", deed, *(made[name] for name in given))
    with pytest.raises(ConfigError, match="cannot be written"):
        foxcast(folder, "transcript", made["court"], "--html", str(folder / "no" / "x.html"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1, 2]", "own.json:1: should be a table (or object)"),
        ('{"agents": [],\n"loops": {"a": "2"}, "steps": []}', "own.json:2: loops.a: should be a valid integer"),
    ],
)
def test_the_setting_scenario_tells_what_is_wrong_with_its_file_and_where(folder: Path, text: str, told: str) -> None:
    (folder / "own.json").write_text(text)
    (folder / "config.toml").write_text(f'{CONFIG}settings.scenario = "own.json"\n')
    config = load_config(folder / "config.toml", {})
    with pytest.raises(ConfigError) as caught:
        load_plugin_settings(load_registry(config).forecasters["court_b"], config)
    assert str(caught.value).endswith(told)
    assert "forecasters.court_b.settings.scenario: " in str(caught.value)
