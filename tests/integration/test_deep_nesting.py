"""Lists and tables nested a hundred thousand deep, and as deep as the stack still bears, in all that is from outside.

There is one error of one line, or nothing was read, but never a RecursionError.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr

from bot.cli.question_file import read_question
from bot.config.loader import load_config
from bot.config.sources import read_toml_file
from bot.core.errors import FoxcastError, HttpErrorResponse, MalformedDataError
from bot.core.language_models import ToolCall
from bot.core.values import MAX_NESTING, Json, is_nested_too_deeply
from bot.core.venue_http import HttpResponse, response_fields
from bot.evaluation.leak_audit import parse_opinions
from bot.forecasting.agent.parsing import parse_object
from bot.net.html.extraction import answer_page
from bot.net.response_body import quote_reply
from bot.store.audit_log import read_exported_head
from bot.store.database import last_holder
from bot.store.folder_identity import check_identity
from bot.store.heartbeat import read_heartbeat
from bot.store.rate_usage import rate_usage_from_text
from bot.store.reported_outcomes import load_reported_outcomes
from bot.store.requests import pending_cancellations, pending_closings, pending_requests
from bot.store.restore import finish_restore, read_restore_mark
from bot.testing.clock import FakeClock
from bot.testing.http import FixedResponseClient
from plugins.forecastbench.forecast_set_validator import find_violations
from plugins.forecastbench.round_files import decode_json
from plugins.manifold.api_client import ManifoldClient
from plugins.manifold.market_state import ManifoldMarketState
from plugins.manifold.settings import ManifoldSettings
from plugins.metaculus.api_client import MetaculusClient
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.write_requests import is_account_refusal
from plugins.models._provider_errors import error_message
from plugins.models._wire_call import call_arguments, decode_reply
from plugins.polymarket.api_client import PolymarketClient
from plugins.polymarket.json_values import parse_list
from plugins.polymarket.live_books import LiveBooks
from plugins.polymarket.order_books import PolymarketOrderBook
from plugins.polymarket.settings import PolymarketSettings
from plugins.society.scenario_files import parse_scenario

METACULUS = MetaculusSettings(token=SecretStr("0123456789abcdef"))
NOW = datetime(2026, 3, 1, tzinfo=UTC)
DEPTHS = (MAX_NESTING + 1, 400, 900, 985, 100_000)


def _ask(make: Callable[[FixedResponseClient], Awaitable[object]]) -> Callable[[str], object]:
    async def read(text: str) -> object:
        return await make(FixedResponseClient(text.encode()))

    return lambda text: asyncio.run(read(text))


def _refusal(text: str) -> bool:
    return is_account_refusal(HttpErrorResponse(status=403, body=text))


# What reads a text of an outside source, by the source. It may also return something: a text may hold nothing wanted.
READERS: Mapping[str, Callable[[str], object]] = {
    "Manifold": _ask(lambda http: ManifoldClient(ManifoldSettings(), http, FakeClock(NOW)).get("me")),
    "Metaculus": _ask(lambda http: MetaculusClient(METACULUS, http, FakeClock(NOW)).get("posts/")),
    "Polymarket": _ask(lambda http: PolymarketClient(PolymarketSettings(), http).market("1")),
    "response to a write": lambda text: response_fields(HttpResponse(status=400, body=text.encode())),
    "refusal of Metaculus": _refusal,
    "list in a text of Polymarket": parse_list,
    "prices of Polymarket": lambda text: LiveBooks().apply_message(text, now_s=1.0),
    "stored book of Polymarket": PolymarketOrderBook.from_json,
    "stored market of Manifold": ManifoldMarketState.from_json,
    "round of ForecastBench": lambda text: decode_json(text.encode(), name="round.json"),
    "forecast set of ForecastBench": lambda text: find_violations(text.encode(), file_name="f.json", questions=()),
    "answer of a model server": lambda text: decode_reply(text.encode(), "server"),
    "error of a model server": error_message,
    "arguments of a tool call": lambda text: call_arguments(ToolCall(id="1", name="t", arguments=text)),
    "answer of a model": lambda text: parse_object(text, complete=True),
    "answer about leaks": lambda text: parse_opinions(text, 3),
    "quoted reply": lambda text: quote_reply(text, only_message=True),
    "page of JSON": lambda text: answer_page(text.encode(), "application/json", max_chars=1000),
    "scenario of the court": lambda text: parse_scenario(text, "court.json"),
}


def nested(depth: int) -> list[str]:
    return [
        "[" * depth + "]" * depth,
        '{"a":' * depth + "1" + "}" * depth,
        '{"error":' + "[" * depth + "]" * depth + "}",
    ]


def read_refused(read: Callable[[], object]) -> str:
    """Return the error of a reader, one line; "" if it answered."""
    try:
        read()
    except FoxcastError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("source", READERS)
def test_nothing_from_outside_exhausts_the_stack(source: str, depth: int) -> None:
    for text in nested(depth):
        refused = read_refused(lambda text=text: READERS[source](text))  # type: ignore[misc]
        # What is not too deep may have a fault in each line.
        assert depth < DEPTHS[-1] or "\n" not in refused


# The files of the state folder, by name: what reads them, and what it may answer instead of an error.
STATE_FILES: Mapping[str, Callable[[Path], object]] = {
    "heartbeat.json": read_heartbeat,
    "lock": last_holder,
    "reported_outcomes.json": load_reported_outcomes,
    "identity.json": lambda folder: check_identity(folder / "ledger.sqlite"),
    "audit.head": lambda folder: read_exported_head(folder / "audit.head"),
    "ledger.sqlite.restored": lambda folder: read_restore_mark(folder / "ledger.sqlite"),
    "ledger.sqlite.restoring": lambda folder: finish_restore(folder / "ledger.sqlite"),
    "usage": lambda folder: rate_usage_from_text("venue", (folder / "usage").read_text()),
}
REFUSING = {"identity.json", "audit.head", "ledger.sqlite.restored", "ledger.sqlite.restoring", "usage"}


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("name", STATE_FILES)
def test_a_nested_file_of_the_state_folder_is_one_line_or_as_if_it_were_missing(
    name: str, depth: int, tmp_path: Path
) -> None:
    for text in nested(depth):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
        refused = read_refused(lambda: STATE_FILES[name](tmp_path))
        assert bool(refused) is (name in REFUSING)
        assert "\n" not in refused


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("suffix", ["json", "toml"])
def test_a_question_file_that_is_nested_is_refused_in_one_line(suffix: str, depth: int, tmp_path: Path) -> None:
    file = tmp_path / f"question.{suffix}"
    for text in nested(depth) if suffix == "json" else ["x = " + nested(depth)[0], ".".join(["a"] * depth) + " = 1"]:
        file.write_text(text)
        refused = read_refused(lambda: read_question(file, now=NOW))
        assert str(file) in refused
        assert depth < DEPTHS[-1] or "\n" not in refused


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("shape", ["x = {list}", "x = {table}", "{key} = 1", "[{key}]\nx = 1", "[[{key}]]\nx = 1"])
def test_a_configuration_that_is_nested_is_refused_in_one_line(shape: str, depth: int, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    tables = "{a=" * depth + "1" + "}" * depth
    file.write_text(shape.format(list="[" * depth + "]" * depth, table=tables, key=".".join(["a"] * depth)))
    for read in (lambda: read_toml_file(file), lambda: load_config(file, {})):
        refused = read_refused(read)
        assert "is nested too deeply" in refused or "is larger than" in refused
        assert "\n" not in refused


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("name", ["FOXCAST_PLUGINS", "FOXCAST_LLM__ROLES__MAIN__MODEL", "FOXCAST_LLM__ROLES"])
def test_a_variable_that_is_nested_is_refused_in_one_line(name: str, depth: int, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("")
    for text in nested(depth):
        refused = read_refused(lambda text=text: load_config(tmp_path / "config.toml", {name: text}))  # type: ignore[misc]
        assert "\n" not in refused
        assert refused.startswith(f"env {name}") or name.endswith("MODEL")


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_request_to_the_daemon_that_is_nested_is_refused(depth: int, tmp_path: Path) -> None:
    for pending in (pending_requests, pending_cancellations, pending_closings):
        for number, text in enumerate(nested(depth)):
            folder = tmp_path / pending.__name__ / str(number)
            for place in ("requests", "requests/orders", "requests/closings"):
                (folder / place).mkdir(parents=True, exist_ok=True)
                (folder / place / "1.json").write_text(text)
            [request, *_] = pending(folder)
            with pytest.raises(MalformedDataError):
                request.read()


def test_what_is_too_deep_is_counted_at_any_depth() -> None:
    value: Json = 1
    for depth in range(1, 3 * MAX_NESTING):
        value = [value] if depth % 2 else {"a": value}
        assert is_nested_too_deeply([0, value]) == (depth + 1 > MAX_NESTING)
