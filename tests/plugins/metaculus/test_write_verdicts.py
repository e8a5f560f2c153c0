"""What recorded answers to writes prove: docs/facts/metaculus.md#plugin-rules."""

import json
from pathlib import Path

import pytest

from bot.api import HttpErrorResponse, HttpResponse, IntentState, ResponsibleParty
from plugins.metaculus.write_requests import is_account_refusal, write_verdict
from tests.plugins.metaculus.documented_samples import records


def reply(status: int, body: object = None, raw: bytes = b"") -> HttpResponse:
    return HttpResponse(status=status, body=raw if body is None else json.dumps(body).encode())


def test_every_recorded_acceptance_is_one(shared: Path) -> None:
    found = records(shared, "forecast_accepted")
    assert len(found) >= 28
    assert {one["response"]["status"] for one in found} == {201}
    for one in found:
        assert write_verdict(reply(201, one["response"]["json"])).state is IntentState.ACKED


def test_every_recorded_refusal_is_one_with_its_reason(shared: Path) -> None:
    found = records(shared, "forecast_rejected")
    assert len(found) >= 51
    for one in found:
        status, body = one["response"]["status"], one["response"]["json"]
        verdict = write_verdict(reply(status, body))
        assert verdict.state is IntentState.REFUSED, one["name"]
        assert str(status) in verdict.detail
        account = one["name"] in {"fc_anon", "fc_human_disabled"}
        expected = {
            400: ResponsibleParty.DEVELOPER,
            403: ResponsibleParty.OPERATOR_IF_ALL,
            405: ResponsibleParty.NOBODY if "error" in body else ResponsibleParty.DEVELOPER,
        }
        assert verdict.responsible is (ResponsibleParty.OPERATOR if account else expected[status]), one["name"]


@pytest.mark.parametrize("name", ["fc_anon", "fc_human_disabled", "me_badtoken", "me_bearer"])
def test_a_refused_account_is_the_operators(shared: Path, name: str) -> None:
    [one] = [record for record in records(shared, "auth") if record["name"] == name]
    assert one["response"]["status"] == 403
    assert write_verdict(reply(403, one["response"]["json"])).responsible is ResponsibleParty.OPERATOR


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("cm_viewonly", ResponsibleParty.OPERATOR_IF_ALL),
        ("cm_public_bot", ResponsibleParty.OPERATOR_IF_ALL),
        ("cm_nopost", ResponsibleParty.DEVELOPER),
    ],
)
def test_refused_comments(shared: Path, name: str, who: ResponsibleParty) -> None:
    [one] = [record for record in records(shared, "comments") if record["name"] == name]
    verdict = write_verdict(reply(one["response"]["status"], one["response"]["json"]))
    assert (verdict.state, verdict.responsible) == (IntentState.REFUSED, who)


@pytest.mark.parametrize(
    ("status", "state", "who"),
    [
        (200, IntentState.UNKNOWN, ResponsibleParty.NOBODY),
        (202, IntentState.UNKNOWN, ResponsibleParty.NOBODY),
        (300, IntentState.REFUSED, ResponsibleParty.DEVELOPER),
        (399, IntentState.REFUSED, ResponsibleParty.DEVELOPER),
        (400, IntentState.REFUSED, ResponsibleParty.DEVELOPER),
        (403, IntentState.ABSENT, ResponsibleParty.OPERATOR),
        (404, IntentState.REFUSED, ResponsibleParty.NOBODY),
        (405, IntentState.REFUSED, ResponsibleParty.DEVELOPER),
        (408, IntentState.UNKNOWN, ResponsibleParty.NOBODY),
        (429, IntentState.ABSENT, ResponsibleParty.NOBODY),
        (500, IntentState.UNKNOWN, ResponsibleParty.NOBODY),
        (502, IntentState.UNKNOWN, ResponsibleParty.NOBODY),
        (503, IntentState.UNKNOWN, ResponsibleParty.NOBODY),
    ],
)
@pytest.mark.parametrize("raw", [b"", b"<html>no</html>", b"\xff", b"[" * 100_000, b"[1]"])
def test_mc_t6_bodies_that_are_no_json_are_judged_by_their_status(
    status: int, state: IntentState, who: ResponsibleParty, raw: bytes
) -> None:
    verdict = write_verdict(reply(status, raw=raw))
    assert (verdict.state, verdict.responsible) == (state, who)


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (403, '{"detail": "Invalid token."}', True),
        (403, '{"detail": "Authentication credentials were not provided."}', True),
        (403, '{"detail": "no", "code": "token_not_valid"}', True),
        (403, '{"detail": "You do not have permission to perform this action."}', False),
        (403, "<html>blocked</html>", False),
        (403, "[]", False),
        (404, '{"detail": "Invalid token."}', False),
    ],
)
def test_a_refusal_of_the_account_is_told_from_one_of_a_post(status: int, body: str, *, expected: bool) -> None:
    assert is_account_refusal(HttpErrorResponse(status=status, body=body)) is expected


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, ""),
        ({"detail": "No such question.", "error": "x"}, "No such question."),
        ({"error": "The question is closed."}, "The question is closed."),
        ({"question": ["It is required."]}, '{"question": ["It is required."]}'),
    ],
)
def test_a_refusal_shows_what_the_site_says(body: dict[str, object], words: str) -> None:
    detail = write_verdict(reply(404, body)).detail
    assert detail.startswith("404: no longer visible")
    assert detail.endswith(words)
    assert ("{" in detail) is ("{" in words)
