"""Transcripts as text and page: what plugins tell, and steps where they tell nothing. Hostile words stay words."""

import re
from dataclasses import replace
from html.parser import HTMLParser

from bot.cli.transcript import ForecastTranscript, describe_steps, render_page, transcript_lines
from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.forecasts import TranscriptEntry, TranscriptFigure, TrialTranscript
from bot.core.plain_text import replace_invisible
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import CrowdForecast
from tests.recorded_explanations import ASKED, MADE_AT, recorded_explanation

EVIL = '<script>alert("x")</script><img src=x onerror=alert(1)> & \x1b[31m \u202e "quoted"'
ENTRY = TranscriptEntry(title="1. vote: juror_1", text="The tide.", speaker="juror_1", belief="60 %", probability=0.6)


def told(*trials: TrialTranscript, probability: float = 0.6, **changes: object) -> ForecastTranscript:
    asked = replace(ASKED, **changes)  # type: ignore[arg-type]  # fields of the question
    found = recorded_explanation(forecaster="court", question=asked, probability=probability)
    return ForecastTranscript(trace=found.trace, trials=dict(enumerate(trials, 1)))


def text(found: ForecastTranscript, *, full: bool = False) -> str:
    return "\n".join(transcript_lines(found, full))


class Reader(HTMLParser):
    """Reads a page as a browser would: its elements, their attributes, and its words."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words += data


def test_nothing_that_was_said_becomes_markup() -> None:
    hostile = TranscriptEntry(title=EVIL, text=EVIL, detail=EVIL, speaker=EVIL, remarks=(EVIL,), belief=EVIL)
    trial = TrialTranscript(
        entries=(hostile,), figures=(TranscriptFigure(name=EVIL, value=EVIL, is_probability=True),), report=EVIL
    )
    page = render_page([told(trial, title=EVIL)], full=True)
    reader = Reader()
    reader.feed(page)
    assert reader.tags <= {"html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "article", "p", "table",
                           "tr", "th", "td", "meter"}  # fmt: skip
    assert reader.attributes <= {"lang", "charset", "http-equiv", "name", "content", "class", "min", "max", "value"}
    assert reader.words.count('<script>alert("x")</script><img src=x onerror=alert(1)> &') == 10
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_a_page_begins_with_the_answer_and_the_crowd_s_and_draws_each_probability() -> None:
    figures = (
        TranscriptFigure(name="mean", value=0.5, is_probability=True),
        TranscriptFigure(name="spread", value=0.25),
        TranscriptFigure(name="settled", value="1 of 6"),
    )
    crowd = CrowdForecast(prediction=BinaryPrediction(0.4), at=MADE_AT)
    found = told(
        TrialTranscript(entries=(ENTRY,), figures=figures), probability=0.125, criteria="Yes, if it did.", crowd=crowd
    )
    page = render_page([found, found])
    assert re.findall(r'<meter min="0" max="1" value="([0-9.]+)">', page) == ["0.6000", "0.5000"] * 2
    assert "court: outcome 12.5%, the crowd 40.0 %" in page
    assert "Yes, if it did." in page
    assert "<table" not in render_page([told(TrialTranscript(entries=(ENTRY,)))])


def test_the_text_has_details_only_where_all_is_asked_for() -> None:
    entry = replace(ENTRY, detail="all of it", remarks=("kept",))
    found = told(
        TrialTranscript(entries=(entry,), figures=(TranscriptFigure(name="mean", value=0.5),), report="Run report")
    )
    shown = text(found)
    for line in ("-- 1. vote: juror_1", "   ! kept", "The tide.", "   belief: 60 %", "Run report"):
        assert line in shown.splitlines()
    assert "all of it" not in shown
    assert "all of it" in text(found, full=True)


def test_a_forecaster_that_tells_nothing_is_told_step_by_step() -> None:
    step = Step(
        action=StepAction(name="web_search", arguments={"query": f"rain {EVIL}"}),
        observation=StepObservation(text="search_1: no results."),
        belief=Belief(predictions={"outcome": BinaryPrediction(0.3)}, reason="so"),
    )
    trial = describe_steps([step], BinaryShape())
    (entry,) = trial.entries
    assert entry.title.startswith("1. web_search(query=rain <script>")
    assert (entry.text, entry.detail, entry.probability) == ("", "search_1: no results.", 0.3)
    assert entry.belief.endswith("; so")
    assert "\x1b" not in replace_invisible(text(told(trial), full=True))
