from collections.abc import Callable
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import SINGLE_TARGET, BinaryOutcome, BinaryPrediction, MalformedDataError, QuestionRef
from plugins.forecastbench.file_format import due_date_of, question_ref
from plugins.forecastbench.file_parser import bare_question, parse_moment, parse_question_set, parse_resolution_set
from tests.plugins.forecastbench.records import market, question_file, resolution_file, row, series

DUE = date(2026, 3, 1)
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)
DEADLINE = datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC)


def test_a_market_question_has_one_target_and_the_frozen_price() -> None:
    (found,) = parse_question_set(question_file(market())).questions
    assert found.ref == QuestionRef("forecastbench", "2026-03-01/manifold/m1")
    assert (found.family, found.source, found.batch) == ("market", "manifold", "2026-03-01")
    assert (found.opens_at, found.closes_at, found.as_of) == (MIDNIGHT, DEADLINE, MIDNIGHT)
    assert [target.key for target in found.targets] == [SINGLE_TARGET]
    assert found.targets[0].resolves_at == datetime(2026, 4, 1, 17, tzinfo=UTC)
    assert found.crowd is not None
    assert found.crowd.prediction == BinaryPrediction(0.25)
    assert found.crowd.at == datetime(2026, 2, 19, tzinfo=UTC)


def test_a_dataset_question_has_one_target_per_date() -> None:
    (found,) = parse_question_set(question_file(series())).questions
    assert [(target.key, target.horizon_days) for target in found.targets] == [("2026-03-08", 7), ("2026-03-31", 30)]
    assert found.targets[0].resolves_at == datetime(2026, 3, 8, 23, 59, 59, tzinfo=UTC)
    assert found.family == "dataset"
    assert found.crowd is None


def test_place_holders_are_filled_and_remarks_leave_the_title() -> None:
    (found,) = parse_question_set(question_file(series())).questions
    assert found.title == "Will CPIX be up on the resolution date from 2026-03-01?"
    assert found.criteria == "If revised: no.\n\nResolves as the market does."


def test_facts_leave_out_what_is_not_there() -> None:
    asked, listed = parse_question_set(question_file(market(), series())).questions
    assert (asked.source_id, asked.market_closes_at) == ("m1", datetime(2026, 4, 1, 17, tzinfo=UTC))
    assert dict(asked.facts) == {
        "due_date": "2026-03-01",
        "freeze_value": "0.25",
        "freeze_explanation": "The price.",
        "freeze_at": "2026-02-19T00:00:00+00:00",
        "market_opens_at": "2026-01-05T00:00:00+00:00",  # published as a bare date
    }
    assert listed.market_closes_at is None
    assert set(listed.facts) == {"due_date", "freeze_value", "freeze_explanation", "freeze_at"}


@pytest.mark.parametrize(
    "key",
    ["background", "url", "resolution_criteria", "market_info_open_datetime", "market_info_close_datetime"],
)
def test_a_missing_text_is_borne(key: str) -> None:
    found = parse_question_set(question_file(market(**{key: "N/A"})))
    assert len(found.questions) == 1
    assert "N/A" not in repr(found.questions)
    assert found.complaints == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"freeze_datetime_value": "N/A"},
        {"freeze_datetime_value": "1.5"},
        {"freeze_datetime_value": "nan"},
        {"freeze_datetime": "N/A"},
    ],
)
def test_a_market_without_a_usable_price_is_kept_without_crowd(changes: dict[str, str]) -> None:
    found = parse_question_set(question_file(market(**changes)))
    assert found.questions[0].crowd is None
    assert "no crowd" in found.complaints[0]


def test_combination_questions_are_counted_and_skipped() -> None:
    found = parse_question_set(question_file(market(), market(id=["m1", "m2"])))
    assert (len(found.questions), found.combinations, found.complaints) == (1, 1, ())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"id": 7}, "not a text"),
        ({"id": ""}, "not a text"),
        ({"source": None}, "not a name"),
        ({"source": "a/b"}, "not a name"),
        ({"question": None}, "not a text"),
        ({"resolution_dates": None}, "not a list of dates"),
        ({"resolution_dates": []}, "no usable resolution date"),
        ({"resolution_dates": ["tomorrow"]}, "tomorrow"),
        ({"source": "fred", "resolution_dates": "N/A"}, "not a list of dates"),
        ({"market_info_close_datetime": "soon"}, "soon"),
    ],
)
def test_a_bad_record_is_put_aside_and_the_others_stay(changes: dict[str, object], reason: str) -> None:
    found = parse_question_set(question_file(market(id="good"), market(**changes), "no record at all"))
    assert [question.source_id for question in found.questions] == ["good"]
    assert len(found.complaints) == 2
    assert reason in found.complaints[0]


@pytest.mark.parametrize("key", ["background", "url", "resolution_criteria", "freeze_datetime_value_explanation"])
def test_a_record_without_a_text_that_no_forecast_needs_is_a_question(key: str) -> None:
    record = market()
    del record[key]
    found = parse_question_set(question_file(record))
    assert (len(found.questions), found.complaints) == (1, ())


def test_every_question_knows_how_many_of_its_round_could_not_be_read() -> None:
    unread = [market(id="bad", market_info_close_datetime="soon"), {"source": "fred"}, "no record"]
    [read] = parse_question_set(question_file(market(), *unread)).questions
    assert (read.facts["left_out_market"], read.facts["left_out_dataset"]) == ("1", "2")


@pytest.mark.parametrize("key", ["id", "source", "question", "resolution_dates"])
def test_a_record_without_a_documented_key_is_put_aside(key: str) -> None:
    record = market()
    del record[key]
    found = parse_question_set(question_file(record))
    assert found.questions == ()
    assert f"'{key}' is missing" in found.complaints[0]


