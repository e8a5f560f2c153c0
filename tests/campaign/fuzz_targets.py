"""The parsers of what comes from outside, each with real samples: venues, models, pages, search, data, files, requests.

The samples are those of the contract tests: documented replies, published files.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from bot.cli.question_file import read_question
from bot.cli.question_import import _read_file as read_examples
from bot.config.loader import load_config
from bot.core.errors import HttpErrorResponse
from bot.core.operator_requests import AnswerApproval, ArmVenue, ClosePositions, HaltSubmissions, PositionToClose
from bot.core.orders import ContractSide
from bot.core.plugin_specs import PluginContext
from bot.core.values import Json
from bot.evaluation.trial_table import KEY_COLUMNS, read_trial_tables
from bot.forecasting.agent.parsing import parse_object
from bot.net.client import _ClockSkewEstimator as ClockSkewEstimator
from bot.net.html.extraction import extract_page
from bot.net.rate_headers import requested_wait_s
from bot.plugin_system.registry import load_registry
from bot.store.requests import pending_requests, send_request
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient, FixedResponseClient
from plugins.forecastbench.file_parser import parse_question_set, parse_resolution_set
from plugins.forecastbench.round_files import parse_content
from plugins.models._provider_errors import ErrorRemedy, provider_error
from plugins.models._wire_call import WireCall, WireReply
from plugins.society.scenario_files import parse_scenario, read_scenario_file, read_shipped_text
from tests.campaign.input_mutation import Mutate
from tests.plugins.models.wire_calls import SEARCH, wire_call

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
# Only the import of a venue's own JSON asks for it.
NO_COMMAND: Any = None
ROOT = Path(__file__).resolve().parents[2]
# One input: all that a target reads passes through the function that it gets.
ReadInput = Callable[[Mutate], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzTarget:
    """A parser; ``open`` returns the function that reads one input, for files in an empty folder."""

    name: str
    open: Callable[[Path], ReadInput]


@dataclass(slots=True)
class MutatedClient:
    """Implements HttpClient: the answers of another one, of which each passes through ``mutate``."""

    inner: Any
    mutate: Mutate = field(default=lambda body: body)

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        return self.mutate(await self.inner.get(url, max_bytes=max_bytes, headers=headers))

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        answer = await self.inner.post(url, body, max_bytes=max_bytes, headers=headers, deadline_s=deadline_s)
        return self.mutate(answer)


def list_targets() -> list[FuzzTarget]:
    """Return all targets in the order of their names."""
    found = [*_contract_targets(), *_wire_targets(), *_page_targets(), *_file_targets(), *_answer_targets()]
    return sorted(found, key=lambda target: target.name)


# Venues, search engines and data sources: whole plugins over clients whose answers are mutated

CONTRACTS: Sequence[tuple[str, str]] = (
    ("venues", "tests.contracts.test_manifold"),
    ("venues", "tests.contracts.test_metaculus"),
    ("venues", "tests.contracts.test_polymarket"),
    *(
        ("search", f"tests.plugins.search.test_{name}")
        for name in ("asknews", "brave", "exa", "google_news", "perplexity", "searxng", "serper", "tavily")
    ),
    *(
        ("data", f"tests.plugins.data.test_{name}")
        for name in ("acled", "dbnomics", "fred", "manifold_prices", "polymarket_prices", "wikipedia", "yahoo")
    ),
)


def _contract_targets() -> Iterator[FuzzTarget]:
    for kind, module in CONTRACTS:
        name = f"{kind} {module.rpartition('test_')[2]}"
        yield FuzzTarget(name=name, open=partial(_open_plugin, kind, module))


def _open_plugin(kind: str, module: str, folder: Path) -> ReadInput:
    """Return what asks a plugin for all that its contract asks for, with the settings and replies of the contract."""
    tests = import_module(module)
    contract = next(
        value for name, value in vars(tests).items() if name.startswith("Test") and value.__module__ == module
    )()
    if kind == "venues":
        return _open_reader(contract, tests, folder)
    if kind == "search":
        inner: Any = FixedResponseClient(contract.reply)
    else:
        inner = FakeHttpClient(contract.pages)

    async def read(mutate: Mutate) -> object:
        inner.requests.clear()
        now = getattr(contract, "now", NOW)
        context = PluginContext(clock=FakeClock(now), http=MutatedClient(inner, mutate), folder=folder)
        if kind == "data":
            return await contract.request_data(context)
        async with contract.open_engine(context) as engine:
            return await engine.search("who lights the lanterns?", before=None, limit=5)

    return read


def _open_reader(contract: Any, tests: Any, folder: Path) -> ReadInput:
    def client(*, is_over: bool) -> Any:
        if pages := getattr(contract, "pages", None):
            return FakeHttpClient(pages, idle=contract.ignored_parameter)
        return tests.FakePages(tests.OVER if is_over else tests.MARKETS)

    async def read(mutate: Mutate) -> object:
        clock = FakeClock(getattr(tests, "NOW", datetime(2026, 1, 1, tzinfo=UTC)))
        http = MutatedClient(client(is_over=False), mutate)
        context = PluginContext(clock=clock, http=http, folder=folder)
        async with contract.spec.reader(contract.settings, context) as reader:
            found = [question async for question in reader.questions()]
            http.inner = client(is_over=True)
            refs = [question.ref for question in found[::2]]
            return found, [outcome async for outcome in reader.resolutions(refs)]

    return read


# Models: replies in the four wire formats, errors, and what models write

WIRES: Sequence[tuple[str, str, str, tuple[tuple[str, str], ...]]] = (
    ("chat", "read_chat", "deepseek/deepseek-v4-pro", ()),
    ("messages", "read_messages", "anthropic/claude-opus-5.5", (("ALL_BLOCKS", "content"),)),
    ("gemini", "read_gemini", "gemini/gemini-3.1-pro-preview", (("PARTS", "content"),)),
    ("responses", "read_responses", "openai/gpt-6-sol", (("ITEMS", "output"),)),
)


def _wire_targets() -> Iterator[FuzzTarget]:
    for name, reader, model, parts in WIRES:
        tests, module = f"tests.plugins.models.test_wire_{name}", f"plugins.models._wire_{name}"

        def open_wire(
            _: Path,
            tests: str = tests,
            module: str = module,
            reader: str = reader,
            model: str = model,
            parts: Any = parts,
        ) -> ReadInput:
            call, documented = wire_call(model, tools=(SEARCH,)), import_module(tests)
            read_reply: Callable[[bytes, WireCall], WireReply] = getattr(import_module(module), reader)
            sample: bytes = documented.reply(getattr(documented, parts[0][0]) if parts else _CHAT_MESSAGE)

            async def read(mutate: Mutate) -> object:
                return read_reply(mutate(sample), call)

            return read

        yield FuzzTarget(name=f"models {name}", open=open_wire)
    yield FuzzTarget(name="models errors", open=lambda _: _read_error)


_CHAT_MESSAGE: Mapping[str, Any] = {
    "role": "assistant",
    "content": [{"type": "text", "text": "I look."}],
    "reasoning_content": "Hm.",
    "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}},
        {"id": "b", "type": "function", "function": {"name": "search", "arguments": "{}"}},
    ],
}
# The forms of errors that docs/facts/providers.md names.
_ERRORS = (
    b'{"error": {"message": "You exceeded your quota", "type": "insufficient_quota", "param": null, "code": "x"}}',
    b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}',
    b'{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "7s"}]}}',
)


async def _read_error(mutate: Mutate) -> object:
    for status, body in zip((400, 529, 429), _ERRORS, strict=True):
        text = mutate(body).decode("utf-8", "replace")
        found = provider_error(HttpErrorResponse(status=status, body=text), shown="a model", remedy=ErrorRemedy())
        str(found).encode()
    return None


_HEADERS = {
    "retry-after": "120",
    "date": "Tue, 10 Mar 2026 12:00:00 GMT",
    "age": "0",
    "x-ratelimit-remaining": "0",
    "x-ratelimit-reset": "2026-03-10T12:01:00Z",
    "x-ratelimit-remaining-tokens": "0",
    "x-ratelimit-reset-tokens": "6m0.5s",
}


async def _read_headers(mutate: Mutate) -> object:
    text = json.dumps(_HEADERS).encode()
    try:
        headers = {str(name): str(value) for name, value in dict(json.loads(mutate(text))).items()}
    except (ValueError, TypeError, RecursionError):
        return None
    ClockSkewEstimator(FakeClock(NOW)).add_response(headers.get("date", ""), headers.get("age", ""))
    waits = [requested_wait_s(status, headers, now=NOW) for status in (200, 429)]
    assert all(wait is None or wait >= 0.0 for wait in waits)
    return waits


def _answer_targets() -> Iterator[FuzzTarget]:
    answer = {"action": "submit", "arguments": {"probability": 0.4, "options": ["a", "b"]}, "updated_belief": {"p": 40}}
    samples = [json.dumps(answer).encode(), b"I think.\n```json\n" + json.dumps(answer).encode() + b"\n```", b'{"a": 1']

    async def read(mutate: Mutate) -> object:
        return [parse_object(mutate(one).decode("utf-8", "replace"), complete=False) for one in samples]

    yield FuzzTarget(name="models answers", open=lambda _: read)
    yield FuzzTarget(name="models headers", open=lambda _: _read_headers)


# Pages and feeds, in the process that reads them

_PAGE = (
    """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Lanterns</title>
