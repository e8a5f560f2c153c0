"""Secrets of every issuer in every form, given to each place where text leaves: logs, ledger, prompts, reports, errors.

What a place wrote is read with another library's decoder, and no piece of a form that is worth 15 characters of its
secret is found in it.
"""

import asyncio
import html
import io
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET

import pytest
import structlog
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bot.cli.command_setup import _configure_logging
from bot.cli.main import _report_error
from bot.cli.options import CommandInvocation
from bot.cli.output.belief_plot import draw_beliefs
from bot.cli.output.console import print_json, stdout_console
from bot.cli.output.safe_output import redacted_streams
from bot.cli.transcript import ForecastTranscript, render_page
from bot.config.schema import LogFormat, LogSection
from bot.core import redaction
from bot.core.alerts import plain_message_text, plain_subject
from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.errors import ConfigError, describe_error, describe_error_with_type
from bot.core.forecasts import TranscriptEntry, TrialTranscript
from bot.core.language_models import Message, MessageRole, Prompt, ToolCall
from bot.core.predictions import BinaryPrediction
from bot.core.redaction import REDACTION_MARK, register_secrets
from bot.llm.gateway import PromptRedactor
from bot.store.ledger import BALLAST_FILE
from bot.testing.clock import FakeClock
from bot.testing.research import FakeDataSource
from tests.acceptance.test_secrets import contents
from tests.blank_ledger import open_blank_ledger
from tests.issued_secrets import ESCAPED_FORMS, ISSUED_SECRETS, PACKED_FORMS
from tests.recorded_explanations import ASKED, recorded_explanation
from tests.unit.forecasting.research_fixture import CUTOFF, ResearchFixture, level

FORMS = {**ESCAPED_FORMS, **PACKED_FORMS}
# Enough of a secret to be found in whatever stands around it.
PIECE = 15


issued = st.sampled_from([*ISSUED_SECRETS]).flatmap(ISSUED_SECRETS.__getitem__)


def repeat_secret(secret: str) -> dict[str, str]:
    """Return the forms of a secret by their names."""
    return {form: make(secret) for form, make in FORMS.items()}


