"""``foxcast forecast --with``: several forecasters side by side, and the blend that is made of them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.config.loader import load_config
from bot.store.database import instance_lock
from bot.store.ledger import state_folder
from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand, installed
from tests.acceptance.scripted_installation import HARBOUR, RAIN

VOICES = """
from contextlib import asynccontextmanager
from bot.api import Belief, BinaryPrediction, ForecasterSpec, PluginSettings, Step, StepAction, StepObservation
from bot.api import hookimpl

class Voice:
    def __init__(self, *said):
        self.said = said

    async def steps(self, question, context):
        for number, said in enumerate(self.said, 1):
            belief = Belief(predictions={target.key: BinaryPrediction(said) for target in question.targets})
            yield Step(action=StepAction(name="say"), observation=StepObservation(), belief=belief, final=number == 2)
        if not self.said:
            raise RuntimeError("lost my voice")

def voice(name, *said):
    @asynccontextmanager
    async def opened(settings, workplace):
        yield Voice(*said)
    return ForecasterSpec(name=name, summary=f"Says {said}", settings=PluginSettings, open=opened)

@hookimpl
def foxcast_forecasters():
    return [voice("high", 0.6, 0.8), voice("even", 0.4, 0.5), voice("mute")]
"""
CONFIG = """
plugins = ["blend", "fake_reader_venue", "voices"]
plugin_files = ["voices.py", "HARBOUR"]