<meta property="article:published_time" content="2026-03-01T09:00:00+01:00">
<script type="application/ld+json">{"@type": "NewsArticle", "datePublished": "2026-03-01"}</script></head><body>
<nav><a href="/">Home</a></nav><h1>All seven lanterns are lit</h1><p style="display:none">hidden</p>
<article><p>The keeper counted <b>seven</b> lanterns &amp; went home.</p><table><tr><td>1</td><td>2</td></tr></table>
<ul><li>one<li>two</ul><svg><text>x</text></svg><p>"""
    + "The harbour was calm that night. " * 12
    + "</p></article></body></html>"
)
_RSS = """<?xml version="1.0" encoding="UTF-8"?><rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/">
<channel><title>Harbour</title><item><title>Lanterns</title><link>https://harbour.example/a</link>
<pubDate>Mon, 02 Mar 2026 08:00:00 GMT</pubDate><description>&lt;p&gt;Seven are lit.&lt;/p&gt;</description>
<content:encoded><![CDATA[<p>All of <b>them</b>.</p>]]></content:encoded></item></channel></rss>"""
_ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>Harbour</title><entry><title type="xhtml">
<div xmlns="http://www.w3.org/1999/xhtml">Lit</div></title><updated>2026-03-01T09:00:00Z</updated>
<summary>Seven.</summary></entry></feed>"""
_PAGES: Sequence[tuple[str, str, str]] = (
    ("html", "text/html; charset=utf-8", _PAGE),
    ("rss", "application/rss+xml", _RSS),
    ("atom", "application/atom+xml", _ATOM),
    ("xhtml", "application/xhtml+xml", _PAGE.replace("<li>one<li>two", "<li>one</li>").replace("<!DOCTYPE html>", "")),
    ("text", "text/plain", "Seven lanterns.\nAll lit.\n"),
)


