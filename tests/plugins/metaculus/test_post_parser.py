"""Posts of every kind, as recorded from the real backend, and broken ones."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.api import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    MalformedDataError,
    Question,
    QuestionRef,
)
from plugins.metaculus.post_parser import MetaculusParsedPosts, QuestionForm, build_question, sort_by_closing_time
from tests.plugins.metaculus.documented_samples import answer, records
from tests.plugins.metaculus.records import Record, choice, group, numeric, post, question

POSTS = [
    "post_bin",
    "post_botagg",
    "post_cond",
    "post_cond_after",
    "post_cond_after2",
    "post_date_open",
    "post_disc_full",
    "post_group_bin",
    "post_group_num",
    "post_hidden",
    "post_mc",
    "post_mc_grace",
    "post_mc_grace2",
    "post_mcagg",
    "post_num_closed_linear",
    "post_num_open_log_full",
    "post_num_openupper",
    "post_numagg",
    "post_res_ambiguous",
    "post_res_date",
    "post_res_mc",
    "post_res_num",
    "post_res_num_above",
    "post_res_yes",
    "post_spot_bin",
    "post_spot_mc",
    "post_spot_num",
    "post_wd",
]


def unpacked(*posts: object) -> MetaculusParsedPosts:
    found = MetaculusParsedPosts()
    for one in posts:
        found.add_post(one)
    return found


def questions(*posts: object) -> list[Question]:
    found = unpacked(*posts)
    assert found.complaints == []
    return [build_question(entry) for entry in found.entries]


def sample(shared: Path, name: str) -> list[Question]:
    return questions(answer(shared, name))


@pytest.mark.parametrize("name", POSTS)
def test_every_recorded_post_is_read_whole(shared: Path, name: str) -> None:
    expected = {"post_group_bin": 3, "post_group_num": 2} | dict.fromkeys(
        ("post_cond", "post_cond_after", "post_cond_after2"), 2
    )
    found = sample(shared, name)
    assert len(found) == expected.get(name, 1)
    for one in found:
        assert one.title
        assert one.background
        assert one.opens_at is not None
        assert one.closes_at is not None


def test_there_is_no_recorded_post_besides(shared: Path) -> None:
    folder = shared / "venues/metaculus_samples"
    assert {path.stem for path in folder.glob("post_*.json")} - {"post_errors"} == set(POSTS)


def test_mc_r5_a_question_is_named_by_post_and_question(shared: Path) -> None:
    yes, no = sample(shared, "post_cond")
    assert (yes.ref, no.ref) == (QuestionRef("metaculus", "40018:50021"), QuestionRef("metaculus", "40018:50022"))
    assert yes.facts["post"] == yes.event == "40018"
    assert yes.market == "50021"
    assert yes.url == "https://www.metaculus.com/questions/40018/"


def test_mc_r6_the_text_of_a_sub_question_is_that_of_its_group_and_its_label() -> None:
    bare = {"description": "", "resolution_criteria": "", "fine_print": ""}
    [one] = questions(group(question(50001, title="Rain?", label="France", **bare)))
    assert one.title == "Rain? (France)"
    assert one.background == "Of countries."
    assert one.criteria.split("\n\n")[:2] == ["By the office.", "To the day."]
    assert "France" in one.criteria
    assert one.label == "France"


def test_mc_r6_as_recorded(shared: Path) -> None:
    france, spain = sample(shared, "post_group_num")
    assert france.title == "Group num (France)", "the label is in the title already"
    assert france.background == spain.background == "Group background"
    assert france.criteria.startswith("Group RC")
    assert spain.criteria != france.criteria
    assert france.facts["form"] == QuestionForm.GROUP


def test_a_branch_of_a_conditional_says_what_to_suppose(shared: Path) -> None:
    yes, no = sample(shared, "post_cond")
    assert "resolves Yes" in yes.background
    assert "resolves No" in no.background
    assert '"bin_open"' in yes.background
    assert yes.criteria == "Resolves by the stated source.\n\nFine print text.", "those of the child"


def test_mc_r9_text_options_scale_bounds_and_times_are_in_the_question(shared: Path) -> None:
    [number] = sample(shared, "post_num_open_log_full")
    assert isinstance(number.shape, CurveShape)
    assert (number.shape.open_lower, number.shape.open_upper) == (True, True)
    assert len(number.shape.grid) == 201
    assert number.shape.grid[:2] == (1.0, 1.0471285480508996)
    assert number.facts["scale"] == "1.0 to 10000.0 in 200, zero point 0.0"
    [one] = sample(shared, "post_mc")
    assert one.shape == ChoiceShape(options=("Red", "Green", "Blue", "Other"))
    assert one.opens_at == datetime(2026, 11, 21, 19, 51, 12, 60379, tzinfo=UTC)
    assert one.closes_at == datetime(2026, 12, 21, 20, 21, 12, 60379, tzinfo=UTC)
    assert one.target("outcome").resolves_at == datetime(2026, 12, 31, 20, 21, 12, 60379, tzinfo=UTC)
    # It is scored over time: the moment that the record has too is none that counts.
    assert (one.facts["score"], one.spot_at) == ("peer", None)
    [spot] = sample(shared, "post_spot_mc")
    assert (spot.facts["score"], spot.spot_at) == ("spot_peer", datetime(2026, 11, 21, 20, 27, 17, 17320, UTC))
    assert one.category == "sample-aib"
    assert one.facts["projects"] == "32002"
    assert one.tournaments == ("sample-aib", "32002")


def test_dates_are_seconds_and_discrete_grids_lie_between_the_numbers(shared: Path) -> None:
    [day] = sample(shared, "post_date_open")
    assert isinstance(day.shape, CurveShape)
    assert day.shape.unit == "date"
    assert day.shape.grid[0] == pytest.approx(1795292472.060379)
    assert day.shape.grid[-1] == pytest.approx(1826828472.060379)
    [goals] = sample(shared, "post_disc_full")
    assert isinstance(goals.shape, CurveShape)
    assert goals.shape.grid == pytest.approx([n - 0.5 for n in range(11)])
    assert goals.shape.unit == "goals"


def test_mc_f5_and_mc_t2_a_bad_record_is_a_complaint_with_its_id_and_costs_no_other() -> None:
    found = unpacked(
        post(40001),
        {},
        "no post",
        post(40002, question=question(50002, options="Red")),
        group(question(50003), {"id": "x"}, question(50005, open_time="soon"), number=40003),
        post(40009),
    )
    assert [entry.key for entry in found.entries] == [(40001, 50001), (40003, 50003), (40009, 50009)]
    assert len(found.complaints) == 5
    assert "post without id" in found.complaints[0]
    assert "40002" in found.complaints[2]
    assert "50002" in found.complaints[2]
    assert "open_time" in found.complaints[4]


def test_mc_t1_absent_keys_and_nulls_are_normal() -> None:
    bare = {"id": 50001, "type": "binary", "status": "open", "title": "Rain?"}
    [one] = questions({"id": 40001, "title": "Rain?", "question": bare})
    assert one.crowd is None
    assert one.shape == BinaryShape()
    assert questions({"id": 40002, "title": "News", "notebook": {"id": 3}}) == []
    nulls = question(aggregations={"recency_weighted": {"history": [], "latest": None}}, my_forecasts=None)
    assert questions(post(question=nulls))[0].crowd is None


def test_mc_t3_moments_are_iso_strings_or_seconds(shared: Path) -> None:
    [one] = sample(shared, "post_mc_grace2")
    assert answer(shared, "post_mc_grace2")["question"]["options_history"][0][0] == "0001-01-01T00:00:00"
    assert one.shape == ChoiceShape(options=("A", "B", "D", "C"))
    [seen] = sample(shared, "post_botagg")
    assert seen.crowd is not None
    assert seen.crowd.at == datetime.fromtimestamp(1795292648.809, UTC)


def test_mc_t4_no_count_means_200_steps() -> None:
    [one] = questions(post(question=numeric(inbound_outcome_count=None)))
    assert isinstance(one.shape, CurveShape)
    assert len(one.shape.grid) == 201
    assert one.shape.grid[1] == pytest.approx(0.5)


@pytest.mark.parametrize(
    "changes",
    [
        {"scaling": None},
        {"scaling": {"range_min": 1.0, "range_max": 0.0}},
        {"scaling": {"range_min": 0.0, "range_max": 1.0, "continuous_range": [0.0, 1.0]}},
        {"scaling": {"range_min": 0.0, "range_max": 1.0, "continuous_range": ["x"] * 201}},
    ],
)
def test_a_continuous_question_without_a_usable_grid_is_a_complaint(changes: Record) -> None:
    [entry] = unpacked(post(question=numeric(**changes))).entries
    with pytest.raises(MalformedDataError, match="50001"):
        build_question(entry)


def test_mc_t5_choice_values_are_matched_by_name_through_all_options_ever() -> None:
    crowd = {"recency_weighted": {"latest": {"start_time": 1.5, "centers": [0.25, None, 0.5, 0.25]}}}
    gone = choice(all_options_ever=["Green", "Gone", "Red", "Other"], aggregations=crowd)
    [one] = questions(post(question=gone))
    assert one.crowd is not None
    assert one.crowd.prediction == ChoicePrediction({"Red": 0.5, "Green": 0.25, "Other": 0.25})


def test_golden_13_4_the_median_of_two_is_the_crowd(shared: Path) -> None:
    [one] = sample(shared, "post_spot_bin")
    assert one.crowd is not None
    assert one.crowd.prediction == BinaryPrediction(0.65)
    [three] = sample(shared, "post_spot_mc")
    assert three.crowd is not None
    assert isinstance(three.crowd.prediction, ChoicePrediction)
    assert list(three.crowd.prediction.probabilities.values()) == pytest.approx([0.45, 0.3, 0.25])


def test_the_crowd_of_a_curve_is_a_cdf_on_the_grid(shared: Path) -> None:
    [one] = sample(shared, "post_numagg")
    assert one.crowd is not None
    assert isinstance(one.crowd.prediction, CurvePrediction)
    assert one.crowd.prediction.cdf[0] == 0.0
    assert one.crowd.prediction.cdf[-1] == pytest.approx(0.7)


@pytest.mark.parametrize(
    "latest", [{"start_time": "x"}, {"start_time": 1.0}, {"start_time": 1.0, "centers": [1.7]}, 3, {"start_time": 1e30}]
)
def test_an_odd_crowd_costs_no_question(latest: object) -> None:
    odd = question(aggregations={"recency_weighted": {"latest": latest}})
    assert questions(post(question=odd))[0].crowd is None


def test_a_hidden_crowd_is_none(shared: Path) -> None:
    assert sample(shared, "post_hidden")[0].crowd is None


def test_mc_k2_every_question_says_that_it_trains_no_model(shared: Path) -> None:
    assert {one.allows_training for name in POSTS for one in sample(shared, name)} == {False}


def test_mc_p3_the_soonest_to_close_comes_first() -> None:
    days = {40001: "2026-01-05", 40002: "2026-01-03", 40003: "2026-01-04"}
    found = questions(
        *(post(n, question=question(n + 10_000, scheduled_close_time=f"{day}T00:00:00Z")) for n, day in days.items())
    )
    assert [one.ref.key for one in sort_by_closing_time(found)] == ["40002:50002", "40003:50003", "40001:50001"]


def test_the_recorded_page_of_a_list_is_read(shared: Path) -> None:
    page = answer(shared, "posts_list_page")
    assert len(questions(*page["results"])) == len(page["results"]) == 2
    assert page["next"] is not None
    assert records(shared, "posts_list_page")[0]["response"]["status"] == 200