[forecasters.blend.settings]
members = ["high", "even", "mute"]
"""


@pytest.fixture
def foxcast(tmp_path: Path) -> FoxcastInstallation:
    (tmp_path / "voices.py").write_text(VOICES)
    (tmp_path / "q.toml").write_text(RAIN)
    return installed(tmp_path, CONFIG.replace("HARBOUR", str(HARBOUR)))


def test_named_forecasters_stand_side_by_side_with_what_each_took(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    reported = run_command(foxcast, "forecast", "q.toml", "--with", "high,even,high,mute", "--json").json
    assert list(reported["forecasts"]) == ["high", "even"]
    assert reported["start"]["kind"] == "crowd"
    high = reported["forecasts"]["high"]
    assert high["forecast"]["predictions"]["outcome"]["probability"] == 0.8
    assert high["summary"] | {"seconds": 0.0} == {
        "moved": pytest.approx(0.4),
        "confidence": "low",
        "steps": 2,
        "calls": 0,
        "tokens": 0,
        "cost_usd": 0.0,
        "seconds": 0.0,
        "end": "finished",
    }
    assert "RuntimeError (voices.py" in reported["left_out"]["mute"]
    shown = run_command(foxcast, "forecast", "file:rain", "--with", "even,high,mute")
    # One of those asked failed: the others stand, and the exit code shows it.
    assert shown.code == 10
    assert "3 forecasters on file:rain" in shown.out
    assert "moved: from the crowd's estimate of" in shown.out
    assert "+0.400" in shown.out
    assert "mute is left out: 1 trial failed: RuntimeError" in shown.out
    # Each is on record as ever.
    assert run_command(foxcast, "show", "file:rain").out.count("high") >= 2


def test_a_blend_forecasts_behind_its_members_and_can_be_replayed(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    reported = run_command(foxcast, "forecast", "q.toml", "--with", "blend", "--json").json
    made = reported["forecasts"]["blend"]
    # One half has no weight, so odds of 4 have all of it, to the power of 1.15.
    odds = 4**1.15
    assert made["forecast"]["predictions"]["outcome"]["probability"] == pytest.approx(odds / (1 + odds))
    (step,) = made["trials"][0]["steps"]
    assert step["remarks"] == ["mute is ignored: it has no forecast of this question"]
    replayed = run_command(foxcast, "replay", made["id"])
    assert replayed.code == 0, replayed.err
    # What the members said a moment ago is not asked for again.
    second = run_command(foxcast, "forecast", "file:rain", "--with", "blend", "--json").json
    assert second["forecasts"]["blend"]["forecast"]["revision"] == 2
    again = run_command(foxcast, "forecast", "file:rain", "--with", "high", "--json").json
    assert again["forecasts"]["high"]["forecast"]["revision"] == 2


def test_what_cannot_be_is_refused_with_what_there_is(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    unknown = run_command(foxcast, "forecast", "q.toml", "--with", "high,evn")
    assert unknown.is_refusal(8, "did you mean even?", "available: blend, keeper, high, even, mute")
    dormant = run_command(foxcast, "forecast", "q.toml", "--with", "high,court")
    assert dormant.is_refusal(8, 'the forecaster court comes with the plugin society: add "society" to plugins')
    assert run_command(foxcast, "forecast", "q.toml", "--with", " , ").is_refusal(2, "available: blend")
    assert run_command(foxcast, "forecast", "q.toml", "--with", "mute").is_refusal(
        3, "no forecaster produced an answer: mute:"
    )
    both = run_command(foxcast, "forecast", "q.toml", "--with", "high", "--forecaster", "even")
    assert both.is_refusal(2, "leave out --forecaster")


def test_a_member_that_is_named_too_forecasts_once_and_all_know_the_same(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    reported = run_command(foxcast, "forecast", "q.toml", "--with", "blend,high", "--json").json
    assert list(reported["forecasts"]) == ["blend", "high"]
    made = [one["forecast"] for one in reported["forecasts"].values()]
    assert [one["revision"] for one in made] == [1, 1]
    assert made[0]["cutoff"] == made[1]["cutoff"]


def test_each_of_several_is_asked_of_the_foxcast_that_runs(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    assert run_command(foxcast, "forecast", "q.toml", "--with", "even").code == 0
    folder = state_folder(load_config(foxcast.config, {}))
    with instance_lock(folder, started_at=datetime.now(UTC)):
        asked = run_command(foxcast, "forecast", "q.toml", "--with", "high,even", "--no-wait")
    assert asked.code == 0
    assert "forecasters on" not in asked.out
    assert "forecast of file:rain by high requested" in asked.err
    assert "forecast of file:rain by even requested" in asked.err


def test_several_dates_trials_and_a_clairvoyant_are_told_as_what_they_are(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    more = '\n[forecasters.high]\ntrials = 2\n[forecasters.seer]\nuses = "even"\nclairvoyant = true\n'
    foxcast.config.write_text(foxcast.config.read_text() + more)
    (foxcast.folder / "dates.toml").write_text('title = "Dry?"\nkey = "dry"\ntargets = [2999-01-01, 2999-02-01]\n')
    shown = run_command(foxcast, "forecast", "dates.toml", "--with", "high,seer")
    assert "seer is clairvoyant: it may use information" in shown.out
    assert "moved: from even odds" in shown.out
    assert "2 finished" in shown.out
    assert " 0.300 " in shown.out
    reported = run_command(foxcast, "forecast", "file:dry", "--with", "high", "--json").json
    assert reported["start"]["kind"] == "even"
    assert reported["forecasts"]["high"]["summary"]["moved"] == pytest.approx(0.3)
    assert reported["forecasts"]["high"]["summary"]["confidence"] == "2 low"


def test_questions_are_listed_with_the_forecast_of_who_is_chosen_for_them(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    venue = '\n[venues.harbour]\nforecasters = ["keeper"]\nchoose = [{ source = "sea", forecasters = ["high"] }]\n'
    foxcast.config.write_text(foxcast.config.read_text() + venue)
    assert run_command(foxcast, "run", "--once").code == 0
    assert "30.0%" in run_command(foxcast, "questions").out
    assert "keeper" in run_command(foxcast, "explain", "harbour:lamp").out
    assert "sea" in run_command(foxcast, "config", "show").out


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ('["hihg"]', ("did you mean high?",)),
        ('["blend"]', ("is a member of itself: blend -> blend",)),
        ('["high", "seer"]', ("its member seer is clairvoyant",)),
        ("[]", ("has no members",)),
    ],
)
def test_members_that_cannot_be_are_refused(
    foxcast: FoxcastInstallation, run_command: InProcessCommand, members: str, words: tuple[str, ...]
) -> None:
    config = foxcast.config.read_text().replace('["high", "even", "mute"]', members)
    foxcast.config.write_text(config + '\n[forecasters.seer]\nuses = "even"\nclairvoyant = true\n')
    before = foxcast.config.read_text()
    foxcast.config.write_text(before + '\n[venues.harbour]\nforecasters = ["blend"]\n')
    # It needs no forecast to be found out, but for a member that is missing altogether.
    assert (words[0] in run_command(foxcast, "doctor").out) == (members != "[]")
    foxcast.config.write_text(before)
    refused = run_command(foxcast, "forecast", "q.toml", "--forecaster", "blend")
    assert refused.code != 0
    assert all(word in refused.err for word in words), refused.err


def test_a_blend_also_forecasts_alone(foxcast: FoxcastInstallation, run_command: InProcessCommand) -> None:
    alone = run_command(foxcast, "forecast", "q.toml", "--forecaster", "blend", "--json").json
    assert alone["forecast"]["predictions"]["outcome"]["probability"] == pytest.approx(4**1.15 / (1 + 4**1.15))