def _ignore_folder(read: ReadInput, _: Path) -> ReadInput:
    return read


def _page_targets() -> Iterator[FuzzTarget]:
    for name, media_type, text in _PAGES:

        async def read(mutate: Mutate, media_type: str = media_type, sample: bytes = text.encode()) -> object:
            return extract_page(mutate(sample), media_type, max_chars=20_000)

        yield FuzzTarget(name=f"pages {name}", open=partial(_ignore_folder, read))


# Files of people, and requests to the daemon

_QUESTION_TOML = """title = "How much rain will fall in Lysse in May 2026?"
key = "rain"
background = "It often rains."
closes_at = 2026-06-01T00:00:00Z
[shape]
kind = "number"
range = [0, 300]
unit = "mm"
[[targets]]
key = "may"
resolves_at = "2026-06-02"
"""
_QUESTION_JSON = {
    "title": "Who lights the lanterns?",
    "shape": {"kind": "choice", "options": ["Ann", "Bob", "Cid"]},
    "criteria": "As the keeper says.",
    "crowd": {"probabilities": {"Ann": 0.5, "Bob": 0.3, "Cid": 0.2}, "at": "2026-02-28T09:00:00Z"},
    "as_of": "2026-03-01",
    "closes_at": "2026-05-01T12:00:00+02:00",
    "targets": ["2026-05-02", {"key": "june", "resolves_at": "2026-06-02T00:00:00-05:00"}],
    "facts": {"id": "7"},
}
_IMPORT_CSV = """title,asked_at,resolved_at,outcome,crowd,options,range,kind
Will it rain?,2026-01-01,2026-02-01,yes,0.4,,,
Who wins?,2026-01-01T09:00:00Z,2026-02-01,Ann,,Ann|Bob,,choice
How much?,2026-01-01,2026-02-01,12.5,,,0|30,number
"""
_RESOLVED = {"asked_at": "2026-01-01", "resolved_at": "2026-02-01"}
_IMPORT_JSONL = "\n".join(
    json.dumps({**_RESOLVED, **row})
    for row in (
        {"title": "Will it rain?", "outcome": "no"},
        {"title": "How much?", "outcome": 3, "shape": {"kind": "number", "range": [0, 9]}},
    )
)
_TRIALS = f"""{",".join(KEY_COLUMNS)},resolved,resolved_to,market_value,forecast,trial_1,trial_2,cost_usd
solo,2026-03-01,manifold,m1,2026-04-01,True,1.0,0.4,0.6,0.5,0.7,0.02
solo,2026-03-01,fred,CPI,2026-03-08,True,0.0,,,0.5,0.7,
solo,2026-03-01,fred,CPI,2026-03-31,False,,,0.2,,,
"""


