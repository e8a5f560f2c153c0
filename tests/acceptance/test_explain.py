"""explain, replay, diff and costs through the real command, on forecasts made by the real daemon's jobs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand, installed

PLUGIN = Path(__file__).with_name("fake_model_provider.py")
CONFIG = f"""
plugins = ["fake_model_provider", "blf"]
plugin_files = ["{PLUGIN}"]

[venues.harbour]
forecasters = ["blf", "brief"]

[forecasters.blf]
trials = 2

[forecasters.brief]
uses = "blf"
trials = 1
settings = {{ steps = 4 }}

[llm.roles.main]
model = "prime:big"
max_tokens = 1000
"""
# Ends the process when it tries to reach anything, and says what was loaded.
SEALED = """
import sys

def refuse(event, arguments):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.bind", "socket.gethostbyname"}:
        sys.exit(99)

sys.addaudithook(refuse)
from bot.cli.main import main

code = main(["replay", "lamp", "--json"])
heavy = {"httpx", "litellm", "trafilatura", "selectolax", "ddgs", "matplotlib", "ssrfguard"}
loaded = [name for name in sys.modules if name in heavy or name.startswith(("plugins.", "foxcast_file_"))]
sys.stderr.write("\\n".join(sorted(loaded)))
sys.exit(code)
"""


@pytest.fixture(scope="module")
def thought(tmp_path_factory: pytest.TempPathFactory) -> FoxcastInstallation:
    """An installation in which one question was forecast twice by models, only to be read."""
    foxcast = installed(tmp_path_factory.mktemp("harbour"), CONFIG.replace("{", "{{").replace("}", "}}"))
    assert foxcast("run", "--once").code == 0
    return foxcast


def test_a_forecast_is_explained_from_question_to_decision(
    thought: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    answer = run_command(thought, "explain", "lamp")
    assert answer.code == 0
    for part in (
        "lamp\ufffd be lit?",
        "crowd: 40.0%",
        "1. web_search(query=lamp oil)",
        "belief: 60.0% (high confidence)",
        "+ oil was bought [search_1_result_1 https://news.example/lamp]",
        "belief: 60.0% -> 80.0%",
        "prime:big, 1 call, 2,000 tokens in (25% cached), 100 out",
        "decision ",
        "aggregate: ",
    ):
        assert part in answer.out
    assert "\x1b" not in answer.out
    plain = run_command(thought, "explain", "lamp", "--json").json
    assert (plain["state"], plain["question"]["ref"]) == ("done", "harbour:lamp")


def test_a_plot_is_written_beside_the_explanation(
    thought: FoxcastInstallation, run_command: InProcessCommand, tmp_path: Path
) -> None:
    for suffix, start in ((".svg", b"<?xml"), (".png", b"\x89PNG")):
        file = tmp_path / f"belief{suffix}"
        assert run_command(thought, "explain", "lamp", "--plot", file).code == 0
        assert file.read_bytes().startswith(start)
    assert run_command(thought, "explain", "lamp", "--plot", tmp_path / "belief.pdf").is_refusal(2, ".svg", ".png")


def test_a_replay_reaches_nothing_and_loads_the_forecaster_alone(thought: FoxcastInstallation) -> None:
    asked = (thought.folder / "asked.txt").read_text()
    done = subprocess.run(
        [sys.executable, "-c", SEALED],
        cwd=thought.folder,
        env=thought.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["identical"]
    loaded = done.stderr.split()
    assert "plugins.blf.forecaster" in loaded
    assert [name for name in loaded if not name.startswith("plugins.blf")] == []
    assert (thought.folder / "asked.txt").read_text() == asked


def test_every_forecast_of_the_run_replays(thought: FoxcastInstallation, run_command: InProcessCommand) -> None:
    history = run_command(thought, "show", "lamp", "--json").json["history"]
    assert {one["forecaster"] for one in history} == {"blf", "brief"}
    for one in history:
        answer = run_command(thought, "replay", one["id"])
        assert (answer.code, "identical" in answer.out) == (0, True)


def test_a_replay_works_with_the_settings_of_then_whatever_config_says_now(
    thought: FoxcastInstallation, run_command: InProcessCommand, tmp_path: Path
) -> None:
    changed = tmp_path / "config.toml"
    own = """[forecasters.blf]
