"""What the fake Metaculus does, after docs/facts/metaculus.md: its validation table, options, scores and secrecy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.metaculus_state import QuestionScaling
from tests.unit.simulator.venues.metaculus_client import RawMetaculusClient, line


def with_step(step: float, count: int = 201) -> list[float]:
    """Return a straight line from 0 to 1, but for one step of that size in the middle."""
    other = (1.0 - step) / (count - 2)
    half = count // 2
    return [other * place + (step - other if place > half else 0.0) for place in range(count)]


# docs/facts/metaculus.md#validation


@pytest.mark.parametrize("value", [0.001, 0.999, "0.5", 0.62])
async def test_probabilities_are_taken(metaculus: RawMetaculusClient, value: object) -> None:
    assert (await metaculus.forecast(metaculus.world.add_question(), value)).status_code == 201


@pytest.mark.parametrize("value", [0, 0.0009, 0.9995, 1, 60, -1, None, "abc", "nan", True])
async def test_probabilities_are_refused(metaculus: RawMetaculusClient, value: object) -> None:
    question = metaculus.world.add_question()
    assert (await metaculus.forecast(question, value)).status_code == 400
    assert question.forecasts == []


CLOSED, OPEN = QuestionScaling(low=0, high=100), QuestionScaling(low=0, high=100, open_lower=True, open_upper=True)
UPPER = QuestionScaling(low=0, high=100, open_upper=True)
TEN, FIFTY = QuestionScaling(low=0, high=9, open_upper=True, count=10), QuestionScaling(low=0, high=49, count=50)
SPIKE = [0, 0.001, 0.002, 0.003, 0.004, 0.95, 0.951, 0.952, 0.953, 0.954, 0.955]
LOW_STEP = [0, 0.0005, 0.01, 0.1275, 0.245, 0.3625, 0.48, 0.5975, 0.715, 0.8325, 0.95]


@pytest.mark.parametrize(
    ("scaling", "values", "status"),
    [
        (CLOSED, line(0.0, 1.0), 201),
        (CLOSED, line(0.0, 1.0, 200), 400),
        (CLOSED, with_step(0.0), 400),
        (CLOSED, with_step(4.9e-5), 400),
        (CLOSED, with_step(5e-5), 201),
        (CLOSED, with_step(0.2), 201),
        (CLOSED, with_step(0.2001), 400),
        (CLOSED, line(0.01, 1.0), 400),
        (CLOSED, line(0.0, 0.99), 400),
        (OPEN, line(0.001, 0.999), 201),
        (OPEN, line(0.0009, 0.999), 400),
        (OPEN, line(0.001, 0.9991), 400),
        (OPEN, line(0.0, 1.0), 400),
        (UPPER, line(0.0, 1.2), 400),
        (TEN, SPIKE, 201),
        (TEN, LOW_STEP, 400),
        (TEN, line(0.0, 0.95), 400),
        (FIFTY, with_step(0.8, 51), 201),
        (FIFTY, with_step(0.9902, 51), 400),
        (CLOSED, ["x", *line(0.0, 1.0)[1:]], 400),
    ],
)
async def test_distributions_are_judged(
    metaculus: RawMetaculusClient, scaling: QuestionScaling, values: Sequence[Any], status: int
) -> None:
    question = metaculus.world.add_question(type="numeric" if scaling.count is None else "discrete", scaling=scaling)
    assert (await metaculus.forecast(question, values)).status_code == status


async def test_both_faulty_ends_are_told_in_one_message(metaculus: RawMetaculusClient) -> None:
    question = metaculus.world.add_question(type="numeric", scaling=CLOSED)
    reported = (await metaculus.forecast(question, line(0.01, 0.99))).text
    assert "closed lower bound" in reported
    assert "upper bound being closed" in reported


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"a": 0.400009, "b": 0.3, "c": 0.2, "d": 0.1}, 201),
        ({"a": 0.4001, "b": 0.3, "c": 0.2, "d": 0.1}, 400),
        ({"a": 0.0, "b": 0.6, "c": 0.3, "d": 0.1}, 400),
        ({"a": 0.6, "b": 0.3, "c": 0.1}, 400),
        ({"A": 0.4, "b": 0.3, "c": 0.2, "d": 0.1}, 400),
        ([0.4, 0.3, 0.2, 0.1], 400),
        ({"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1, "e": None}, 201),
    ],
)
async def test_choices_are_judged(metaculus: RawMetaculusClient, given: Any, status: int) -> None:
    question = metaculus.world.add_question(type="multiple_choice", options=["a", "b", "c", "d"])
    assert (await metaculus.forecast(question, given)).status_code == status


async def test_one_closed_question_refuses_the_whole_list(metaculus: RawMetaculusClient) -> None:
    lively, over = metaculus.world.add_question(), metaculus.world.add_question()
    metaculus.world.close(over)
    body = [{"question": question.id, "probability_yes": 0.3} for question in (lively, over)]
    reply = await metaculus.post("/api/questions/forecast/", body)
    assert (reply.status_code, list(reply.json())) == (405, ["error"])
    assert lively.forecasts == []
    assert metaculus.venue.ledger.effects() == []


# Forecasts that stand, and that do not


async def test_each_forecast_adds_a_row_and_ends_the_one_before(metaculus: RawMetaculusClient) -> None:
    question = metaculus.world.add_question()
    await metaculus.forecast(question, 0.8)
    await metaculus.clock.advance(5.0)
    await metaculus.forecast(question, 0.7)
    mine = (await metaculus.question(question))["my_forecasts"]
    assert [entry["end_time"] for entry in mine["history"]] == [mine["latest"]["start_time"], None]
    assert mine["history"][0]["forecast_values"] == [1 - 0.8, 0.8]
    doubles = metaculus.venue.ledger.doubled_effects("forecast", lambda effect: effect.subject)
    assert doubles == {str(question.id): 2}
    assert [effect.detail["values"] for effect in metaculus.venue.ledger.effects("forecast")] == [
        (1 - 0.8, 0.8),
        (1 - 0.7, 0.7),
    ]


async def test_a_withdrawn_forecast_is_still_the_latest_with_its_end_in_the_past(metaculus: RawMetaculusClient) -> None:
    question = metaculus.world.add_question()
    await metaculus.forecast(question, 0.8)
    await metaculus.clock.advance(5.0)
    assert (await metaculus.post("/api/questions/withdraw/", [{"question": question.id}])).status_code == 201
    latest = (await metaculus.question(question))["my_forecasts"]["latest"]
    assert (latest["forecast_values"][1], latest["end_time"]) == (0.8, metaculus.venue.now().timestamp())
    assert (await metaculus.post("/api/questions/withdraw/", [{"question": question.id}])).status_code == 201
    past = [{"question": question.id, "withdraw_at": "2020-12-10T00:00:00Z"}]
    assert (await metaculus.post("/api/questions/withdraw/", past)).status_code == 405


async def test_a_question_not_yet_open_takes_forecasts_and_an_unpublished_one_does_not(
    metaculus: RawMetaculusClient,
) -> None:
    later = metaculus.venue.now() + timedelta(hours=1)
    early = metaculus.world.add_question(open=later, scheduled_close=later + timedelta(hours=1))
    hidden = metaculus.world.add_question(open=later, post={"published": later})
    page = await metaculus.read(f"/api/posts/{early.post}/")
    assert (page["status"], page["question"]["status"]) == ("approved", "upcoming")
    assert (await metaculus.forecast(early, 0.5)).status_code == 201
    assert (await metaculus.get(f"/api/posts/{hidden.post}/")).status_code == 404
    assert (await metaculus.forecast(hidden, 0.5)).status_code == 403


async def test_time_opens_and_closes_a_question_whose_close_is_never_null(metaculus: RawMetaculusClient) -> None:
    question = metaculus.world.add_question(scheduled_close=metaculus.venue.now() + timedelta(hours=1))
    assert (await metaculus.question(question))["actual_close_time"] == "2026-01-01T01:00:00Z"
    await metaculus.clock.advance(3600.0)
    page = await metaculus.read(f"/api/posts/{question.post}/")
    assert (page["status"], page["question"]["status"], page["actual_close_time"]) == (
        "closed",
        "closed",
        "2026-01-01T01:00:00Z",
    )
    assert (await metaculus.forecast(question, 0.5)).status_code == 405


async def test_an_account_without_access_is_told_so_and_waits(metaculus: RawMetaculusClient) -> None:
    metaculus.own.is_bot, metaculus.own.access = False, "disabled"
    reply = await metaculus.forecast(metaculus.world.add_question(), 0.5)
    assert (reply.status_code, reply.json()["code"]) == (403, "api_forecasting_not_enabled")
    assert (await metaculus.read("/api/users/me/"))["api_forecasting_access"] == "pending"


async def test_a_good_forecast_on_the_wrong_question_is_taken_in_silence(metaculus: RawMetaculusClient) -> None:
    meant, other = metaculus.world.add_question(), metaculus.world.add_question()
    reply = await metaculus.post("/api/questions/forecast/", [{"question": meant.post, "probability_yes": 0.5}])
    assert (reply.status_code, "Post Id" in reply.text) == (400, True)
    assert (await metaculus.forecast(other, 0.5)).status_code == 201


# Groups, conditionals, resolutions


async def test_parts_of_a_group_have_labels_and_no_text(metaculus: RawMetaculusClient) -> None:
    post = metaculus.world.add_group("Growth", ["France", "Spain"], description="About growth.")
    metaculus.world.resolve(post.questions[0], "yes")
    page = await metaculus.read(f"/api/posts/{post.id}/")
    group = page["group_of_questions"]
    assert "question" not in page
    assert (page["status"], group["description"]) == ("open", "About growth.")
    assert [part["label"] for part in group["questions"]] == ["France", "Spain"]
    assert [part["status"] for part in group["questions"]] == ["resolved", "open"]
    assert {part["description"] + part["resolution_criteria"] for part in group["questions"]} == {""}


@pytest.mark.parametrize(
    ("condition", "branches"),
    [("no", ("annulled", "yes")), ("yes", ("yes", "annulled")), ("ambiguous", ("annulled", "annulled"))],
)
async def test_branches_of_a_conditional_follow_condition_and_child(
    metaculus: RawMetaculusClient, condition: str, branches: tuple[str, str]
) -> None:
    parent, child = metaculus.world.add_question("If?"), metaculus.world.add_question("Then?")
    parts = metaculus.world.add_conditional(parent, child)
    assert (await metaculus.forecast(parts.yes, 0.7)).status_code == 201
    metaculus.world.resolve(parent, condition)
    live = [branch for branch in (parts.yes, parts.no) if branch.resolution is None]
    assert [branch.status(metaculus.venue.now()) for branch in live] == ["closed"] * len(live)
    metaculus.world.resolve(child, "yes")
    page = (await metaculus.read(f"/api/posts/{parts.yes.post}/"))["conditional"]
    assert (page["question_yes"]["resolution"], page["question_no"]["resolution"]) == branches
    assert page["condition_child"]["id"] == child.id


async def test_a_resolution_may_close_a_question_before_its_time_and_can_be_undone(
    metaculus: RawMetaculusClient,
) -> None:
    question = metaculus.world.add_question()
    await metaculus.clock.advance(3600.0)
    metaculus.world.resolve(question, "yes", known=metaculus.venue.now() - timedelta(minutes=30))
    row = await metaculus.question(question)
    assert (row["status"], row["actual_close_time"], row["actual_resolve_time"]) == (
        "resolved",
        "2026-01-01T00:30:00Z",
        "2026-01-01T00:30:00Z",
    )
    assert row["resolution_set_time"] == "2026-01-01T01:00:00Z"
    metaculus.world.unresolve(question)
    row = await metaculus.question(question)
    assert (row["status"], row["resolution"]) == ("open", None)


# Production, faults and limits


async def test_production_answers_nobody_without_a_token(metaculus_production: RawMetaculusClient) -> None:
    question = metaculus_production.world.add_question()
    for path in ("/api/posts/", f"/api/posts/{question.post}/", "/api/users/me/"):
        assert (await metaculus_production.client.get(path)).status_code == 403
    for message in ("Token wrong", "Bearer x", f"Basic {'f' * 40}"):
        assert (
            await metaculus_production.client.get("/api/posts/", headers={"Authorization": message})
        ).status_code == 403
    bare = await metaculus_production.client.get("/api/users/me/", headers={"Authorization": "f" * 40})
    assert (bare.status_code, "www-authenticate" in bare.headers) == (200, False)


async def test_production_hides_the_community_and_what_was_closed_without_a_forecast(
    metaculus_production: RawMetaculusClient,
) -> None:
    mine, other = (metaculus_production.world.add_question(title, counts_bots=True) for title in ("Mine?", "Other?"))
    await metaculus_production.forecast(mine, 0.5)
    metaculus_production.world.forecast(metaculus_production.other, other, 0.5)
    await metaculus_production.clock.advance(60.0)
    assert (await metaculus_production.question(other))["description"]
    for question in (mine, other):
        metaculus_production.world.resolve(question, "yes")
        assert (await metaculus_production.question(question))["aggregations"]["recency_weighted"]["latest"] is None
    assert (await metaculus_production.question(mine))["resolution"] == "yes"
    hidden = await metaculus_production.question(other)
    assert (hidden["resolution"], hidden["description"], hidden["status"]) == (None, "", "resolved")
    metaculus_production.own.tier = "benchmarking"
    assert (await metaculus_production.question(other))["resolution"] == "yes"


async def test_a_list_shows_own_forecasts_only_where_they_are_asked_for(metaculus: RawMetaculusClient) -> None:
    question = metaculus.world.add_question()
    await metaculus.forecast(question, 0.5)
    [plain] = (await metaculus.read("/api/posts/"))["results"]
    [whole] = (await metaculus.read("/api/posts/", with_cp="true"))["results"]
    assert "my_forecasts" not in plain["question"]
    assert whole["question"]["my_forecasts"]["latest"]["forecast_values"] == [0.5, 0.5]


async def test_pages_never_say_that_they_are_the_last(metaculus: RawMetaculusClient) -> None:
    for number in range(7):
        metaculus.world.add_question(f"Question {number}?")
    seen: list[int] = []
    path = "/api/posts/?limit=3"
    for expected in (3, 3, 1, 0):
        page = await metaculus.read(path)
        assert len(page["results"]) == expected
        seen += [row["id"] for row in page["results"]]
        path = page["next"]
    assert len(set(seen)) == 7


@pytest.mark.parametrize(
    ("fault", "status"), [(RequestFault.CLOSING, 405), (RequestFault.RESOLVED, 405), (RequestFault.EDITED, 201)]
)
async def test_a_question_changes_while_a_forecast_is_under_way(
    metaculus: RawMetaculusClient, fault: RequestFault, status: int
) -> None:
    question = metaculus.world.add_question()
    metaculus.venue.faults.schedule(fault, method="POST")
    assert (await metaculus.forecast(question, 0.5)).status_code == status


async def test_options_change_while_a_forecast_is_under_way(metaculus: RawMetaculusClient) -> None:
    question = metaculus.world.add_question(type="multiple_choice", options=["A", "B"])
    metaculus.venue.faults.schedule(RequestFault.EDITED, method="POST")
    assert (await metaculus.forecast(question, {"A": 0.5, "B": 0.5})).status_code == 400


async def test_an_error_after_the_effect_leaves_a_forecast_that_a_fresh_read_shows(
    metaculus: RawMetaculusClient,
) -> None:
    question = metaculus.world.add_question()
    metaculus.venue.faults.schedule(FaultDetails(fault=RequestFault.ERROR_AFTER, status=504), method="POST")
    assert (await metaculus.forecast(question, 0.5)).status_code == 504
    assert (await metaculus.question(question))["my_forecasts"]["latest"]["forecast_values"] == [0.5, 0.5]


async def test_a_comment_can_be_edited_and_deleted_by_its_author(metaculus: RawMetaculusClient) -> None:
    post = metaculus.world.add_question().post
    made = (await metaculus.post("/api/comments/create/", {"on_post": post, "text": "x", "is_private": True})).json()
    edited = (await metaculus.post(f"/api/comments/{made['id']}/edit/", {"text": "y"})).json()
    assert (edited["text"], edited["text_edited_at"] is None) == ("y", False)
    headers = {"Authorization": f"Token {metaculus.other.token}"}
    path = f"/api/comments/{made['id']}/delete/"
    assert (await metaculus.client.post(path, headers=headers)).status_code == 403
    assert (await metaculus.client.post(path, headers=metaculus.headers)).status_code == 200
    assert (await metaculus.read("/api/comments/", is_private="true"))["results"] == []


async def test_a_missing_slash_is_a_redirect_that_loses_the_body(metaculus: RawMetaculusClient) -> None:
    question = metaculus.world.add_question()
    body = [{"question": question.id, "probability_yes": 0.5}]
    reply = await metaculus.client.post("/api/questions/forecast", json=body, headers=metaculus.headers)
    assert (reply.status_code, reply.headers["location"]) == (301, "/api/questions/forecast/")
    followed = await metaculus.client.post(
        "/api/questions/forecast", json=body, headers=metaculus.headers, follow_redirects=True
    )
    assert followed.status_code == 405
    assert question.forecasts == []


async def test_endpoints_that_the_open_code_lacks_are_404(metaculus: RawMetaculusClient) -> None:
    assert (await metaculus.post("/api/questions/bulk-forecast-comment/", {})).status_code == 404
