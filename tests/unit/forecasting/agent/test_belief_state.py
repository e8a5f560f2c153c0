"""What a model believes is merged with care: nothing is lost that was not taken back, nothing invalid gets in."""

from typing import Any

import pytest

from bot.core.predictions import BinaryPrediction
from bot.forecasting.agent.answer_schema import AnswerFormat, AnswerSettings, create_answer_format
from bot.forecasting.agent.belief_state import (
    MAX_EVIDENCE_ITEMS,
    BeliefState,
    apply_belief_update,
    belief_schema,
    format_belief_state,
)
from tests.plugins.blf.cases import CHOICE, CURVE, DATE_CURVE, believing, question

BALLOT = create_answer_format(question(), AnswerSettings(), percent=False)
START = BeliefState(predictions={"outcome": BinaryPrediction(0.5)})


def after(state: BeliefState, update: Any, ballot: AnswerFormat = BALLOT) -> BeliefState:
    return apply_belief_update(state, update, ballot, margin=0.02).state


def item(text: str, source: str = "search_1_result_1") -> dict[str, str]:
    return {"text": text, "source": source}


@pytest.mark.parametrize(
    ("said", "kept"), [(0.0, 0.02), (0.001, 0.02), (0.3, 0.3), (1, 0.98), ("0.4", 0.4), ("40%", 0.4)]
)
def test_a_probability_is_kept_from_certainty(said: Any, kept: float) -> None:
    assert after(START, believing(said)).predictions == {"outcome": BinaryPrediction(kept)}


@pytest.mark.parametrize(
    "update",
    [
        None,
        "0.7",
        [],
        {},
        {"confidence": "high"},
        believing(None),
        {"probability": True},
        believing(-0.1),
        believing(70),
        believing("likely"),
        believing("nan"),
        believing(float("inf")),
        believing(10**400),
        believing([0.1, 0.2]),
        believing({"tomorrow": 0.5}),
    ],
)
def test_an_update_without_a_valid_probability_keeps_the_whole_old_belief_and_says_why(update: Any) -> None:
    before = after(START, believing(0.8, evidence_for=[item("it sailed")]))
    merge = apply_belief_update(before, update, BALLOT, margin=0.02)
    assert merge.state == before
    assert merge.note.startswith("belief kept: ")


def test_evidence_accumulates_and_the_same_is_not_added_twice() -> None:
    state = after(START, believing(0.6, evidence_for=[item("it sailed")], evidence_against=[item("storm ahead")]))
    state = after(state, believing(0.7, evidence_for=[item("It sailed"), item("seen at sea")]))
    assert [found.text for found in state.evidence_for] == ["it sailed", "seen at sea"]
    assert [found.text for found in state.evidence_against] == ["storm ahead"]
    assert len({found.name for found in (*state.evidence_for, *state.evidence_against)}) == 3


def test_only_evidence_that_is_named_as_contradicted_is_taken_back() -> None:
    state = after(START, believing(0.6, evidence_for=[item("it sailed"), item("seen at sea")]))
    gone, kept = state.evidence_for
    state = after(state, believing(0.4, contradicted=[gone.name.lower(), "F99"], evidence_for=[item("in harbour")]))
    assert [found.text for found in state.evidence_for] == ["seen at sea", "in harbour"]
    assert gone.name not in {found.name for found in state.evidence_for}
    assert state.evidence_for[0] == kept


def test_evidence_has_an_end() -> None:
    state = START
    for step in range(30):
        state = after(state, believing(0.6, evidence_for=[item(f"{step} {number}") for number in range(9)]))
    assert len(state.evidence_for) == MAX_EVIDENCE_ITEMS


def test_what_is_not_said_again_stays() -> None:
    state = after(START, believing(0.6, base_rate_anchor="one in two", key_uncertainties=["the crew"]))
    state = after(state, {"probability": 0.7})
    assert (state.anchor, state.open_questions, str(state.confidence)) == ("one in two", ("the crew",), "medium")
    assert state.reason == ""


def test_an_update_without_reason_or_confidence_counts_and_is_noted() -> None:
    merge = apply_belief_update(START, {"probability": 0.7}, BALLOT, margin=0.02)
    assert merge.state.predictions == {"outcome": BinaryPrediction(0.7)}
    assert "without a reason" in merge.note
    assert "no confidence" in merge.note


def test_the_source_of_evidence_is_kept_and_a_missing_one_is_said_to_be_missing() -> None:
    state = after(
        START, believing(0.6, evidence_for=["bare words", {"text": "cited", "source": "https://example.org"}])
    )
    assert [found.source for found in state.belief.evidence_for] == ["source not stated", "https://example.org"]


def test_no_text_of_a_model_holds_what_a_file_cannot() -> None:
    state = after(START, believing(0.6, evidence_for=[item("a\ud800b\x00c")], base_rate_anchor="\udfff"))
    assert state.evidence_for[0].text == "abc"
    assert state.anchor == ""


def test_the_printed_state_names_what_can_be_taken_back() -> None:
    state = after(START, believing(0.6, evidence_for=[item("it sailed")], searches_tried=["ship"]))
    printed = format_belief_state(state, BALLOT)
    assert f"{state.evidence_for[0].name} [search_1_result_1] it sailed" in printed
    assert "searches so far: ship" in printed


def test_the_reason_stands_before_the_number_in_the_schema() -> None:
    properties: Any = belief_schema(BALLOT, 0.02)["properties"]
    names = [*properties]
    assert names.index("update_reasoning") < names.index("probability")
    bounds = {key: value for key, value in properties["probability"].items() if key != "description"}
    assert bounds == {"type": "number", "minimum": 0.02, "maximum": 0.98}


@pytest.mark.parametrize("shape", [None, CHOICE, CURVE, DATE_CURVE])
@pytest.mark.parametrize("targets", [("outcome",), ("2026-02-01", "2026-03-01")])
@pytest.mark.parametrize("percent", [False, True])
def test_every_property_of_the_schema_says_what_it_is(shape: Any, targets: tuple[str, ...], percent: Any) -> None:
    ballot = create_answer_format(question(shape, targets=targets), AnswerSettings(), percent=percent)
    properties: Any = belief_schema(ballot, 0.02)["properties"]
    assert [name for name, schema in properties.items() if not schema.get("description")] == []
    assert "yes" not in properties["evidence_for"]["description"] or shape is None
    item = properties["evidence_for"]["items"]["properties"]
    assert all(part["description"] for part in item.values())


def test_evidence_and_open_questions_without_words_are_none() -> None:
    said = believing(0.4, evidence_for=[{"source": "x"}, None, "a fact"], key_uncertainties=[None, "", "the crew"])
    state = after(START, said)
    assert [item.text for item in state.evidence_for] == ["a fact"]
    assert state.open_questions == ("the crew",)
