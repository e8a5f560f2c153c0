"""``foxcast forecast`` without a model: what is shown next to a forecast, and what is refused."""

from pathlib import Path

import pytest

from tests.acceptance.conftest import InProcessCommand, installed
from tests.acceptance.scripted_installation import HARBOUR, RAIN

HARBOUR_ONLY = f'plugins = ["fake_reader_venue"]\nplugin_files = ["{HARBOUR}"]\n'
MUTE = """
from contextlib import asynccontextmanager
from bot.api import ForecasterSpec, PluginSettings, hookimpl
from bot.testing.forecaster import ScriptedForecaster

@asynccontextmanager
async def open_mute(settings, workplace):
    yield ScriptedForecaster(RuntimeError("lost my voice"))

@hookimpl
def foxcast_forecasters():
    return [ForecasterSpec(name="mute", summary="Says nothing", settings=PluginSettings, open=open_mute)]
"""


def test_what_stands_beside_is_made_once_where_it_can_only_be_repeated_and_may_fail(
    tmp_path: Path, run_command: InProcessCommand
) -> None:
    (tmp_path / "mute.py").write_text(MUTE)
    foxcast = installed(
        tmp_path, f'plugins = ["baseline", "fake_reader_venue", "mute"]\nplugin_files = ["{HARBOUR}", "mute.py"]\n'
    )
    (tmp_path / "q.toml").write_text(f"as_of = 2026-01-01\n{RAIN}")
    picture = tmp_path / "q.svg"
    first, second = (
        run_command(foxcast, "forecast", "q.toml", "--forecaster", "baseline", "--json", "--plot", picture).json
        for _ in range(2)
    )
    assert (first["forecast"]["revision"], second["forecast"]["revision"]) == (1, 2)
    for made in (first, second):
        assert made["beside"]["keeper"]["forecast"]["revision"] == 1
        assert made["beside"]["mute"]["forecast"] is None
        # What a foreign error says is not kept, only what it is and where it came from.
        assert "RuntimeError (forecaster.py:" in made["beside"]["mute"]["why"]
    assert b"<svg" in picture.read_bytes()
    silent = run_command(foxcast, "forecast", "q.toml", "--forecaster", "mute")
    assert silent.is_refusal(3, "1 trial failed: RuntimeError (forecaster.py:")


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("no-such.toml", 8, ("no-such.toml", "cannot be read")),
        ("odd.toml", 9, ("odd.toml: titel: there is no such key; did you mean title?",)),
        ("over.toml", 9, ("file:over closed at 2020-01-01",)),
        ("https://nowhere.example/x", 8, ("https://nowhere.example/x",)),
        ("lamp", 8, ("no question fits lamp in the ledger", "foxcast questions")),
    ],
)
def test_what_cannot_be_forecast_is_refused_with_a_remedy(
    tmp_path: Path, run_command: InProcessCommand, name: str, code: int, words: tuple[str, ...]
) -> None:
    foxcast = installed(tmp_path, HARBOUR_ONLY)
    (tmp_path / "odd.toml").write_text('titel = "x"\ntitle = "y"\n')
    (tmp_path / "over.toml").write_text('title = "Over?"\ncloses_at = 2020-01-01\n')
    assert run_command(foxcast, "forecast", name).is_refusal(code, *words)


def test_a_forecaster_that_nobody_has_is_refused_with_the_nearest(
    tmp_path: Path, run_command: InProcessCommand
) -> None:
    foxcast = installed(tmp_path, HARBOUR_ONLY)
    (tmp_path / "q.toml").write_text(RAIN)
    assert run_command(foxcast, "forecast", "q.toml", "--forecaster", "keper").is_refusal(8, "did you mean keeper?")
    assert run_command(foxcast, "forecast", "q.toml").code == 0


def test_a_locked_question_is_left_alone(tmp_path: Path, run_command: InProcessCommand) -> None:
    foxcast = installed(
        tmp_path,
        HARBOUR_ONLY + '[venues.harbour]\nforecasters = ["keeper"]\n',
    )
    assert run_command(foxcast, "run", "--once").code == 0
    run_command(foxcast, "lock", "lamp", "--reason", "disputed")
    run_command(foxcast, "run", "--once")
    assert run_command(foxcast, "forecast", "lamp").is_refusal(9, "harbour:lamp is locked: disputed", "foxcast unlock")


DEAD = """
plugins = ["blf", "openai_compatible"]
[models.openai_compatible.settings.endpoints.here]
base_url = "http://127.0.0.1:1/v1"
[llm.roles.main]
model = "openai_compatible:here/small"
[llm.models."openai_compatible:here/small"]
free = true
[llm.providers.openai_compatible]
attempts = 1
"""


def test_an_endpoint_that_is_not_there_is_told_as_that_by_all_trials_and_by_the_doctor(
    tmp_path: Path, run_command: InProcessCommand
) -> None:
    foxcast = installed(tmp_path, DEAD)
    (tmp_path / "q.toml").write_text(RAIN)
    made = run_command(foxcast, "forecast", "q.toml")
    why = "http://127.0.0.1:1/v1/chat/completions cannot be reached"
    last = made.err.splitlines()[-1]
    assert (made.code, why in last, "not used for" in last) == (3, True, False)
    # Five trials with one cause.
    assert made.out.count(": same as trial ") == 4
    checked = run_command(foxcast, "doctor", "--json")
    (found,) = [one for one in checked.json if one["check"] == "endpoints"]
    assert found["verdict"] == "fail"
    assert "openai_compatible:here/small: http://127.0.0.1:1/v1/models cannot be reached" in found["found"]