def left_of(texts: Mapping[str, str], secret: str, written: str) -> set[str]:
    """Return the forms of which a piece worth 15 characters is left in what was written."""
    length = {name: PIECE * max(1, len(text) // len(secret)) for name, text in texts.items()}
    return {
        name
        for name, text in texts.items()
        if any(text[at : at + length[name]] in written for at in range(max(1, len(text) - length[name] + 1)))
    }


@pytest.fixture(autouse=True)
def _logging_of_one_test() -> Iterator[None]:
    factory, root = logging.getLogRecordFactory(), logging.getLogger()
    handlers, lowest = [*root.handlers], root.level
    root.handlers[:] = []
    yield
    structlog.reset_defaults()
    logging.setLogRecordFactory(factory)
    root.handlers[:] = handlers
    root.setLevel(lowest)


def test_there_are_at_least_forty_forms_and_each_issuer_s_secret_is_long_enough() -> None:
    assert len(FORMS) >= 40


@settings(max_examples=15)
@given(issued, st.sampled_from(LogFormat))
def test_no_log_holds_a_secret(secret: str, form: LogFormat) -> None:
    texts = repeat_secret(secret)
    out = io.StringIO()
    with redaction.temporary_secrets(), redirect_stderr(out):
        register_secrets(secret)
        logging.getLogger().handlers[:] = []
        _configure_logging(LogSection(format=form), CommandInvocation(), logging.DEBUG)
        for text in texts.values():
            structlog.get_logger().info("answered", said=f"it was {text}!", many=[text])
            logging.getLogger("library").warning("sent %s!", text)
            try:
                sys.modules[text]
            except KeyError:
                logging.getLogger("library").exception("failed")
                structlog.get_logger().exception("failed")
    assert left_of(texts, secret, out.getvalue()) == set()
    as_json = [json.loads(line) for line in out.getvalue().splitlines() if line.startswith("{")]
    assert left_of(texts, secret, "\n".join(str(value) for line in as_json for value in line.values())) == set()
    assert out.getvalue().count(REDACTION_MARK) >= len(texts)


@settings(max_examples=4)
@given(issued)
def test_no_ledger_holds_a_secret(secret: str) -> None:
    texts = repeat_secret(secret)

    async def write(path: Path) -> None:
        async with open_blank_ledger(path, now=CUTOFF) as ledger:
            asked = [
                replace(
                    ASKED,
                    title=text,
                    background=f"see {text} there",
                    facts={"said": text},
                    ref=replace(ASKED.ref, key=f"q{number}"),
                )
                for number, text in enumerate(texts.values())
            ]
            await ledger.questions.record(asked, seen_at=CUTOFF)
            for text in texts.values():
                await ledger.documents.put(f"a page of {text}!".encode(), "text/plain")
                await ledger.events.add_event("answered", f"it was {text}", at=CUTOFF)

    with TemporaryDirectory() as folder, redaction.temporary_secrets():
        register_secrets(secret)
        path = Path(folder) / "ledger.sqlite"
        asyncio.run(write(path))
        files = [file for file in path.parent.iterdir() if file.is_file() and file.name != BALLAST_FILE]
        written = "\n".join(content.decode("utf-8", "replace") for file in files for content in contents(file))
    assert left_of(texts, secret, written) == set()
    # Pages that are the same without the secret are kept once.
    assert f"a page of {REDACTION_MARK}!" in written
    assert written.count(REDACTION_MARK) >= 3 * len(texts)


@given(issued)
@example("pGrC]b.%cdZ]N(<\\7I+3")
def test_no_prompt_holds_a_secret(secret: str) -> None:
    texts = repeat_secret(secret)
    messages = tuple(
        Message(
            speaker=MessageRole.USER,
            text=f"Read {text} there.",
            calls=(ToolCall(id="1", name="t", arguments=json.dumps({"q": text})),),
        )
        for text in texts.values()
    )
    with redaction.temporary_secrets():
        register_secrets(secret)
        sent = PromptRedactor().redact(Prompt(messages=messages, handover=messages))
    said = [part for one in (*sent.messages, *sent.handover) for part in (one.text, one.calls[0].arguments)]
    assert left_of(texts, secret, "\n".join(said)) == set()
    assert all(REDACTION_MARK in part for part in said)


@settings(max_examples=5)
@given(issued)
def test_no_search_engine_and_no_data_source_is_asked_for_a_secret(secret: str) -> None:
    texts = repeat_secret(secret)
    asked: list[str] = []

    async def search(path: Path) -> None:
        async with open_blank_ledger(path, now=CUTOFF) as ledger:
            research = ResearchFixture(ledger=ledger, clock=FakeClock(CUTOFF))
            source = FakeDataSource({"LEVEL": level()})
            research.add_data_source(source)
            trial = await research.open_trial()
            for text in texts.values():
                await trial.use_tool("web_search", {"query": f"about {text[:200]}"})
                await trial.use_tool("series_history", {"source": "tides", "name": f"{text[:200]}"})
            asked.extend(one.query for one in research.engine.searched)
            asked.extend(str(name) for name in source.asked)

    with TemporaryDirectory() as folder, redaction.temporary_secrets():
        register_secrets(secret)
        asyncio.run(search(Path(folder) / "ledger.sqlite"))
    assert len(asked) >= len(texts)
    assert left_of(texts, secret, "\n".join(asked)) == set()


@settings(max_examples=3)
@given(issued)
def test_no_report_holds_a_secret(secret: str) -> None:
    pytest.importorskip("matplotlib")
    texts = repeat_secret(secret)
    half = Belief(predictions={"outcome": BinaryPrediction(0.5)})
    step = Step(action=StepAction(name="think"), observation=StepObservation(), belief=half)
    pages, plots = [], []
    with TemporaryDirectory() as folder, redaction.temporary_secrets():
        register_secrets(secret)
        for text in texts.values():
            found = recorded_explanation([step], forecaster="plain", question=replace(ASKED, title=f"Is {text} lit?"))
            entry = TranscriptEntry(title=text, text=text, detail=text, speaker=text, remarks=(text,), belief=text)
            pages.append(
                render_page([ForecastTranscript(trace=found.trace, trials={1: TrialTranscript(entries=(entry,))})])
            )
        for text in [*texts.values()][::12]:
            found = recorded_explanation([step], forecaster="plain", question=replace(ASKED, title=f"Is {text} lit?"))
            draw_beliefs(found.trace, Path(folder) / "plot.svg")
            plots.append((Path(folder) / "plot.svg").read_text())
    assert left_of(texts, secret, "\n".join([*pages, *map(html.unescape, pages)])) == set()
    drawn_texts = [text for plot in plots for text in ET.fromstring(plot).itertext()]  # noqa: S314 - our own file
    assert any(REDACTION_MARK in text for text in drawn_texts)
    assert left_of(texts, secret, "\n".join([*plots, *drawn_texts])) == set()


@settings(max_examples=15)
@given(issued)
def test_no_error_holds_a_secret(secret: str) -> None:
    texts = repeat_secret(secret)
    err = io.StringIO()
    with redaction.temporary_secrets(), redirect_stderr(err):
        register_secrets(secret)
        for text in texts.values():
            for error in (ConfigError(f"refused: {text}"), ValueError(text), KeyError(text)):
                err.write(describe_error(error) + "\n" + describe_error_with_type(error) + "\n")
                _report_error(error, CommandInvocation(debug=True))
    assert left_of(texts, secret, err.getvalue()) == set()


@settings(max_examples=15)
@given(issued)
def test_no_notification_holds_a_secret(secret: str) -> None:
    texts = repeat_secret(secret)
    with redaction.temporary_secrets():
        register_secrets(secret)
        sent = [
            write(f"the venue said {text}!") for text in texts.values() for write in (plain_subject, plain_message_text)
        ]
    assert left_of(texts, secret, "\n".join(sent)) == set()
    assert all(REDACTION_MARK in text for text in sent)


@given(issued, st.integers(min_value=1, max_value=40))
def test_stdout_written_in_chunks_holds_no_secret(secret: str, size: int) -> None:
    texts = repeat_secret(secret)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), redacted_streams():
        register_secrets(secret)
        print_json(texts)
        stdout_console().print("\n".join(texts.values()), soft_wrap=True)
        for stream in (sys.stdout, sys.stderr):
            stream.write("began ")
            for start in range(0, len(secret), size):
                stream.write(secret[start : start + size])
            stream.write(" ended\n")
    assert left_of(texts, secret, out.getvalue() + err.getvalue()) == set()
    assert out.getvalue().endswith(f"\nbegan {REDACTION_MARK} ended\n")
    assert err.getvalue() == f"began {REDACTION_MARK} ended\n"


@given(st.sampled_from([*ISSUED_SECRETS]).flatmap(ISSUED_SECRETS.__getitem__), st.data())
def test_of_a_secret_in_two_log_calls_no_more_than_seven_characters_are_left(secret: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(min_value=1, max_value=len(secret) - 1))
    out = io.StringIO()
    with redaction.temporary_secrets(), redirect_stderr(out):
        register_secrets(secret)
        logging.getLogger().handlers[:] = []
        _configure_logging(LogSection(), CommandInvocation(), logging.DEBUG)
        for part in (secret[:cut], secret[cut:]):
            logging.getLogger("library").warning("%s", part)
            structlog.get_logger().info(part)
    pieces = {secret[at : at + 8] for at in range(len(secret) - 7)}
    plain = {piece for piece in pieces if piece.replace(" ", "").replace("-", "").isalpha()}
    assert [piece for piece in pieces - plain if piece in out.getvalue()] == []
