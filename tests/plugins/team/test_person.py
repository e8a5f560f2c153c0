"""A person as a member of a team: asked over a pseudo terminal, on record like any model, and never asked twice."""

import asyncio
import os
import pty
import termios
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.config.schema import LlmSection
from bot.core.clock import SeededRandom
from bot.core.forecasts import TrialLimits
from bot.core.language_models import ModelCompletion, Prompt
from bot.evaluation.replay import replay_forecast
from bot.llm.gateway import open_gateway
from bot.testing.clock import FakeClock
from bot.testing.models import ScriptedModelProvider
from bot.testing.research import ScriptedSearchEngine
from plugins.models.terminal import TerminalProvider, TerminalSettings
from plugins.team.forecaster import TeamForecaster
from plugins.team.settings import TeamSettings
from tests.blank_ledger import open_blank_ledger
from tests.plugins.team.cases import ScriptedMember
from tests.unit.forecast_run_fixture import ForecastRunFixture, hits
from tests.unit.forecast_run_fixture import question as asked

ROLES = LlmSection.model_validate(
    {
        "roles": {
            "main": {"model": "prime:big", "max_tokens": 1000},
            "team_1": {"model": "terminal:Ada", "timeout_s": 60},
        },
        "models": {"terminal:Ada": {"free": True}},
        "budget": {"question_usd": None, "day_usd": None},
    }
)
# What she types, by the beginning of the prompt.
TYPES = {
    "option": "a",
    "words": "clouds over the coast",
    "text": "Look at the tides, please",
    "facts": "n",
    "reasoning": "I smell rain",
    "confidence": "c",
    "probability": "90%",
}


@pytest.fixture
def line() -> Iterator[tuple[int, Path]]:
    master, slave = pty.openpty()
    attributes = termios.tcgetattr(slave)
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    yield master, Path(os.ttyname(slave))
    os.close(master)
    os.close(slave)


class Ada:
    """Reads what she is asked and types her answers; ``asked`` holds the beginnings of the prompts, in order."""

    def __init__(self, master: int) -> None:
        self.master = master
        self.asked: list[str] = []
        self._shown = ""

    def reads(self) -> None:
        self._shown += os.read(self.master, 65536).decode()
        if self._shown.endswith(": "):
            name = self._shown.rpartition("\n")[2].split()[0].rstrip(":?")
            self._shown = ""
            self.asked.append(name)
            os.write(self.master, f"{TYPES[name]}\n".encode())


@asynccontextmanager
async def fixture_with(terminal: TerminalProvider, folder: Path) -> AsyncIterator[ForecastRunFixture]:
    clock, player, path = FakeClock(), ScriptedMember(), folder / "ledger.sqlite"

    def answer(prompt: Prompt) -> ModelCompletion:
        said = player(prompt)
        assert isinstance(said, ModelCompletion)
        return said

    async def alert(subject: str, text: str) -> None:
        await asyncio.sleep(0)

    llm = ScriptedModelProvider(turns=[answer])
    async with (
        open_blank_ledger(path, now=clock.now()) as ledger,
        open_gateway(
            ROLES, {"prime": llm, "terminal": terminal}, ledger=ledger, clock=clock, random=SeededRandom(1), alert=alert
        ) as gateway,
    ):
        engine = ScriptedSearchEngine(hits())
        forecast_runs = ForecastRunFixture(
            ledger=ledger, path=path, gateway=gateway, llm=llm, clock=clock, engine=engine
        )
        forecast_runs.limits = TrialLimits(steps=6, seconds=60)
        forecast_runs.forecasters["team"] = TeamForecaster(TeamSettings(members=2, human_members=frozenset({1})))
        yield forecast_runs


async def test_a_person_plays_a_member_at_no_cost_and_a_replay_asks_nobody(
    line: tuple[int, Path], tmp_path: Path
) -> None:
    master, device = line
    ada, loop = Ada(master), asyncio.get_running_loop()
    loop.add_reader(master, ada.reads)
    try:
        async with fixture_with(TerminalProvider(TerminalSettings(device=device)), tmp_path) as forecast_fixture:
            forecast = await forecast_fixture.forecast(asked(), "team", trials=1)
            trace = await forecast_fixture.ledger.forecasts.trace(forecast.id)
            steps = [logged.step for logged in trace.trials[0].steps]
            own = [step for step in steps if step.action.arguments["agent"] == "Ada"]
            assert own[0].action.arguments["query"] == "clouds over the coast"
            assert own[0].belief.reason == "Ada: I smell rain"
            assert own[0].usage.calls == 2
            assert own[0].usage.cost_usd == 0.0
            assert ada.asked[:2] == ["option", "words"]
            assert "thoughts" not in ada.asked
            answered = len(ada.asked)
            again = await replay_forecast(
                trace,
                forecast_fixture.configure_forecaster("team", trials=1),
                forecast_fixture.make_tool_factory(sealed=True),
                SeededRandom(1),
                None,
            )
            assert again.is_identical
            assert len(ada.asked) == answered
    finally:
        loop.remove_reader(master)
