"""The doctor's checks, each on an installation with one fault."""

import asyncio
import json
import os
import shutil
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from bot.cli.doctor import check_ledger_integrity, run_checks
from bot.cli.health_report import CheckFinding, CheckVerdict
from bot.core.language_models import ModelPerformance
from bot.llm.adaptive_limit import LimitReason
from bot.store.database import instance_lock
from bot.store.heartbeat import HEARTBEAT_FILE
from bot.store.model_calls import ModelDemotion
from bot.store.model_concurrency import ModelConcurrency
from bot.testing.model_server import ScriptedModelServer, reply_error
from tests.blank_ledger import open_blank_ledger

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = timedelta(days=1)
WRONG_SETTING = """
plugins = ["forecastbench", "baseline"]

[venues.forecastbench]
forecasters = ["baseline"]

[venues.forecastbench.settings]
colour = "red"
"""


@pytest.fixture(autouse=True)
def no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("FOXCAST_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.toml"
    file.write_text("")
    return file


@pytest.fixture
async def folder(config: Path) -> Path:
    """The folder of a sound ledger, written a little before now."""
    folder = config.parent / "state" / "paper"
    async with open_blank_ledger(folder / "ledger.sqlite", now=NOW):
        pass
    folder.chmod(0o700)
    _written(folder / "ledger.sqlite", NOW - timedelta(minutes=1))
    return folder


def _written(path: Path, at: datetime) -> None:
    os.utime(path, (at.timestamp(), at.timestamp()))


def _findings(config: Path, now: datetime = NOW) -> dict[str, CheckFinding]:
    return {finding.check: finding for finding in run_checks(config, now)}


def test_a_sound_ledger_lacks_only_a_backup(config: Path, folder: Path) -> None:
    found = _findings(config)
    assert found["ledger"].verdict is CheckVerdict.OK
    assert found["clock"].verdict is CheckVerdict.OK
    assert found["backup"] == CheckFinding(CheckVerdict.WARN, "backup", "none", "create one with: foxcast db backup")


def test_an_old_backup_is_a_warning_and_a_new_one_is_not(config: Path, folder: Path) -> None:
    (folder / "backups").mkdir(exist_ok=True)
    (folder / "backups" / f"ledger-{NOW - 3 * DAY:%Y%m%dT%H%M%SZ}.db").touch()
    assert "3 d ago" in _findings(config)["backup"].found
    (folder / "backups" / f"ledger-{NOW - DAY / 2:%Y%m%dT%H%M%SZ}.db").touch()
    assert _findings(config)["backup"].verdict is CheckVerdict.OK


def test_a_clock_before_the_last_write_is_wrong(config: Path, folder: Path) -> None:
    _written(folder / "ledger.sqlite", NOW + DAY)
    assert _findings(config)["clock"].verdict is CheckVerdict.FAIL
    assert _findings(config, NOW.replace(year=1970))["clock"].remedy == "set the clock"


def test_a_damaged_ledger_fails_with_the_way_back(config: Path, folder: Path) -> None:
    (folder / "ledger.sqlite").write_bytes(b"not a database" * 99)
    found = _findings(config)["ledger"]
    assert (found.verdict, found.remedy) == (
        CheckVerdict.FAIL,
        "restore a backup: foxcast db restore NAME (foxcast db list)",
    )


def test_of_a_large_ledger_it_says_that_its_pages_were_not_read(config: Path, folder: Path) -> None:
    ledger = folder / "ledger.sqlite"
    size = ledger.stat().st_size
    assert "not read" not in check_ledger_integrity(ledger, max_bytes=size).found
    found = check_ledger_integrity(ledger, max_bytes=size - 1)
    assert (found.verdict, "its pages were not read: that is foxcast db check" in found.found) == (
        CheckVerdict.OK,
        True,
    )
    assert _findings(config)["ledger"].verdict is CheckVerdict.OK


def test_a_large_log_is_a_warning(config: Path, folder: Path) -> None:
    with (folder / "ledger.sqlite-wal").open("wb") as log:
        log.truncate(65 * 1024 * 1024)
    found = _findings(config)["write-ahead log"]
    assert (found.verdict, found.found) == (CheckVerdict.WARN, "68.2 MB")


def test_a_ledger_that_others_can_read_is_a_warning_with_the_command_to_run(config: Path, folder: Path) -> None:
    (folder / "ledger.sqlite").chmod(0o644)
    assert _findings(config)["state folder"].remedy == f"run: chmod go-rwx {folder / 'ledger.sqlite'}"


class Beating(NamedTuple):
    started: timedelta
    beat: timedelta | None
    verdict: CheckVerdict


@pytest.mark.parametrize(
    "case",
    [
        Beating(started=timedelta(seconds=5), beat=None, verdict=CheckVerdict.OK),
        Beating(started=DAY, beat=timedelta(seconds=5), verdict=CheckVerdict.OK),
        Beating(started=DAY, beat=timedelta(hours=1), verdict=CheckVerdict.WARN),
        Beating(started=timedelta(hours=1), beat=DAY, verdict=CheckVerdict.WARN),
    ],
    ids=["just started", "beats", "fell silent", "never beat"],
)
def test_a_daemon_without_a_heartbeat_is_a_warning(config: Path, folder: Path, case: Beating) -> None:
    if case.beat is not None:
        (folder / HEARTBEAT_FILE).write_text(json.dumps({"at": (NOW - case.beat).isoformat()}))
    with instance_lock(folder, started_at=NOW - case.started):
        found = _findings(config)["daemon"]
    assert found.verdict is case.verdict
    assert str(os.getpid()) in found.found


def test_an_unreadable_heartbeat_is_none(config: Path, folder: Path) -> None:
    (folder / HEARTBEAT_FILE).write_text("{")
    with instance_lock(folder, started_at=NOW):
        assert _findings(config)["daemon"].verdict is CheckVerdict.OK


def test_little_room_on_the_disk_fails(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage(NamedTuple):
        free: int

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free=1_000_000))
    found = _findings(config)["disk"]
    assert (found.verdict, found.remedy) == (CheckVerdict.FAIL, "free 500.0 MB or more")
    assert "no forecast and no submission begins" in found.found


