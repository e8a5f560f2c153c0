"""Records of the venue, also broken ones, as questions."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import BinaryPrediction, BinaryShape, ChoicePrediction, ChoiceShape, CurveShape, MalformedDataError
from plugins.manifold.api_records import ManifoldMarketRecord, from_milliseconds, parse_record
from plugins.manifold.market_parser import GRID_POINTS, market_background, market_objection, parse_market
from tests.plugins.manifold.api_replies import NOW, answer, at, binary, choice, numeric

# The fields of docs/facts/manifold.md#market-objects that may be missing.
OPTIONAL = (
    *("creatorId", "mechanism", "pool", "p", "probability", "createdTime", "closeTime", "isResolved", "volume"),
    *("token", "someNewField"),
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def only(record: Any) -> Any:
    (question,) = parse_market(record, now=NOW).questions
    return question


@pytest.mark.parametrize("missing", OPTIONAL)
def test_mf_t1_every_optional_field_may_be_missing(missing: str) -> None:
    record = binary()
    del record[missing]
    assert only(record).shape == BinaryShape()
    assert only(binary(**{missing: None})).shape == BinaryShape()


def test_the_error_of_a_market_with_an_endless_or_broken_id_is_a_line_that_can_be_printed() -> None:
    with pytest.raises(MalformedDataError) as refused:
        parse_market(binary(id="[" * 30_000, question=None), now=NOW)
    assert len(str(refused.value)) < 200
    with pytest.raises(MalformedDataError, match="market a\ufffd:"):
        parse_market(binary(id="a\ud800", question=None), now=NOW)


def test_mf_t1_unknown_fields_and_words_are_kept_as_text() -> None:
    question = only(binary(mechanism="cpmm-9", token="GOLD", visibility={"a": [1]}))  # noqa: S106 - a currency
    assert (question.facts["mechanism"], question.facts["token"]) == ("cpmm-9", "GOLD")
    market = parse_record(ManifoldMarketRecord, binary(outcomeType="SONG"), "it")
    assert "SONG" in (market_objection(market, NOW, timedelta()) or "")
    assert parse_market(binary(outcomeType="SONG"), now=NOW).questions == []


@pytest.mark.parametrize("record", [None, [], "market", {}, {"id": "m1"}, binary(id=""), binary(question=None)])
def test_mf_t2_what_is_no_market_is_a_contract_error(record: Any) -> None:
    with pytest.raises(MalformedDataError):
        parse_market(record, now=NOW)


@pytest.mark.parametrize(
    "changes", [{"probability": "0.5"}, {"closeTime": "soon"}, {"closeTime": True}, {"probability": 1.5}, {"pool": 1}]
)
def test_mf_t2_a_malformed_market_is_named_in_the_complaint(changes: dict[str, Any]) -> None:
    with pytest.raises(MalformedDataError, match="market m1"):
        parse_market(binary(**changes), now=NOW)


def test_mf_t2_a_bad_answer_costs_only_itself_where_answers_are_independent() -> None:
    record = choice(answer("a", 0.5), {"id": "bad", "text": {}}, answer("c", 0.2), linked=False)
    record["answers"].append(17)
    unpacked = parse_market(record, now=NOW)
    assert [question.ref.key for question in unpacked.questions] == ["m2/a", "m2/c"]
    assert len(unpacked.complaints) == 2
    assert "answer bad of market m2" in unpacked.complaints[0]
    with pytest.raises(MalformedDataError):
        parse_market(choice(answer("a", 0.5), {"id": "bad", "text": {}}), now=NOW)


@pytest.mark.parametrize("number", [int, float])
def test_mf_t3_times_are_milliseconds_and_numbers_may_be_whole_or_not(number: type[int] | type[float]) -> None:
    closes = NOW + timedelta(days=3)
    record = binary(closeTime=number(at(closes)), pool={"YES": number(10), "NO": 10}, p=1, volume=number(3))
    question = only(record)
    assert question.closes_at == closes
    assert question.targets[0].resolves_at == closes
    assert question.crowd is not None
    assert question.crowd.explanation == "pool YES 10, NO 10, p 1"


@pytest.mark.parametrize("closes", [9e15, 1e300, 253_402_300_800_000])
def test_a_market_that_closes_beyond_all_years_is_read(closes: float) -> None:
    assert only(binary(closeTime=closes)).closes_at > datetime(8999, 1, 1, tzinfo=UTC)
    assert from_milliseconds(-1e300) == datetime(1970, 1, 1, tzinfo=UTC)


def test_a_market_that_was_made_after_it_closes_has_no_opening() -> None:
    assert only(binary(createdTime=at(NOW + timedelta(days=40)))).opens_at is None


def test_mf_t4_a_description_may_be_a_text_or_a_document() -> None:
    document = {
        "type": "doc",
        "content": [
            {"type": "paragraph", "content": [{"type": "text", "text": "Rain "}, {"type": "text", "text": "counts."}]},
            {"type": "paragraph"},
            {"type": "heading", "content": [{"type": "text", "text": "Snow"}]},
        ],
    }
    assert only(binary(description="Rain counts.")).background == "Rain counts."
    assert only(binary(description=document)).background == "Rain counts.\n\nSnow"
    # Where the venue gives the text itself, that is it.
    assert only(binary(description=document, textDescription="The text.")).background == "The text."


@given(ANYTHING)
def test_mf_t4_no_description_fails(description: Any) -> None:
    assert isinstance(market_background(parse_record(ManifoldMarketRecord, binary(description=description), "it")), str)


@given(
    st.dictionaries(st.sampled_from([*binary(), "answers", "textDescription", "groupSlugs", "isResolved"]), ANYTHING)
)
def test_mf_t2_a_record_gives_questions_or_a_contract_error(changes: dict[str, Any]) -> None:
    for record in (binary(**changes), choice(answer("a", 0.5), answer("b", 0.5), **changes)):
        try:
            unpacked = parse_market(record, now=NOW)
        except MalformedDataError:
            continue
        for question in unpacked.questions:
            assert question.ref.venue == "manifold"
            str(question).encode()


def test_texts_without_a_utf8_form_are_made_to_have_one() -> None:
    question = only(binary(question="Rain \ud83c?", textDescription="\udfff", groupSlugs=["\ud800"], url="u\ud800"))
    for text in (question.title, question.background, question.category, question.url, *question.tags):
        text.encode()


def test_mf_f3_one_winner_is_a_choice_with_the_prices_as_probabilities() -> None:
    question = only(choice(answer("b", 0.3), answer("a", 0.5), answer("c", 0.19)))
    assert question.shape == ChoiceShape(options=("Option a", "Option b", "Option c"))
    assert question.crowd is not None
    assert isinstance(question.crowd.prediction, ChoicePrediction)
    assert question.crowd.prediction.probabilities["Option a"] == pytest.approx(0.5 / 0.99)


def test_answers_of_the_same_text_are_told_apart() -> None:
    question = only(choice(answer("a", 0.5, text="Yes"), answer("b", 0.5, text="Yes")))
    assert question.shape == ChoiceShape(options=("Yes", "Yes (2)"))


def test_a_choice_of_fewer_than_two_answers_is_none() -> None:
    unpacked = parse_market(choice(answer("a", 0.9)), now=NOW)
    assert (unpacked.questions, unpacked.skipped) == ([], ["with fewer than two answers"])


@pytest.mark.parametrize(("kind", "word"), [("MULTI_NUMERIC", "a range"), ("DATE", "a date")])
def test_thresholds_are_questions_and_buckets_are_options(kind: str, word: str) -> None:
    steps = [answer("a", 0.9, text="10", midpoint=10), answer("b", 0.4, text="20", midpoint=20.5)]
    first, second = parse_market(choice(*steps, linked=False, outcomeType=kind), now=NOW).questions
    assert [first.crowd, second.crowd] != [None, None]
    assert (first.facts["midpoint"], second.facts["midpoint"]) == ("10", "20.5")
    assert word in first.criteria
    buckets = only(choice(*steps, outcomeType=kind))
    assert buckets.shape == ChoiceShape(options=("10", "20"))


def test_mf_f2_resolved_answers_are_skipped_and_counted() -> None:
    record = choice(answer("a", 0.5, resolution="YES"), answer("b", 0.5), linked=False)
    unpacked = parse_market(record, now=NOW)
    assert [question.ref.key for question in unpacked.questions] == ["m2/b"]
    assert unpacked.skipped == ["an answer that is resolved"]


def test_a_number_has_no_crowd_since_a_price_tells_no_distribution() -> None:
    question = only(numeric())
    assert isinstance(question.shape, CurveShape)
    assert len(question.shape.grid) == GRID_POINTS
    assert question.shape.grid[100] == pytest.approx(50.0)
    assert question.crowd is None


@pytest.mark.parametrize("ends", [{"min": None}, {"min": 100}, {"max": float("inf")}])
def test_a_number_without_its_ends_is_a_contract_error(ends: dict[str, Any]) -> None:
    with pytest.raises(MalformedDataError):
        parse_market(numeric(**ends), now=NOW)


def test_a_crowd_is_the_price() -> None:
    question = only(binary(probability=0.37))
    assert question.crowd is not None
    assert question.crowd.prediction == BinaryPrediction(0.37)
    assert only(binary(probability=None)).crowd is None
