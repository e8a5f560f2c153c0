"""Resolutions as recorded, their traps, and scores that follow from them."""

import math
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.api import (
    BinaryOutcome,
    ChoiceOutcome,
    ChoicePrediction,
    ChoiceShape,
    MalformedDataError,
    NumericOutcome,
    Outcome,
    VoidOutcome,
)
from bot.stats.scores import (
    CONTINUOUS_PEER_SCALE,
    BucketLayout,
    binary_baseline_scores,
    bucket_masses,
    choice_baseline_scores,
    continuous_baseline_scores,
    peer_scores,
)
from bot.stats.scoring_rules import ResolvedPrediction, score_predictions
from plugins.metaculus.api_records import MetaculusQuestionRecord, parse_record
from plugins.metaculus.post_parser import MetaculusParsedPosts, PostQuestion, question_scale
from plugins.metaculus.question_names import question_ref
from plugins.metaculus.resolutions import parse_outcome, question_resolution
from plugins.metaculus.write_requests import parse_own_forecasts
from tests.plugins.metaculus import records
from tests.plugins.metaculus.documented_samples import answer


def entries(shared: Path, name: str) -> list[PostQuestion]:
    unpacked = MetaculusParsedPosts()
    unpacked.add_post(answer(shared, name))
    assert unpacked.complaints == []
    return unpacked.entries


def outcome(shared: Path, name: str) -> Outcome | None:
    [entry] = entries(shared, name)
    found = question_resolution(entry.question, question_ref(*entry.key))
    return None if found is None else found.outcome


def asked(**changes: object) -> MetaculusQuestionRecord:
    resolved: records.Record = {"status": "resolved", "resolution_set_time": "2026-01-05T00:00:00Z"}
    return parse_record(MetaculusQuestionRecord, records.question(**{**resolved, **changes}), "it")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("post_res_yes", BinaryOutcome(1.0)),
        ("post_res_ambiguous", VoidOutcome("ambiguous")),
        ("post_res_mc", ChoiceOutcome("B")),
        ("post_res_num", NumericOutcome(42.5)),
        ("post_res_num_above", NumericOutcome(math.inf)),
        ("post_res_date", NumericOutcome(datetime(2026, 12, 25, tzinfo=UTC).timestamp())),
        ("post_bin", None),
    ],
)
def test_mc_v1_and_mc_v2_recorded_resolutions(shared: Path, name: str, expected: Outcome | None) -> None:
    assert outcome(shared, name) == expected


@pytest.mark.parametrize("text", ["annulled", "ambiguous"])
def test_mc_v1_reserved_words_are_no_score_except_where_an_option_has_that_name(text: str) -> None:
    assert parse_outcome(asked(), text) == VoidOutcome(text)
    assert parse_outcome(parse_record(MetaculusQuestionRecord, records.numeric(), "it"), text) == VoidOutcome(text)
    named = parse_record(
        MetaculusQuestionRecord, records.choice(options=["Red", text], all_options_ever=["Red", text]), "it"
    )
    assert parse_outcome(named, text) == ChoiceOutcome(text)
    plain = parse_record(MetaculusQuestionRecord, records.choice(), "it")
    assert parse_outcome(plain, text) == VoidOutcome(text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [("binary", "Yes"), ("binary", "42"), ("multiple_choice", "Pink"), ("numeric", "yes"), ("numeric", "nan")],
)
def test_a_text_that_is_no_resolution_is_a_contract_error(kind: str, text: str) -> None:
    made = {"binary": records.question, "multiple_choice": records.choice, "numeric": records.numeric}[kind]()
    with pytest.raises(MalformedDataError, match="not a resolution"):
        parse_outcome(parse_record(MetaculusQuestionRecord, made, "it"), text)


def test_an_option_that_is_gone_may_still_come_true() -> None:
    changed = parse_record(
        MetaculusQuestionRecord, records.choice(all_options_ever=["Red", "Green", "Gone", "Other"]), "it"
    )
    assert parse_outcome(changed, "Gone") == ChoiceOutcome("Gone")


def test_an_option_that_was_added_is_read_at_the_last_one_of_older_forecasts() -> None:
    """docs/facts/metaculus.md#scores: the mass of the last option."""
    added = parse_record(
        MetaculusQuestionRecord, records.choice(options=["A", "B", "D", "C"], all_options_ever=["A", "B", "C", "D"]), ""
    )
    reported = ResolvedPrediction(
        ChoicePrediction({"A": 0.1, "B": 0.5, "C": 0.4}),
        ChoiceShape(options=("A", "B", "C")),
        parse_outcome(added, "D"),
    )
    [marks] = score_predictions([reported])
    assert marks["choice log"] == pytest.approx(-math.log(0.4))


def test_mc_v2_bounds_map_to_the_outer_buckets() -> None:
    both = parse_record(MetaculusQuestionRecord, records.numeric(open_lower_bound=True), "it")
    assert parse_outcome(both, "below_lower_bound") == NumericOutcome(-math.inf)
    assert parse_outcome(both, "above_upper_bound") == NumericOutcome(math.inf)
    assert parse_outcome(both, "100.5") == NumericOutcome(math.inf)
    assert parse_outcome(both, "100") == NumericOutcome(100.0)


