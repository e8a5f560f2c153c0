"""Court, team, solo and orchestra killed in mid-trial: taken up, each comes to the same steps and asks nothing twice.

What a kill leaves is the ledger as it stands at that moment: a copy of it is what the next run finds.
"""

import gc
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest

from bot.core.beliefs import Step
from bot.core.clock import SeededRandom
from bot.core.forecasts import Forecast, Trial, TrialLimits
from bot.core.ids import sha256_hex
from bot.core.interfaces import Forecaster
from bot.core.language_models import ModelCompletion, Prompt
from bot.forecasting.agent.chat_session import ChatSession
from bot.forecasting.forecast_run import ForecastContext, begin_forecast
from bot.forecasting.parameter_fitting import ParameterFitter
from bot.forecasting.recording import TrialRecording
from bot.forecasting.reforecast_policy import ReforecastPolicy
from bot.store.evidence import evidence_path
from bot.store.trials import RecordingKey, RecordingStore
from bot.testing.models import ScriptedModelProvider
from plugins.blf.forecaster import BlfForecaster
from plugins.blf.settings import BlfSettings
from plugins.orchestra.forecaster import OrchestraForecaster
from plugins.orchestra.settings import OrchestraSettings
from plugins.society.forecaster import CourtForecaster
from plugins.society.settings import CourtSettings
from plugins.solo.forecaster import SoloForecaster
from plugins.solo.settings import SoloSettings
from plugins.team.forecaster import TeamForecaster
from plugins.team.settings import TeamSettings
from tests.ledger_checks import copy_databases
from tests.plugins.blf import cases as blf
from tests.plugins.orchestra import cases as orchestra
from tests.plugins.society.cases import ScriptedParticipant
from tests.plugins.solo import cases as solo
from tests.plugins.team.cases import ScriptedMember, told
from tests.unit.forecast_run_fixture import SCHOOL, open_forecast_runs, question

LATER_S = 3600.0


@dataclass
class EngineLife:
    """One run of the engine on a ledger in its folder; it looks at each step once that is durable."""

    folder: Path
    name: str
    script: Callable[[Prompt], object]
    later_s: float = 0.0
    steps: list[Step] = field(default_factory=list)
    copies: list[Path] = field(default_factory=list)
    requests: int = 0
    searches: int = 0

    async def forecast(self, forecaster: Forecaster, steps: int) -> Forecast:
        """Begin or take up the forecast, and complete it."""

        def answer(prompt: Prompt) -> ModelCompletion:
            reply = self.script(prompt)
            assert isinstance(reply, ModelCompletion)
            return reply

        async with open_forecast_runs(self.folder, ScriptedModelProvider(turns=[answer])) as forecast_runs:
            await forecast_runs.clock.advance(self.later_s)
            forecast_runs.limits, forecast_runs.forecasters[self.name] = TrialLimits(steps=steps), forecaster
            asked = question()
            await forecast_runs.record(asked)
            forecast_context = ForecastContext(
                ledger=forecast_runs.ledger,
                parameter_fitter=ParameterFitter(
                    ledger=forecast_runs.ledger, archives=(), trainings={self.name: SCHOOL}, clock=forecast_runs.clock
                ),
                calibrator=forecast_runs.calibrator,
                policy=ReforecastPolicy(),
                clock=forecast_runs.clock,
                random=SeededRandom(1),
                resources=forecast_runs.make_tool_factory(),
                observer=self,
            )
            made = await (
                await begin_forecast(
                    forecast_context, forecast_runs.configure_forecaster(self.name, trials=1), asked, "asked for"
                )
            ).run()
            self.requests, self.searches = len(forecast_runs.llm.requests), len(forecast_runs.engine.searched)
            return made

    def on_step(self, _trial: int, _number: int, step: Step) -> None:
        """Copy the ledger as it is once a step is durable."""
        self.steps.append(step)
        copy = self.folder / f"killed-{len(self.steps)}"
        copy.mkdir()
        copy_databases(self.folder / "ledger.sqlite", copy / "ledger.sqlite")
        self.copies.append(copy)

    def on_trial_end(self, _trial: Trial) -> None:
        """Nothing is to be seen."""


def answer_alone(prompt: Prompt) -> ModelCompletion:
    lines = [solo.search(), solo.update(0.4), solo.search("mooring"), solo.submit(0.62)]
    return lines[sum(message.speaker == "assistant" for message in prompt.messages)]