aggregate = "mean"
clairvoyant = true
settings = { steps = 7, crowd = false, search = false, mode = "batch" }
"""
    text = thought.config.read_text()
    # The variant is gone, and so is the model.
    text = text[: text.index("[forecasters.blf]")].replace(', "brief"', "") + own + "[limits]\nsteps = 2\n"
    changed.write_text(f'state = "{thought.folder / "state"}"\n{text}')
    today = thought.with_environment(FOXCAST_FORECASTERS__BLF__SETTINGS__QUERIES="2", FOXCAST_LIMITS__STEPS="3")
    for one in run_command(thought, "show", "lamp", "--json").json["history"]:
        answer = run_command(today, "--config", changed, "replay", one["id"])
        assert (answer.code, "not identical" in answer.out) == (0, False), answer.out


def test_how_a_forecaster_was_configured_is_explained(
    thought: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    reported = run_command(thought, "explain", "lamp", "--forecaster", "brief", "--json").json["setup"]
    assert (reported["uses"], reported["trials"], reported["aggregate"]) == ("blf", 1, "logit-mean")
    assert (reported["settings"]["steps"], reported["settings"]["crowd"]) == (4, True)
    output = " ".join(run_command(thought, "explain", "lamp", "--forecaster", "brief").out.split())
    assert "setup: variant of blf, trials configured 1, aggregate logit-mean, clairvoyant false" in output
    assert "limits: steps 4, seconds 600.0" in output
    assert "steps 4" in output.partition("settings: ")[2]


def test_two_forecasters_are_compared(thought: FoxcastInstallation, run_command: InProcessCommand) -> None:
    output = run_command(thought, "diff", "lamp", "--forecaster", "brief", "--forecaster", "blf").out
    lines = [" ".join(line.split()) for line in output.splitlines()]
    assert "outcome 80.0% 80.0% +0.0 +0.00" in lines
    assert "forecaster brief blf" in lines
    assert "trials 1 finished 2 finished" in lines
    assert "trials configured 1 2" in lines
    assert "setting: steps 4 10" in lines
    assert "variant of blf -" in lines
    plain = run_command(thought, "diff", "lamp", "--forecaster", "brief", "--forecaster", "blf", "--json").json
    assert plain["question"] == "harbour:lamp"
    first, second = plain["before"]["forecast"], plain["after"]["forecast"]
    assert run_command(thought, "diff", first, second, "--json").json == plain


def test_one_forecast_is_not_compared_with_that_of_another_unasked(
    thought: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    assert run_command(thought, "diff", "lamp").is_refusal(8, "only one forecast by blf", "--forecaster brief")


def test_whose_forecast_is_meant_can_be_said(thought: FoxcastInstallation, run_command: InProcessCommand) -> None:
    for name in ("blf", "brief"):
        reported = run_command(thought, "explain", "lamp", "--forecaster", name, "--json").json
        assert reported["forecast"]["forecaster"] == name
    assert run_command(thought, "replay", "lamp", "--forecaster", "brief").code == 0


def test_costs_are_added_up_by_what_is_asked(thought: FoxcastInstallation, run_command: InProcessCommand) -> None:
    # Three trials of two calls; of each 1,500 tokens at 1, 500 at 0.1 and 100 at 4 dollars per million.
    cost = 6 * (1500 * 1.0 + 500 * 0.1 + 100 * 4.0) / 1e6
    for by in ("question", "model", "day", "venue", "forecaster", "role"):
        total = run_command(thought, "costs", "--by", by, "--json").json["total"]
        assert (total["forecasts"], total["calls"]) == (2, 6)
        assert total["cost_usd"] == pytest.approx(cost)
    assert "all models: 0.0117 of 20.00 USD spent, 19.99 left" in run_command(thought, "costs").out
    assert run_command(thought, "costs", "--since", "2999-01-01").out.startswith("no model was called since 2999-01-01")
    assert "today, all models: 0.0117 of 20.00 USD spent" in run_command(thought, "status").out
    assert run_command(thought, "status", "--json").json["models"]["demoted"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("explain", "no such question"), 8, "foxcast questions"),
        (("replay", "no such question"), 8, "foxcast questions"),
        (("diff", "lamp", "lamp", "--forecaster", "blf"), 2, "--forecaster"),
        (("diff", "lamp", "--forecaster", "nobody"), 8, "nobody has not forecast"),
        (("diff", "lamp", "--forecaster", "blf"), 8, "only one forecast"),
        (("costs", "--by", "weather"), 2, "weather"),
        (("costs", "--since", "soon"), 2, "is not a date"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(
    thought: FoxcastInstallation, run_command: InProcessCommand, arguments: tuple[str, ...], code: int, word: str
) -> None:
    assert run_command(thought, *arguments).is_refusal(code, word)


def test_without_a_ledger_the_commands_say_what_to_run(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    for command in (("explain", "x"), ("replay", "x"), ("diff", "x"), ("costs",)):
        assert run_command(new_installation, *command).is_refusal(8, "foxcast run --once")


def test_a_forecast_that_asked_no_model_is_explained_and_replayed_too(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    found = run_command(foxcast, "questions", "--limit", "1", "--json").json[0]["ref"]
    assert "Models" not in run_command(foxcast, "explain", found).out
    assert run_command(foxcast, "replay", found).code == 0
    assert run_command(foxcast, "costs").out.startswith("no model was called")
    assert "today, " not in run_command(foxcast, "status").out