def test_an_old_python_fails(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = next(iter(run_checks(config, NOW)))
    assert found.verdict is CheckVerdict.OK
    monkeypatch.setattr(sys, "version_info", (3, 10, 12))
    assert next(iter(run_checks(config, NOW))) == CheckFinding(
        CheckVerdict.FAIL, "python", "3.10.12", "install Python 3.11 or newer"
    )


@pytest.fixture
def outsider(config: Path) -> Path:
    """A state folder that is a file, so that nothing can be made in it."""
    (config.parent / "state").write_text("")
    return config


def test_a_state_folder_that_is_a_file_fails(outsider: Path) -> None:
    assert _findings(outsider)["state folder"].verdict is CheckVerdict.FAIL


@pytest.mark.parametrize(
    ("text", "check", "word"),
    [
        ('plugins = ["nobody"]', "plugins", "nobody"),
        ("[forecasters.nobody]", "plugins", "nobody"),
        ('plugins = ["forecastbench"]\n[venues.forecastbench]\nforecasters = ["x"]', "plugins", "forecasters[0]"),
        (WRONG_SETTING, "settings", "colour"),
        ("seed = -1", "configuration", "seed"),
    ],
)
def test_a_fault_in_the_configuration_fails_with_its_key(config: Path, text: str, check: str, word: str) -> None:
    config.write_text(text)
    failed = [finding for finding in run_checks(config, NOW) if finding.verdict is CheckVerdict.FAIL]
    assert [finding.check for finding in failed] == [check]
    assert word in failed[0].found


def test_fewer_connections_than_requests_are_a_warning_with_the_setting(config: Path) -> None:
    config.write_text("[llm.providers.litellm]\nconcurrency = 30\n[http]\nconnections = 20")
    found = _findings(config)["connections"]
    assert found.verdict is CheckVerdict.WARN
    assert "allowed 30 requests" in found.found
    config.write_text("[llm.providers.litellm]\nconcurrency = 30\n[http]\nconnections = 30")
    assert _findings(config)["connections"].verdict is CheckVerdict.OK


MODELS = """
plugins = ["forecastbench", "blf", "openai_compatible", "searxng"]

[venues.forecastbench]
forecasters = ["blf"]

[models.openai_compatible.settings.endpoints.here]
base_url = "http://127.0.0.1:1/v1"

[search.searxng.settings]
base_url = "http://127.0.0.1:1"

[llm.roles.main]
model = "openai_compatible:here/small"
"""
PRICED = """
[llm.models."openai_compatible:here/small"]
free = true

[llm.roles.filter]
model = "openai_compatible:here/small"
"""


def _told(config: Path, verdict: CheckVerdict) -> dict[str, CheckFinding]:
    return {check: finding for check, finding in _findings(config).items() if finding.verdict is verdict}


def test_what_forecasters_lack_is_a_warning_with_the_table_to_add(config: Path) -> None:
    config.write_text(MODELS)
    found = _told(config, CheckVerdict.WARN)
    assert "openai_compatible:here/small has no price" in found["prices"].found
    assert "free = true" in found["prices"].remedy
    assert "can limit dates, so there is no search for forecastbench" in found["search"].found
    assert "[llm.roles.filter]" in found["filter"].remedy
    # Nobody listens at the address, which is another matter.
    assert _told(config, CheckVerdict.FAIL).keys() == {"endpoints"}


@pytest.fixture
def asking(config: Path) -> Path:
    """A configuration that asks a model, at an address where nobody listens."""
    config.write_text(MODELS + PRICED)
    return config


async def test_an_endpoint_that_cannot_be_reached_fails_in_words(asking: Path) -> None:
    config = asking
    found = (await asyncio.to_thread(_told, config, CheckVerdict.FAIL))["endpoints"]
    assert "openai_compatible:here/small: http://127.0.0.1:1/v1/models cannot be reached" in found.found
    assert "start the server" in found.remedy
    async with ScriptedModelServer(reply_error(401)) as server:
        there = (MODELS + PRICED).replace("http://127.0.0.1:1/v1", server.base_url, 1)
        await asyncio.to_thread(config.write_text, there)
        assert await asyncio.to_thread(_told, config, CheckVerdict.FAIL) == {}


@pytest.mark.parametrize("role", ["main", "critic"])
async def test_a_model_that_does_badly_in_a_role_that_it_plays_is_a_warning(asking: Path, role: str) -> None:
    config = asking
    model = "openai_compatible:here/small"
    stuck = ModelPerformance(role=role, model=model, asked=10, unparsed=0, submitted=False)
    folder = config.parent / "state" / "paper"
    async with open_blank_ledger(folder / "ledger.sqlite", now=NOW) as ledger:
        for trial in range(12):
            conduct = replace(stuck, submitted=trial >= 9, beliefs=10, unread_beliefs=6)
            await ledger.model_performance.add(conduct, scope="f1", trial=trial, at=NOW)
    found = await asyncio.to_thread(_findings, config)
    if role == "critic":
        assert "model health" not in found
        return
    assert found["model health"] == CheckFinding(
        CheckVerdict.WARN,
        "model health",
        f"main {model}: 9 of the last 12 trials ended at a limit without submitting; 60% of its belief updates in its "
        "last 12 trials could not be parsed, more than 50%",
        "inspect a trial with foxcast explain, or name another model in [llm.roles.main]",
    )
    # What was a month ago is no trouble now.
    assert "model health" not in await asyncio.to_thread(_findings, config, NOW + 30 * DAY)


async def test_a_process_that_has_no_cpu_for_more_calls_is_a_warning(asking: Path) -> None:
    path = asking.parent / "state" / "paper" / "ledger.sqlite"
    learned = ModelConcurrency(model="prime:big", at=NOW, concurrency=700.0, ceiling=1000, reason="rate limit")
    for reason in ("rate limit", LimitReason.PROCESS):
        async with open_blank_ledger(path, now=NOW) as ledger:
            await ledger.model_concurrency.save([replace(learned, reason=reason)])
        found = await asyncio.to_thread(_findings, asking)
        assert ("process" in found) is (reason != "rate limit")
    assert found["process"] == CheckFinding(
        CheckVerdict.WARN,
        "process",
        "prime:big: 0 calls are open of 700 that it may get: one process has no CPU for more",
        "see How much at once in docs/models.md; backtests: --workers",
    )


def test_a_role_that_nobody_asks_is_a_warning_with_the_nearest(config: Path) -> None:
    config.write_text(MODELS + PRICED + '[llm.roles.mayn]\nmodel = "openai_compatible:here/small"\n')
    found = _told(config, CheckVerdict.WARN)["roles"].found
    assert "[llm.roles.mayn]" in found
    assert "did you mean main?" in found


def test_a_budget_without_room_for_all_trials_is_a_warning(config: Path) -> None:
    dear = '[llm.models."openai_compatible:here/small"]\nprice_in = 1.0\nprice_out = 10.0\n'
    budget = "[llm.budget]\nquestion_usd = {}\n"
    models = MODELS.replace("[llm.roles.main]", "[llm.roles.main]\nmax_tokens = 8000")
    # A prompt of 20,000 tokens at 1 dollar a million, and an answer of 8,000 at 10: 0.10 dollars for each of 5 trials.
    config.write_text(models + dear + budget.format(0.25))
    assert "lets 2 of 5 trials ask at once; raise it to 0.50" in _told(config, CheckVerdict.WARN)["budget"].found
    config.write_text(models + dear + budget.format(0.5))
    assert "budget" not in _findings(config)


@pytest.mark.timeout(120)  # the library takes seconds to import, more on a busy machine
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_key_that_nobody_set_fails_with_its_variable(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    models = MODELS.replace("openai_compatible:here/small", "litellm:openai/gpt-4o-mini")
    config.write_text(models.replace('"openai_compatible"', '"openai_compatible", "litellm"'))
    found = _findings(config)
    variable = "FOXCAST_MODELS__LITELLM__SETTINGS__KEYS__OPENAI"
    assert found["keys"] == CheckFinding(
        CheckVerdict.FAIL, "keys", "litellm:openai/gpt-4o-mini: no key", f"set {variable}"
    )
    assert found.get("models") is None
    monkeypatch.setenv(variable, "a key of somebody")
    found = _findings(config)
    assert "keys" not in found
    assert found["models"].verdict is CheckVerdict.OK


@pytest.mark.timeout(120)  # the library takes seconds to import, more on a busy machine
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_models_that_the_library_translates_for_are_named(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOXCAST_MODELS__LITELLM__SETTINGS__KEYS__OPENAI", "a key of somebody")
    models = MODELS.replace('"openai_compatible"', '"openai_compatible", "litellm"')
    for model, translated in (("openai/gpt-4o-mini", False), ("cohere/small", True)):
        config.write_text(models.replace("openai_compatible:here/small", f"litellm:{model}"))
        found = _findings(config).get("model calls")
        assert (found is not None) is translated
        assert found is None or found.found.startswith(f"litellm:{model}: the library litellm translates each call")


def test_what_is_there_is_not_missed(config: Path) -> None:
    config.write_text(MODELS.replace('"searxng"]', '"searxng", "google_news"]') + PRICED)
    assert not {"prices", "search", "filter"} & _findings(config).keys()


@pytest.mark.parametrize("price", ['"here/small"', "small"])
def test_a_price_of_the_endpoint_counts_for_its_models_alone(config: Path, price: str) -> None:
    table = f"[models.openai_compatible.settings.endpoints.here.prices.{price}]"
    config.write_text(f"{MODELS}\n{table}\ntokens_in = 1.0\ntokens_out = 2.0\n")
    assert ("prices" in _findings(config)) is (price != "small")


def test_a_model_at_an_endpoint_that_is_not_there_fails_with_the_nearest(config: Path) -> None:
    config.write_text(MODELS.replace("compatible:here/", "compatible:her/"))
    found = _told(config, CheckVerdict.FAIL)["endpoints"]
    assert "openai_compatible:her/small names no endpoint" in found.found
    assert "did you mean here?" in found.found


def test_who_asks_no_model_hears_nothing_of_search(config: Path) -> None:
    config.write_text('plugins = ["forecastbench", "baseline"]\n[venues.forecastbench]\nforecasters = ["baseline"]\n')
    assert not {"prices", "search", "filter"} & _findings(config).keys()


async def test_a_model_that_is_replaced_is_a_warning_until_it_is_not(config: Path) -> None:
    folder = config.parent / "state" / "paper"
    demotion = ModelDemotion(model="prime:big", at=NOW, until=NOW + DAY, why="it submits 1 of 10 trials", role="main")
    async with open_blank_ledger(folder / "ledger.sqlite", now=NOW) as ledger:
        await ledger.model_performance.demote(demotion)
    # The checks bring a loop of their own.
    found = await asyncio.to_thread(_findings, config)
    assert found["demoted"].verdict is CheckVerdict.WARN
    assert "prime:big is replaced as main until 2026-11-22 12:00 UTC" in found["demoted"].found
    assert "it submits 1 of 10 trials" in found["demoted"].found
    assert "demoted" not in await asyncio.to_thread(_findings, config, NOW + 2 * DAY)


def test_a_setting_that_is_refused_is_told_once(config: Path) -> None:
    config.write_text("""
plugins = ["baseline", "blf", "litellm", "forecastbench"]
[venues.forecastbench]
forecasters = ["blf"]
[llm.roles.main]
model = "litellm:gemini/gemini-3-flash-preview"
[models.litellm.settings.keys]
gemini = "in-the-file"
""")
    failed = [finding.found for finding in run_checks(config, NOW) if finding.verdict is CheckVerdict.FAIL]
    assert len([found for found in failed if "models.litellm.settings.keys" in found]) == 1
    assert len(failed) == len({*failed})


@pytest.mark.timeout(10)
def test_a_fifo_in_place_of_the_ledger_is_named(config: Path, folder: Path) -> None:
    (folder / "ledger.sqlite").unlink()
    os.mkfifo(folder / "ledger.sqlite")
    found = _findings(config)["state folder"]
    assert (found.verdict, found.found) == (CheckVerdict.FAIL, f"{folder / 'ledger.sqlite'} is a FIFO")