def test_a_second_record_of_the_same_name_is_put_aside() -> None:
    found = parse_question_set(question_file(market(), market(question="Another?")))
    assert [question.title for question in found.questions] == ["Will it rain in Lysse?"]
    assert found.complaints == ("manifold/m1: is listed twice",)


def test_of_many_bad_records_the_first_are_told_and_the_others_counted() -> None:
    asked, known = parse_question_set(question_file(*range(250))), parse_resolution_set(resolution_file(*range(250)))
    for complaints in (asked.complaints, known.complaints):
        assert (len(complaints), complaints[100]) == (101, "150 more complaints")


@pytest.mark.parametrize("form", [parse_question_set, parse_resolution_set])
def test_a_file_of_more_records_than_any_round_is_refused(form: Callable[[object], object]) -> None:
    rows: list[object] = [0] * 50_001
    with pytest.raises(MalformedDataError, match="50001 records"):
        form({"forecast_due_date": "2026-03-01", "questions": rows, "resolutions": rows})


def test_a_date_that_is_no_documented_horizon_is_left_out() -> None:
    found = parse_question_set(question_file(series(resolution_dates=["2026-03-08", "2026-03-09"])))
    assert [target.key for target in found.questions[0].targets] == ["2026-03-08"]
    assert "2026-03-09" in found.complaints[0]


def test_a_new_market_source_is_read_like_the_others() -> None:
    (found,) = parse_question_set(question_file(market(source="NewMarket"))).questions
    assert (found.source, found.family) == ("newmarket", "market")


def test_a_round_without_market_questions_is_a_round() -> None:
    assert len(parse_question_set(question_file(series())).questions) == 1


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        "2026-03-01-llm.json",
        {},
        {"questions": []},
        {"forecast_due_date": "2026-03-01"},
        {"forecast_due_date": "2026-13-41", "questions": []},
        {"forecast_due_date": "2026-03-01", "questions": {}},
    ],
)
def test_a_file_without_frame_is_a_contract_error(raw: object) -> None:
    with pytest.raises(MalformedDataError):
        parse_question_set(raw)


def test_the_due_date_is_found_in_the_name_of_the_set_where_its_own_field_is_missing() -> None:
    assert parse_question_set({"question_set": "2026-03-01-llm.json", "questions": []}).due_date == DUE


def test_a_resolved_market_row_is_an_outcome() -> None:
    (found,) = parse_resolution_set(resolution_file(row())).resolutions
    assert (found.ref.key, found.target) == ("2026-03-01/manifold/m1", SINGLE_TARGET)
    assert found.outcome == BinaryOutcome(1.0)
    assert found.resolved_at == datetime(2026, 3, 20, 23, 59, 59, tzinfo=UTC)


def test_an_unresolved_row_is_a_price_and_never_an_outcome() -> None:
    found = parse_resolution_set(resolution_file(row(resolved=False, resolved_to=0.8), row(resolved="true")))
    assert (found.resolutions, found.unresolved_prices) == ((), 2)


def test_a_dataset_row_answers_the_target_of_its_date() -> None:
    fields = {"id": "CPIX", "source": "fred", "resolution_date": "2026-03-31", "resolved_to": 0.0}
    (found,) = parse_resolution_set(resolution_file(row(**fields))).resolutions
    assert (found.target, found.outcome) == ("2026-03-31", BinaryOutcome(0.0))


def test_combination_rows_are_counted_and_skipped() -> None:
    found = parse_resolution_set(resolution_file(row(id=["a", "b"], direction=[1, -1])))
    assert (found.resolutions, found.combinations) == ((), 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"resolved_to": None},
        {"resolved_to": 2.0},
        {"resolved_to": float("nan")},
        {"resolution_date": "N/A"},
        {"resolution_date": None},
        {"source": "unheard-of"},
        {"source": "fred", "resolution_date": "2026-03-20"},
    ],
)
def test_a_bad_row_is_put_aside(changes: dict[str, object]) -> None:
    found = parse_resolution_set(resolution_file(row(), row(**changes), 5))
    assert len(found.resolutions) == 1
    assert len(found.complaints) == 2


def test_a_question_known_by_its_outcome_only_is_bare() -> None:
    found = bare_question(question_ref(DUE, "fred", "A/B"), ["2026-03-31", "2026-03-08"])
    assert (found.title, found.source, found.family) == ("", "fred", "dataset")
    assert [target.horizon_days for target in found.targets] == [7, 30]
    assert (found.source_id, dict(found.facts)) == ("A/B", {"due_date": "2026-03-01"})


@given(st.dates(), st.sampled_from(["fred", "manifold"]), st.text(min_size=1))
def test_a_reference_gives_back_its_due_date(due: date, source: str, question_id: str) -> None:
    ref = question_ref(due, source, question_id)
    assert due_date_of(ref) == due
    assert QuestionRef.parse(str(ref)) == ref


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_moment_is_read_back_from_its_text(value: datetime) -> None:
    assert parse_moment(value.isoformat()) == value


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=12),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "source"]), inner),
        max_leaves=6,
    )
)
def test_no_record_whatever_loses_the_round(record: object) -> None:
    frame = {"forecast_due_date": "2026-03-01"}
    asked = parse_question_set({**frame, "questions": [record]})
    assert len(asked.complaints) + asked.combinations + len(asked.questions) == 1
    known = parse_resolution_set({**frame, "resolutions": [record]})
    assert len(known.complaints) + known.combinations + known.unresolved_prices + len(known.resolutions) == 1
