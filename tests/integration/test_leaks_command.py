"""foxcast leaks through the real command: on what a real run put on record, with a real provider as the auditor."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from bot.testing.model_server import CompletionRequest, ScriptedModelServer, ScriptedReply, reply_error, reply_json
from tests.acceptance.command_server import run_foxcast
from tests.integration.engine_fixture import search, submit

PLUGIN = Path(__file__).resolve().parents[1] / "acceptance" / "fake_model_provider.py"
CONFIG = """
plugins = ["fake_model_provider", "blf", "openai_compatible"]
plugin_files = ["{plugin}"]

[venues.harbour]
forecasters = ["blf"]

[forecasters.blf]
trials = 1

[models.openai_compatible.settings.endpoints.local]
base_url = "{url}"

[llm.roles]
main = {{ model = "openai_compatible:local/small", max_tokens = 1000 }}
filter = {{ model = "openai_compatible:local/small", max_tokens = 1000 }}
auditor = {{ model = "openai_compatible:local/other", max_tokens = 1000 }}

[llm.models]
"openai_compatible:local/small" = {{ free = true }}
"openai_compatible:local/other" = {{ free = true }}
"""


def play(asked: CompletionRequest) -> ScriptedReply:
    """Search and submit; find a leak in the first text as the auditor. As the filter it is not asked here."""
    if asked.model == "other":
        return reply_json({"results": [{"number": 1, "verdict": "leak", "reason": "tells the end"}]})
    return search(asked) if asked.assistant_turns == 0 else submit(asked, 30)


async def foxcast(folder: Path, *arguments: str) -> tuple[int, str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FOXCAST_", "COLUMNS"))}
    # Named, so that its plugin files need no trust.
    kept["FOXCAST_CONFIG"] = "config.toml"
    done = await asyncio.to_thread(run_foxcast, arguments, folder=folder, environment=kept)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.timeout(120)
async def test_what_a_run_read_is_audited_by_rules_and_by_a_model(tmp_path: Path) -> None:
    async with ScriptedModelServer(play) as server:
        (tmp_path / "config.toml").write_text(CONFIG.format(plugin=PLUGIN, url=server.base_url))
        before = await foxcast(tmp_path, "leaks")
        ran = await foxcast(tmp_path, "run", "--once")
        asked = server.count
        ruled = await foxcast(tmp_path, "leaks", "--rules-only", "--json")
        assert server.count == asked
        audited = await foxcast(tmp_path, "leaks", "--json", "--since", "2026-01-01")
        assert server.count == asked + 1
        on_paper = await foxcast(tmp_path, "leaks")
        assert server.count == asked + 1
    assert (before[0], "run --once" in before[2]) == (8, True)
    assert ran[0] == 0, ran
    assert ruled[0] == 0, ruled
    plain: dict[str, Any] = json.loads(ruled[1])
    assert (plain["forecasts"], plain["by_kind"]["search result"]["kept"], plain["leaks"]) == (1, 1, [])
    assert plain["residual"] is None
    small = {"knowledge_cutoff": None, "asked": 1, "may_be_remembered": None}
    assert plain["memory"]["models"] == {"openai_compatible:local/small": small}
    assert "the knowledge cutoff of openai_compatible:local/small is not known" in on_paper[1]
    # A model's opinion is reported, and is no failure.
    assert audited[0] == 0, audited
    opinion = json.loads(audited[1])
    # The question was live, so the filter was not asked, and there is nothing to hold the auditor against.
    assert opinion["confusion"] == {"clean": {"kept": 0, "dropped": 0}, "leak": {"kept": 0, "dropped": 0}}
    assert [(one["name"], one["opinion"]) for one in opinion["leaks"]] == [("https://news.example/lamp", "leak")]
    assert "the auditor: tells the end" in on_paper[1]


@pytest.mark.timeout(120)
async def test_a_fault_has_a_code_of_its_own_and_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    def configure(text: str) -> None:
        (tmp_path / "config.toml").write_text(text)

    async with ScriptedModelServer(play) as server:
        text = CONFIG.format(plugin=PLUGIN, url=server.base_url)
        configure(text)
        await foxcast(tmp_path, "run", "--once")
        server.script = reply_error(500)
        unheard = await foxcast(tmp_path, "leaks")
        configure(text.replace("openai_compatible:local/other", "elsewhere:other"))
        nobody = await foxcast(tmp_path, "leaks")
        configure(f'{text}\n[research]\nblocked_hosts = ["news.example"]\n')
        found = await foxcast(tmp_path, "leaks", "--rules-only")
        none_yet = await foxcast(tmp_path, "leaks", "--backtests", "--rules-only")
    assert unheard[0] == 0
    assert "the auditor stopped: ServiceUnavailableError" in unheard[1]
    assert (nobody[0], "no enabled plugin offers the provider elsewhere" in nobody[2]) == (2, True), nobody
    assert (found[0], "from an address that reveals the answer" in found[1]) == (7, True), found
    assert (none_yet[0], "documents: 0" in none_yet[1]) == (0, True), none_yet


@pytest.mark.timeout(120)
async def test_planted_leaks_need_neither_ledger_nor_model(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("")
    code, out, err = await foxcast(tmp_path, "leaks", "--self-test", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["holds"] is True
    assert not (tmp_path / "state").exists()