def answer_conducted(prompt: Prompt) -> ModelCompletion:
    lines = {
        orchestra.LEADER: [orchestra.make("ann"), orchestra.make("bob"), orchestra.parallel("ann", "bob")],
        "ann": [orchestra.search("clouds"), orchestra.store("clouds come"), orchestra.report("it will rain")],
        "bob": [orchestra.search("wind"), orchestra.report("the wind turns")],
    }
    reply = lines[orchestra.speaker(prompt)]
    number = sum(message.speaker == "assistant" for message in prompt.messages)
    return reply[number] if number < len(reply) else orchestra.submit(0.8)


def answer_in_belief(prompt: Prompt) -> ModelCompletion:
    lines = [blf.search(), blf.search("mooring", belief=blf.believing(0.4)), blf.submit(0.62)]
    return lines[sum(message.speaker == "assistant" for message in prompt.messages)]


# Each of its searches is a new one.
SEEKER = ScriptedMember(picks=("search",), words=lambda prompt: f"clouds {sha256_hex(told(prompt).encode())[:4]}")
CASES: dict[str, tuple[Callable[[], Forecaster], Callable[[Prompt], object], int]] = {
    "court": (lambda: CourtForecaster(CourtSettings(jurors=2)), ScriptedParticipant(), 60),
    "court in few steps": (lambda: CourtForecaster(CourtSettings(jurors=2)), ScriptedParticipant(), 4),
    "team": (lambda: TeamForecaster(TeamSettings(members=2, steps=3)), SEEKER, 60),
    "solo": (lambda: SoloForecaster(SoloSettings()), answer_alone, 20),
    "orchestra": (lambda: OrchestraForecaster(OrchestraSettings()), answer_conducted, 100),
    "orchestra in few steps": (lambda: OrchestraForecaster(OrchestraSettings()), answer_conducted, 10),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_trial_that_was_killed_goes_on_with_the_same_steps_and_asks_nothing_twice(
    tmp_path: Path, name: str
) -> None:
    make, script, most = CASES[name]
    first = EngineLife(tmp_path, name, script)
    made = await first.forecast(make(), most)
    assert len(first.steps) >= 4
    killed = first.copies[len(first.copies) // 3 - 1]
    answered, searched = _answered(killed)
    assert 0 < answered < first.requests
    second = EngineLife(killed, name, script, later_s=LATER_S)
    # A step that is not the one on record would end it with an error.
    again = await second.forecast(make(), most)
    assert (again.id, again.raw, again.cutoff) == (made.id, made.raw, made.cutoff)
    assert second.steps == first.steps
    assert answered + second.requests == first.requests
    assert searched + second.searches == first.searches


@pytest.mark.parametrize("name", [*CASES, "blf"])
async def test_what_a_trial_said_takes_no_memory_once_it_ended(tmp_path: Path, name: str) -> None:
    cases = CASES | {"blf": (lambda: BlfForecaster(BlfSettings()), answer_in_belief, 10)}
    make, script, most = cases[name]
    gc.collect()
    gc.disable()
    try:
        # Of other tests in this process.
        earlier = {id(held): held for held in _sessions_in_memory()}
        life = EngineLife(tmp_path, name, script)
        await life.forecast(make(), most)
        assert life.requests >= 3
        kept = [held for held in _sessions_in_memory() if id(held) not in earlier]
    finally:
        gc.enable()
    # None waits for the garbage collector: it runs seldom, and would have all messages of many trials to search.
    assert kept == []


def _sessions_in_memory() -> list[ChatSession | TrialRecording]:
    return [held for held in gc.get_objects() if isinstance(held, ChatSession | TrialRecording)]


async def test_what_a_step_rests_on_is_written_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, script, most = CASES["solo"]
    alone: list[Collection[RecordingKey]] = []
    add_all = RecordingStore.add_all

    async def count(
        store: RecordingStore, scope: str, trial: int, bodies: Mapping[RecordingKey, str], *, at: datetime
    ) -> Sequence[str]:
        alone.append(bodies)
        return await add_all(store, scope, trial, bodies, at=at)

    monkeypatch.setattr(RecordingStore, "add_all", count)
    life = EngineLife(tmp_path, "solo", script)
    await life.forecast(make(), most)
    assert len(life.steps) == 4
    # Before anybody is asked for the first time.
    assert [{key.kind for key in keys} for keys in alone] == [{"opening", "dialect"}]


def _answered(folder: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as ledger:
        (answered,) = ledger.execute("select count(*) from model_call where state = 'done'").fetchone()
        ledger.execute("attach ? as evidence", [str(evidence_path(folder / "ledger.sqlite"))])
        (searched,) = ledger.execute("select count(*) from recording where kind = 'search'").fetchone()
    return int(answered), int(searched)
