"""Prompt files as a person reads, copies and replaces them."""

from pathlib import Path

import pytest

from bot.app.app import open_app
from bot.config.loader import load_config
from bot.core.clock import SystemClock
from bot.core.predictions import BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.forecasting.forecast_run import NoAnswerError, begin_forecast
from bot.plugin_system.registry import load_registry
from bot.testing.model_server import ScriptedModelServer
from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand, installed
from tests.acceptance.scripted_installation import searching

ROOT = Path(__file__).resolve().parents[2]
ASKING = ("blf", "court", "team", "solo", "orchestra")
LONE = """
from bot.api import ForecasterSpec, PluginSettings, hookimpl

@hookimpl
def foxcast_forecasters():
    return [
        ForecasterSpec(name="lone", summary="One file", settings=PluginSettings, open=print, roles=("main",))
    ]
"""
CONFIG = 'plugins = ["blf", "society", "team", "solo", "orchestra", "baseline"]\n'


@pytest.fixture
def forecasters(tmp_path: Path) -> FoxcastInstallation:
    """An installation with all forecasters that ask models, and one that does not."""
    return installed(tmp_path, CONFIG)


@pytest.mark.parametrize("name", ASKING)
def test_every_file_of_a_forecaster_is_shown(
    name: str, forecasters: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    answer = run_command(forecasters, "prompts", "show", name)
    assert (answer.code, answer.err) == (0, "")
    package = {"court": "society"}.get(name, name)
    folders = (ROOT / "plugins" / package / "prompts", ROOT / "bot" / "forecasting" / "agent" / "prompts")
    shipped = [path for folder in folders for path in folder.rglob("*.txt")]
    assert len(shipped) > 8
    for path in shipped:
        assert path.read_text().rstrip("\n") in answer.out


def test_a_copied_and_edited_file_is_what_is_shown(
    forecasters: FoxcastInstallation, run_command: InProcessCommand, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    copied = run_command(forecasters, "prompts", "copy", "blf", str(folder))
    assert (copied.code, copied.err) == (0, "")
    setting = f"prompts = '{folder}'"
    assert setting in copied.out
    edited = folder / "short.txt"
    edited.write_text(f"{edited.read_text()}Think of the base rate.\n")
    forecasters.config.write_text(f"{CONFIG}[forecasters.blf.settings]\n{setting}\n")
    assert run_command(forecasters, "prompts", "show", "blf", "short.txt").out.endswith("Think of the base rate.\n")
    again = run_command(forecasters, "prompts", "copy", "blf", str(folder))
    assert "existed and were kept" in again.out
    assert edited.read_text().endswith("Think of the base rate.\n")


def test_what_has_no_prompts_or_no_such_file_is_refused(
    forecasters: FoxcastInstallation, run_command: InProcessCommand, tmp_path: Path
) -> None:
    assert run_command(forecasters, "prompts", "show", "baseline").is_refusal(8, "baseline", "asks no model")
    assert run_command(forecasters, "prompts", "show", "nobody").is_refusal(8, "nobody", "blf")
    assert run_command(forecasters, "prompts", "show", "blf", "lop.txt").is_refusal(8, "lop.txt", "loop.txt")


def test_a_folder_that_cannot_be_written_and_a_plugin_without_a_folder_are_refused(
    forecasters: FoxcastInstallation, run_command: InProcessCommand, tmp_path: Path
) -> None:
    (tmp_path / "taken").touch()
    answer = run_command(forecasters, "prompts", "copy", "blf", str(tmp_path / "taken"))
    assert answer.is_refusal(2, "taken cannot be written", "name another folder")
    (tmp_path / "lone.py").write_text(LONE)
    forecasters.config.write_text('plugins = ["lone"]\nplugin_files = ["lone.py"]\n')
    assert run_command(forecasters, "prompts", "show", "lone").is_refusal(8, "lone has no prompt files")


MARK = "Remember the heron."
MODEL = """
[models.openai_compatible.settings.endpoints.here]
base_url = "{server}"
[llm.roles.main]
model = "openai_compatible:here/scripted"
[llm.models."openai_compatible:here/scripted"]
free = true
[forecasters.{name}]
trials = 1
[forecasters.{name}.settings]
prompts = "mine"
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ASKING)
async def test_a_changed_prompt_reaches_the_model_and_is_on_record(
    name: str, forecasters: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    assert run_command(forecasters, "prompts", "copy", name, "mine").code == 0
    for path in (forecasters.folder / "mine").rglob("*.txt"):
        path.write_text(f"{path.read_text()}{MARK}\n")
    async with ScriptedModelServer(searching(0, probability=0.6)) as server:
        plugins = CONFIG.replace('"baseline"', '"baseline", "openai_compatible"')
        forecasters.config.write_text(plugins + MODEL.format(name=name, server=server.base_url))
        config = load_config(forecasters.config)
        question = Question(
            ref=QuestionRef("file", "rain"), title="Will it rain?", shape=BinaryShape(), targets=(Target(),)
        )
        async with open_app(config, load_registry(config), clock=SystemClock(), only=(name,)) as app:
            await app.ledger.questions.record([question], seen_at=app.clock.now())
            run = await begin_forecast(app.forecast_context, app.forecasters[name], question, "a test")
            try:
                await run.run()
            except NoAnswerError:
                assert name == "court"  # whose moves this script does not know
            trace = await app.ledger.forecasts.trace(run.running.id)
            digests = {digest for logged in trace.trials[0].steps for digest in logged.step.observation.documents}
            cited = await app.ledger.documents.read_known(sorted(digests), scope=trace.id)
            texts = [document.content.decode() for document in cited.values()]
    assert all(any(MARK in str(message) for message in asked.messages) for asked in server.requests)
    assert server.requests
    assert any(f"{MARK}\n\n==== " in text for text in texts)


@pytest.mark.parametrize(
    ("name", "file", "text", "words"),
    [
        ("team", "head.txt", "Work well.", "the placeholder $"),
        ("court", "juror.txt", "Vote for $winner.", "unknown placeholder $winner"),
        ("solo", "sistem.txt", "Answer.", "did you mean system.txt"),
        ("solo", "system.txt", "It costs $ 5", "write $$"),
        ("orchestra", "kinds/scout.txt", "Look around.", "the head above ---- has no line summary"),
        ("orchestra", "kinds/scout.txt", "summary: x\ntools: *\nreports: nowhere\n----\nLook.", "should be one of"),
    ],
)
def test_a_file_that_cannot_replace_the_shipped_one_is_refused_at_the_start(
    forecasters: FoxcastInstallation, run_command: InProcessCommand, name: str, file: str, text: str, words: str
) -> None:
    path = forecasters.folder / "mine" / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    forecasters.config.write_text(f'{CONFIG}[forecasters.{name}.settings]\nprompts = "mine"\n')
    refused = run_command(forecasters, "prompts", "show", name)
    assert refused.is_refusal(2, file, words)


def test_the_list_names_what_was_changed(forecasters: FoxcastInstallation, run_command: InProcessCommand) -> None:
    assert run_command(forecasters, "prompts", "copy", "solo", "mine").code == 0
    forecasters.config.write_text(f'{CONFIG}[forecasters.solo.settings]\nprompts = "mine"\n')
    changed = forecasters.folder / "mine" / "turn.txt"
    changed.write_text(f"{changed.read_text()}{MARK}\n")
    listed = run_command(forecasters, "prompts", "list").out
    assert all(name in listed for name in ASKING)
    assert listed.count("turn.txt") == listed.count(".txt") == 1
