"""What the status of an answer to a write proves, where a venue has no rule of its own."""

import pytest

from bot.core.submissions import IntentState
from bot.core.venue_http import (
    HttpResponse,
    ResponsibleParty,
    detail_suffix,
    refusal_verdict,
    response_fields,
    response_json,
    verdict_by_status,
)


@pytest.mark.parametrize("status", range(100, 600))
def test_only_an_answer_of_the_venue_proves_anything(status: int) -> None:
    verdict = verdict_by_status(HttpResponse(status=status), taken=201)
    if status == 201:
        assert verdict is not None
        assert verdict.state is IntentState.ACKED
    elif status == 429:
        assert verdict is not None
        assert verdict.state is IntentState.ABSENT
    elif 400 <= status < 500 and status != 408:
        assert verdict is None
    else:
        assert verdict is not None
        assert verdict.state is IntentState.UNKNOWN
        assert str(status) in verdict.detail


@pytest.mark.parametrize("name", ["message", "detail", "error", "errorMsg"])
def test_what_was_said_of_a_failure_is_told(name: str) -> None:
    reply = HttpResponse(status=500, body=f'{{"{name}": "out of\\n  memory", "other": 1}}'.encode())
    verdict = verdict_by_status(reply, taken=200)
    assert verdict is not None
    assert verdict.detail.endswith(": out of memory")


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[1]", b"17", b"null", b"[" * 100_000])
def test_a_body_that_is_no_object_says_nothing(body: bytes) -> None:
    assert response_fields(HttpResponse(status=500, body=body)) == {}
    verdict = verdict_by_status(HttpResponse(status=502, body=body), taken=200)
    assert verdict is not None
    assert verdict.state is IntentState.UNKNOWN


def test_a_body_that_is_json_is_read() -> None:
    assert response_json(HttpResponse(status=200, body=b"[1]")) == [1]
    assert response_fields(HttpResponse(status=200, body=b'{"a": 1}')) == {"a": 1}


def test_words_are_one_line_and_short() -> None:
    assert detail_suffix("") == ""
    assert detail_suffix(None) == ""
    assert detail_suffix("a\n b") == ": a b"
    assert len(detail_suffix("x" * 9999)) == 302


def test_a_refusal_is_nobodys_unless_said() -> None:
    assert (refusal_verdict("no").state, refusal_verdict("no").responsible) == (
        IntentState.REFUSED,
        ResponsibleParty.NOBODY,
    )
    assert refusal_verdict("no", ResponsibleParty.OPERATOR).responsible is ResponsibleParty.OPERATOR