def _file_target(name: str, file: str, sample: bytes, read_file: Callable[[Path], object]) -> FuzzTarget:
    def open_file(folder: Path) -> ReadInput:
        path = folder / file

        async def read(mutate: Mutate) -> object:
            path.write_bytes(mutate(sample))
            path.chmod(0o600)
            return read_file(path)

        return read

    return FuzzTarget(name=name, open=open_file)


def _file_targets() -> Iterator[FuzzTarget]:
    rounds = ROOT / "plugins" / "forecastbench" / "sample"
    question_set, resolution_set = (
        min((rounds / part).glob("*.json")).read_bytes() for part in ("question_sets", "resolution_sets")
    )

    def read_round(form: Callable[[object], object]) -> Callable[[Path], object]:
        return lambda path: parse_content(path.read_bytes(), form, name=path.name)

    yield _file_target("venues question set", "questions.json", question_set, read_round(parse_question_set))
    yield _file_target("venues resolution set", "resolutions.json", resolution_set, read_round(parse_resolution_set))
    config = (ROOT / "config.toml").read_bytes()
    yield _file_target("files config", "config.toml", config, lambda path: load_registry(load_config(path, {})))
    yield _file_target(
        "files question.toml", "q.toml", _QUESTION_TOML.encode(), lambda path: read_question(path, now=NOW)
    )
    own = json.dumps(_QUESTION_JSON).encode()
    yield _file_target("files question.json", "q.json", own, lambda path: read_question(path, now=NOW))
    for suffix, text in (("csv", _IMPORT_CSV), ("jsonl", _IMPORT_JSONL)):
        yield _file_target(
            f"files import.{suffix}",
            f"import.{suffix}",
            text.encode(),
            lambda path: [*read_examples(NO_COMMAND, path, None, NOW)],
        )
    yield _file_target("files trials.csv", "trials.csv", _TRIALS.encode(), lambda path: read_trial_tables([path]))
    scenario = read_shipped_text("ten").encode()
    yield _file_target(
        "files scenario.toml", "s.toml", scenario, lambda path: parse_scenario(read_scenario_file(path), path.name)
    )
    yield FuzzTarget(name="files mailbox", open=_open_mailbox)


def _open_mailbox(folder: Path) -> ReadInput:
    now = NOW
    requests = (
        ArmVenue(by="ada", asked_at=now, venue="manifold", account="a", config="c", until=now, per_order=1.0),
        HaltSubmissions(by="ada", asked_at=now, reason="quiet", venue="manifold"),
        AnswerApproval(by="ada", asked_at=now, approval="x", approved=True),
        ClosePositions(
            by="ada", asked_at=now, targets=(PositionToClose(venue="manifold", contract="m1", leg=ContractSide.YES),)
        ),
    )
    samples = []
    for request in requests:
        path = send_request(folder, request, at=now)
        samples.append(path.read_bytes())
        path.unlink()
    place = folder / "requests" / "one.json"

    async def read(mutate: Mutate) -> object:
        found = []
        for sample in samples:
            place.write_bytes(mutate(sample))
            place.chmod(0o600)
            found += [waiting.read() for waiting in pending_requests(folder)]
        return found

    return read
