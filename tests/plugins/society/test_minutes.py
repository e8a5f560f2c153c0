"""What is read back from the record: transcripts, pages, comparisons and scores. Hostile words stay words."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from plugins.society import minutes
from plugins.society.page import page

EVIL = '<script>alert("x")</script><img src=x onerror=alert(1)> & \x1b[31m \u202e "quoted"'


def step(name: str = "message", text: str = "", **arguments: Any) -> dict[str, Any]:
    belief = {"predictions": {"outcome": {"probability": 0.6, "kind": "binary"}}, "reason": "so"}
    remarks = arguments.pop("remarks", None)
    return {
        "action": {"name": name, "arguments": arguments},
        "observation": {"text": text},
        "belief": belief,
        **({} if remarks is None else {"remarks": remarks}),
    }


def counted(*votes: float, judge: float = 0.5) -> dict[str, Any]:
    mean = sum(votes) / len(votes)
    spread = (sum((vote - mean) ** 2 for vote in votes) / len(votes)) ** 0.5
    return {
        "votes": {f"juror_{number}": {"outcome": vote} for number, vote in enumerate(votes, 1)},
        "mean": {"outcome": mean},
        "spread": {"outcome": spread},
        "judge": {"outcome": judge},
    }


def record(
    *steps: dict[str, Any], identity: str = "aa11", outcome: float | None = None, p: float = 0.6
) -> dict[str, Any]:
    told = {} if outcome is None else {"outcome": {"outcome": {"value": outcome, "kind": "happened"}}}
    return {
        "id": identity,
        "state": "done",
        "question": {"title": f"Will it? {EVIL}"},
        "forecast": {
            "forecaster": "court",
            "made_at": "2026-01-01",
            "predictions": {"outcome": {"probability": p, "kind": "binary"}},
        },
        "trials": [{"number": 1, "steps": list(steps)}],
        "outcomes": told,
    }


def said(text: str = EVIL, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"step": 3, "from": "judge", "to": "juror_1", "label": EVIL, "kind": "vote"}
    return step(text=text, **told, **more)


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
    told = page(record(said(remarks=[EVIL]), step("tally", tally=counted(0.6, 0.8))))
    reader = Reader()
    reader.feed(told)
    assert reader.tags <= {"html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "article", "p", "table",
                           "tr", "th", "td", "meter"}  # fmt: skip
    assert reader.attributes <= {"lang", "charset", "http-equiv", "name", "content", "class", "min", "max", "value"}
    assert reader.words.count('<script>alert("x")</script><img src=x onerror=alert(1)> &') == 5
    assert "\x1b" not in told
    assert "\u202e" not in told


def test_a_page_begins_with_the_answer_beside_the_crowd_s_and_draws_each_chance() -> None:
    asked = record(said(), step("tally", tally=counted(0.25, 0.75, judge=0.5)), p=0.125)
    crowd = {"prediction": {"probability": 0.4}}
    asked["question"] |= {"shape": {"kind": "binary"}, "criteria": "Yes, if it did.", "crowd": crowd}
    drawn = [float(found) for found in re.findall(r'<meter min="0" max="1" value="([0-9.]+)">', page(asked))]
    # Two beliefs of 60 %, the two jurors, their mean, and the judge; the spread is no chance.
    assert drawn == [0.6, 0.6, 0.25, 0.75, 0.5, 0.5]
    assert "court says outcome 12.5 %, the crowd 40.0 %" in page(asked)
    assert "Yes, if it did." in page(asked)


def test_numbers_that_are_no_chances_have_no_bar_and_no_count_has_no_table() -> None:
    tally = {"votes": {"juror_1": {"outcome": {"p5": 0.25, "p95": 0.75}}}}
    asked = record(step("tally", tally=tally))
    asked["question"] |= {"shape": {"kind": "curve"}}
    assert re.findall("<meter[^>]*>", page(asked)) == ['<meter min="0" max="1" value="0.6000">']
    assert "0.25" in page(asked)
    assert "<table" not in page(record(said()))


def test_spaces_of_other_widths_are_spaces_and_joined_pictures_stay_so() -> None:
    told = "62\u00a0% of 10\u202f000 \U0001f469\u200d\U0001f680"
    assert minutes.seen(told) == "62 % of 10 000 \U0001f469\u200d\U0001f680"


def test_a_transcript_tells_who_said_what_and_moves_no_cursor() -> None:
    told = minutes.transcript(record(said("62 %. The tide.", remarks=["juror_2 said nothing: silence"])))
    assert "(juror_1), asked by judge" in told
    assert "62 %. The tide." in told
    assert "! juror_2 said nothing: silence" in told
    assert "believed: outcome 60.0 %; so" in told
    assert "\x1b" not in told


def test_shares_of_options_are_told_in_percent() -> None:
    options = step(text="x")
    options["belief"] = {"predictions": {"outcome": {"probabilities": {"red": 0.25, "blue": 0.75}}}, "reason": "so"}
    (entry,) = minutes.entries({"steps": [options]})
    assert entry.belief == "outcome red 25.0 %, blue 75.0 %; so"


def test_moves_that_share_a_step_are_told_one_by_one_and_silent_ones_kept_back() -> None:
    several = step(
        "proceedings",
        moves=[
            {"name": "web_search", "arguments": {"step": 1, "agent": "head"}, "text": "found"},
            {
                "name": "message",
                "arguments": {"step": 2, "to": "judge", "from": "head", "silent": True},
                "text": "hush",
            },
        ],
    )
    first, second = minutes.entries({"steps": [several]})
    assert (first.title, first.text, first.belief) == ("1. web search, by head", "found", "")
    assert second.text == "(kept out of the transcript)"
    assert second.belief


def test_two_trials_stand_side_by_side_with_what_was_changed() -> None:
    first = record(said("A"), step("tally", tally=counted(0.6, 0.8)), p=0.7)
    second = record(
        said("B", remarks=["intervention: variables rules = x"]),
        step("tally", tally=counted(0.2, 0.8)),
        identity="bb22",
        p=0.5,
    )
    lines = [" ".join(line.split()) for line in minutes.compared(first, second).splitlines()]
    assert "B intervention: variables rules = x" in lines
    assert "juror_1 0.6 0.2 -0.4" in lines
    assert "juror_2 0.8 0.8 +0" in lines
    assert "mean 0.7 0.5 -0.2" in lines
    assert "spread 0.1 0.3 +0.2" in lines
    assert "forecast outcome 0.7 0.5 -0.2" in lines
    assert any(line.startswith("first said otherwise: 3. message") for line in lines)
    assert "every word is the same" in minutes.compared(first, first)
    assert "only one of them has this trial" in minutes.compared(first, {**first, "trials": []})


def test_of_options_and_dates_every_part_is_a_row() -> None:
    tally = {"votes": {"juror_1": {"a": {"red": 0.3}, "b": {"red": 0.4}}}, "mean": {"a": {"p50": "2026-01-02"}}}
    assert minutes.rows(tally) == {"juror_1 a red": 0.3, "juror_1 b red": 0.4, "mean p50": "2026-01-02"}


def test_jurors_and_aggregates_are_scored_where_an_outcome_is_known() -> None:
    first = record(step("tally", tally=counted(0.6, 0.8, judge=0.9)), outcome=1.0)
    second = record(step("tally", tally=counted(0.2, 0.6, judge=0.5)), outcome=0.0)
    rows = {
        line.split()[0]: line.split()[1:] for line in minutes.scored([first, second, record(said())]).splitlines()[1:]
    }
    # By hand: juror_1 (0.16 + 0.04) / 2, juror_2 (0.04 + 0.36) / 2, mean (0.09 + 0.16) / 2, judge (0.01 + 0.25) / 2.
    assert {name: row[:2] for name, row in rows.items() if name != "correlation"} == {
        "juror_1": ["2", "0.1000"],
        "juror_2": ["2", "0.2000"],
        "mean": ["2", "0.1250"],
        "judge": ["2", "0.1300"],
    }
    assert rows["juror_1"][2:] == ["0.400", "0.500"]


@pytest.mark.parametrize(("wider", "told"), [(True, "1.00"), (False, "-1.00")])
def test_the_correlation_of_spread_and_error_has_the_right_sign(wider: bool, told: str) -> None:  # noqa: FBT001 - a case
    found = [
        record(step("tally", tally=counted(0.5 + shift - width, 0.5 + shift + width)), outcome=0.0)
        for shift, width in ((0.1, 0.1 if wider else 0.3), (0.2, 0.2), (0.3, 0.3 if wider else 0.1))
    ]
    assert minutes.scored(found).splitlines()[-1].endswith(f": {told}")


def test_nothing_decided_is_said_so() -> None:
    assert "nothing can be scored" in minutes.scored([record(said())])
    assert "too few trials" in minutes.scored([record(step("tally", tally=counted(0.6)), outcome=1.0)])