def test_mc_v2_the_upper_bound_of_a_logarithmic_scale_counts_as_the_server_counts_it() -> None:
    # See docs/facts/metaculus.md#scale: log B at 1000 is bucket 201, by rounding.
    scaling = {"range_min": 10.0, "range_max": 1000.0, "zero_point": -5.0}
    assert parse_outcome(
        parse_record(MetaculusQuestionRecord, records.numeric(scaling=scaling), "it"), "1000"
    ) == NumericOutcome(math.inf)


def test_mc_v3_the_branch_that_did_not_happen_is_void_and_the_other_follows_the_child(shared: Path) -> None:
    def branches(name: str) -> list[Outcome | None]:
        found = [question_resolution(entry.question, question_ref(*entry.key)) for entry in entries(shared, name)]
        return [None if one is None else one.outcome for one in found]

    assert branches("post_cond") == [None, None]
    assert branches("post_cond_after") == [VoidOutcome("annulled"), None]
    assert branches("post_cond_after2") == [VoidOutcome("annulled"), BinaryOutcome(1.0)]


def test_mc_v5_a_close_time_that_is_there_closes_nothing() -> None:
    # actual_close_time is never null; only the status says that something is over.
    open_still = asked(status="open", actual_close_time="2026-01-02T00:00:00Z", resolution=None)
    assert question_resolution(open_still, question_ref(1, 2)) is None
    closed = asked(status="closed", resolution="yes")
    assert question_resolution(closed, question_ref(1, 2)) is None


def test_an_outcome_is_knowable_from_the_later_of_its_two_moments() -> None:
    found = question_resolution(asked(resolution="yes", actual_resolve_time="2026-01-03T00:00:00Z"), question_ref(1, 2))
    assert found is not None
    assert found.resolved_at == datetime(2026, 1, 5, tzinfo=UTC)


def test_mc_v6_binary_scores_are_those_of_the_server(shared: Path) -> None:
    [entry] = entries(shared, "post_spot_bin")
    theirs = answer(shared, "post_spot_bin")["question"]["my_forecasts"]["score_data"]
    mine = parse_own_forecasts(entry.question).latest
    assert mine is not None
    own, other = mine.forecast_values[1], 0.5
    assert own is not None
    assert peer_scores([own, other])[0] == pytest.approx(theirs["spot_peer_score"], abs=1e-9)
    assert peer_scores([own, other])[0] == pytest.approx(47.00036292457356, abs=1e-9)
    assert binary_baseline_scores([own], [1.0])[0] == pytest.approx(theirs["spot_baseline_score"], abs=1e-9)
    assert binary_baseline_scores([own], [1.0])[0] == pytest.approx(67.80719051126378, abs=1e-9)
    opened, close = 1795292807.01732, 1795292852.01732
    coverage = (close - mine.start_time) / (close - opened)
    assert coverage == pytest.approx(0.7630912886725532, abs=1e-9)
    assert coverage == pytest.approx(theirs["coverage"], abs=1e-9)
    assert 67.80719051126378 * coverage == pytest.approx(theirs["baseline_score"], abs=1e-6)


def test_mc_v6_choice_scores_are_those_of_the_server(shared: Path) -> None:
    theirs = answer(shared, "post_spot_mc")["question"]["my_forecasts"]["score_data"]
    assert peer_scores([0.6, 0.3])[0] == pytest.approx(theirs["spot_peer_score"], abs=1e-9)
    assert choice_baseline_scores([0.6], 3)[0] == pytest.approx(theirs["spot_baseline_score"], abs=1e-9)
    assert theirs["spot_peer_score"] == pytest.approx(69.31471805599455, abs=1e-9)


def test_mc_v6_numeric_scores_are_those_of_the_server(shared: Path) -> None:
    [entry] = entries(shared, "post_spot_num")
    theirs = answer(shared, "post_spot_num")["question"]["my_forecasts"]["score_data"]
    scale = question_scale(entry.question)
    found = parse_outcome(entry.question, entry.question.resolution or "")
    assert found == NumericOutcome(50.2)
    bucket = scale.bucket_index(50.2)
    mine = parse_own_forecasts(entry.question).latest
    assert mine is not None
    own = bucket_masses([value for value in mine.forecast_values if value is not None])[bucket]
    score = continuous_baseline_scores([own], [bucket], BucketLayout(inside=scale.steps, open_ends=1))[0]
    assert score == pytest.approx(theirs["spot_baseline_score"], abs=1e-9)
    assert peer_scores([own, 0.0025], CONTINUOUS_PEER_SCALE)[0] == pytest.approx(theirs["spot_peer_score"], abs=1e-9)
    assert theirs["spot_peer_score"] == pytest.approx(29.389333245105938, abs=1e-9)


def test_golden_13_3_the_total_and_the_take_of_the_leaderboard(shared: Path) -> None:
    [board] = answer(shared, "leaderboard")
    [ours] = [row for row in board["entries"] if row["user"] and row["user"]["username"] == "samplebot"]
    spot = [47.00036292457356, 69.31471805599455, 29.389333245105938]
    assert sum(spot) == pytest.approx(ours["score"], abs=1e-9)
