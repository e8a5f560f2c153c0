"""The fake Metaculus against the recorded answers of the real server: statuses, words, keys and types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.simulator.venues.metaculus_client import (
    RawMetaculusClient,
    is_whole,
    line,
    mirror,
    samples,
    shape_differences,
)

# Recorded after options were added, or by accounts that are not played here.
_OTHERS = {"fc_mc_old_opts", "fc_human_disabled", "fc_anon", "fc_agg", "fc_res", "fc_b2", "fc_mc_new_opts"}
_LATER = {"fc_prepub_notopen", "fc_human_ok"}


@pytest.fixture
def folder(shared: Path) -> Path:
    return shared / "venues" / "metaculus_samples"


@pytest.fixture
def sampled(metaculus: RawMetaculusClient) -> RawMetaculusClient:
    mirror(metaculus)
    return metaculus


async def own_forecasts(metaculus: RawMetaculusClient) -> None:
    questions = metaculus.world.state.questions
    values: list[tuple[int, Any]] = [
        (50_001, 0.6),
        (50_001, 0.62),
        (50_010, {"Red": 0.4, "Green": 0.3, "Blue": 0.2, "Other": 0.1}),
        (50_011, line(0.0, 1.0)),
        (50_012, line(0.02, 0.97)),
        (50_013, line(0.0, 0.9)),
        (50_014, line(0.0, 0.95, 11)),
        (50_015, line(0.0, 0.9)),
        (50_016, line(0.0, 0.9)),
        (50_019, 0.3),
        (50_021, 0.7),
        (50_022, 0.35),
    ]
    for number, value in values:
        assert (await metaculus.forecast(questions[number], value)).status_code == 201


async def test_forecasts_are_taken_and_refused_as_they_were(sampled: RawMetaculusClient, folder: Path) -> None:
    tried = 0
    for name in ("forecast_accepted", "forecast_rejected"):
        for record in samples(folder, name):
            asked, expected = record["request"], record["response"]
            if record["name"] in _OTHERS | _LATER or asked["method"] != "POST" or not is_whole(asked["body"]):
                continue
            reply = await sampled.post(asked["path"], asked["body"])
            assert reply.status_code == expected["status"], record["name"]
            if "JSON parse error" not in str(expected["json"]):
                assert reply.json() == expected["json"], record["name"]
            tried += 1
    assert tried > 40


async def test_withdrawals_are_taken_and_refused_as_they_were(sampled: RawMetaculusClient, folder: Path) -> None:
    for record in samples(folder, "withdraw"):
        if record["name"] == "wd_past":
            continue  # of a question that is resolved here, as the samples have it later
        reply = await sampled.post(record["request"]["path"], record["request"]["body"])
        assert reply.status_code == record["response"]["status"], record["name"]
        if record["name"] != "wd_future" and record["response"]["status"] != 201:
            assert reply.json() == record["response"]["json"], record["name"]


async def test_comments_are_taken_and_refused_as_they_were(sampled: RawMetaculusClient, folder: Path) -> None:
    await own_forecasts(sampled)
    for record in samples(folder, "comments"):
        asked, expected = record["request"], record["response"]
        if asked["path"] != "/api/comments/create/" or asked["auth"] is None or not is_whole(asked["body"]):
            continue
        reply = await sampled.post(asked["path"], asked["body"])
        assert reply.status_code == expected["status"], record["name"]
        assert shape_differences(reply.json(), expected["json"]) == [], record["name"]
        if reply.status_code != 201:
            assert reply.json() == expected["json"]
    mine = await sampled.read("/api/comments/", is_private="true", author=sampled.own.id, post=40_001)
    [listed] = [record for record in samples(folder, "comments") if record["name"] == "cm_list_private"]
    assert shape_differences(mine, listed["response"]["json"]) == []
    assert mine["results"][0]["included_forecast"]["probability_yes"] == 0.62
    assert (await sampled.read("/api/comments/", post=40_001))["results"] == []


@pytest.mark.parametrize(
    ("name", "post"),
    [
        ("post_bin", 40_001),
        ("post_mc", 40_010),
        ("post_num_closed_linear", 40_011),
        ("post_num_open_log_full", 40_012),
        ("post_num_openupper", 40_013),
        ("post_disc_full", 40_014),
        ("post_date_open", 40_015),
        ("post_group_num", 40_016),
        ("post_group_bin", 40_017),
        ("post_cond", 40_018),
        ("post_res_yes", 40_019),
    ],
)
async def test_a_post_has_the_keys_and_types_of_its_sample(
    sampled: RawMetaculusClient, folder: Path, name: str, post: int
) -> None:
    await own_forecasts(sampled)
    [record] = samples(folder, name)
    theirs, ours = record["response"]["json"], await sampled.read(f"/api/posts/{post}/")
    # What the community thinks, and how one scored, depends on who forecast when.
    faults = [fault for fault in shape_differences(ours, theirs) if "score_data" not in fault]
    assert faults == []
    assert (ours["id"], ours["title"]) == (theirs["id"], theirs["title"])


@pytest.mark.parametrize(
    ("name", "post"), [("post_num_open_log_full", 40_012), ("post_disc_full", 40_014), ("post_date_open", 40_015)]
)
async def test_a_scale_is_that_of_its_sample(sampled: RawMetaculusClient, folder: Path, name: str, post: int) -> None:
    [record] = samples(folder, name)
    theirs = record["response"]["json"]["question"]["scaling"]
    ours = (await sampled.read(f"/api/posts/{post}/"))["question"]["scaling"]
    grids = theirs.pop("continuous_range"), ours.pop("continuous_range")
    assert ours == pytest.approx(theirs)
    if isinstance(grids[0], dict):
        assert len(grids[1]) == grids[0]["_trimmed_list_len"]
        assert (grids[1][:3], grids[1][-2:]) == (grids[0]["head"], grids[0]["tail"])
    else:
        assert grids[1] == pytest.approx(grids[0])


async def test_quartiles_of_a_forecast_are_those_of_its_sample(sampled: RawMetaculusClient, folder: Path) -> None:
    await own_forecasts(sampled)
    [record] = samples(folder, "post_num_openupper")
    theirs = record["response"]["json"]["question"]["my_forecasts"]["history"][-1]
    ours = (await sampled.read("/api/posts/40013/"))["question"]["my_forecasts"]["latest"]
    for key in ("interval_lower_bounds", "centers", "interval_upper_bounds"):
        assert ours[key] == pytest.approx(theirs[key])


async def test_accounts_tournaments_and_questions_have_the_keys_of_their_samples(
    sampled: RawMetaculusClient, folder: Path
) -> None:
    sampled.world.add_tournament("minibench-sample-1", "Sample MiniBench")
    for name in ("auth", "tournaments", "question_detail", "posts_list_page"):
        for record in samples(folder, name):
            asked, expected = record["request"], record["response"]
            if (
                asked["method"] != "GET"
                or asked["auth"] is None
                or expected["status"] != 200
                or "bots/" in asked["path"]
            ):
                continue
            reply = await sampled.get(asked["path"], **(asked["params"] or {}))
            assert (reply.status_code, shape_differences(reply.json(), expected["json"])) == (200, []), record["name"]


async def test_what_cannot_be_read_is_refused_as_it_was(sampled: RawMetaculusClient, folder: Path) -> None:
    for record in samples(folder, "post_errors"):
        asked, expected = record["request"], record["response"]
        reply = await (
            sampled.get(asked["path"], **(asked["params"] or {}))
            if asked["method"] == "GET"
            else sampled.post(asked["path"], asked["body"])
        )
        assert reply.status_code == expected["status"], record["name"]
        if expected["status"] == 301:
            assert reply.headers["location"].partition("?")[0] == asked["path"] + "/"
        else:
            assert reply.json() == expected["json"]


async def test_filters_find_as_much_as_they_did_or_refuse_in_the_same_words(
    sampled: RawMetaculusClient, folder: Path
) -> None:
    # Counts are those of another day's questions: what is compared is which filters are ignored, empty, or errors.
    everything = len((await sampled.read("/api/posts/", limit=100))["results"])
    ignored = {"l_badstatus", "l_commastatus", "l_limit500"}
    for record in samples(folder, "posts_list_filters"):
        params: dict[str, Any] = dict(record["params"])
        if "minibench-sample-1" in str(params):
            sampled.world.add_tournament("minibench-sample-1", "Sample MiniBench")
        reply = await sampled.get("/api/posts/", **params)
        assert reply.status_code == record["status"], record["name"]
        if record["status"] != 200:
            assert reply.json() == record["error"], record["name"]
            continue
        found = reply.json()["results"]
        assert bool(reply.json()["next"]), record["name"]
        if record["name"] in ignored:
            assert len(found) == everything, record["name"]
        if record["name"] in {"l_type_bad", "l_offset", "l_pending"}:
            assert found == [], record["name"]
        assert reply.json()["next"].partition("?")[2] == record["next"].partition("?")[2], record["name"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/questions/forecast/", [1], 400),
        ("/api/questions/forecast/", [{"question": "x"}], 400),
        ("/api/questions/forecast/", [{"question": {}}], 400),
        ("/api/questions/forecast/", [{"question": 50_011, "continuous_cdf": {"0": 1}}], 400),
        ("/api/questions/forecast/", [{"question": 50_001, "probability_yes": 0.5, "end_time": "soon"}], 400),
        ("/api/questions/forecast/", [{"question": 50_001, "probability_yes": "inf"}], 400),
        ("/api/questions/withdraw/", [{"question": [1]}], 400),
        ("/api/questions/withdraw/", [1], 400),
        ("/api/comments/create/", [], 400),
        ("/api/comments/create/", {"on_post": {}, "text": "x"}, 400),
        ("/api/comments/create/", {"on_post": 40_001, "text": 7}, 400),
        ("/api/comments/99/edit/", {"text": "x"}, 404),
    ],
)
async def test_whatever_is_sent_gets_an_answer(sampled: RawMetaculusClient, path: str, body: Any, status: int) -> None:
    assert (await sampled.post(path, body)).status_code == status


async def test_lists_can_leave_out_descriptions_and_hold_texts_without_questions(sampled: RawMetaculusClient) -> None:
    note = sampled.world.add_notebook("A note")
    rows = (await sampled.read("/api/posts/", include_descriptions="false", limit=100))["results"]
    assert {row["question"]["description"] for row in rows if "question" in row} == {""}
    assert [row["status"] for row in rows if row["id"] == note.id] == ["approved"]
    assert (await sampled.get("/api/questions/1/")).status_code == 404
    assert (await sampled.get("/api/nothing/")).status_code == 404
