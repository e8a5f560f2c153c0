"""The other minds with a real small model, asked for from the command line: each forecast ends, and is made again.

What it says is of no account. Part of the campaign (``make test-model``), which prints how each ended.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bot.cli.command_exit import ExitCode
from tests.model.conftest import SmallModel

pytestmark = [pytest.mark.xdist_group("small model"), pytest.mark.model_campaign, pytest.mark.timeout(1800)]

FOXCAST = Path(sys.executable).with_name("foxcast")
QUESTION = """
title = "Will the old bridge at Harrow be open to cars before the end of the year?"
criteria = "Resolves Yes if the council says before 31 December that cars may use the bridge."

[crowd]
probability = 0.4
"""
CONFIG = """
plugins = ["openai_compatible", "society", "team", "solo", "orchestra"]

[models.openai_compatible.settings.endpoints.small]
base_url = "{model.base_url}"

[llm.roles.main]
model = "openai_compatible:small/{model.name}"
max_tokens = 450
timeout_s = 300
temperature = 0.7

[llm.models."openai_compatible:small/{model.name}"]
free = true
dialect = "json"

[limits]
seconds = 1200

[forecasters.court]
trials = 1

[forecasters.court.settings]
jurors = 2

[forecasters.team]
trials = 1

[forecasters.team.settings]
members = 2
steps = 3
think_aloud = false

[forecasters.solo]
trials = 1

[forecasters.orchestra]
trials = 1

[forecasters.orchestra.settings]
steps = 4
agent_steps = 2
"""


@pytest.mark.parametrize("model_name", ["court", "team", "solo", "orchestra"])
def test_a_forecast_ends_in_order_and_is_made_again_from_the_record(
    small_model: SmallModel, tmp_path: Path, model_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").write_text(CONFIG.format(model=small_model))
    (tmp_path / "q.toml").write_text(QUESTION)
    code, out, err = _foxcast(tmp_path, "forecast", "q.toml", "--forecaster", model_name, "--yes", "--json")
    with capsys.disabled():
        sys.stdout.write(f"\n{model_name}: exit {code} {err.splitlines()[-1] if code else _ending(out)}\n")
    if code:
        # It may find no valid action, or fill its context, before it believes anything: then nothing is forecast.
        assert code in {ExitCode.UNAVAILABLE, ExitCode.REFUSED}
        assert "1 trial failed: " in err
        return
    made = json.loads(out)
    assert 0.0 < made["forecast"]["predictions"]["outcome"]["probability"] < 1.0
    assert _foxcast(tmp_path, "replay", made["id"])[1].count("identical") == 1


def _ending(out: str) -> str:
    made = json.loads(out)
    steps = sum(len(trial["steps"]) for trial in made["trials"])
    return f"{made['forecast']['predictions']['outcome']['probability']:.2f} after {steps} steps"


def _foxcast(folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run([FOXCAST, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr
