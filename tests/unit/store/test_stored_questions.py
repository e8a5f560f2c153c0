"""Questions as ledgers hold them since before their facts had fields: they are read, and stay the same version."""

import hashlib
from datetime import UTC, datetime

import pytest

from bot.store.serialization import QUESTION, question_version
from tests.unit.store.conftest import NOON, LedgerFixture

STORED = '{"facts":{%s},"ref":"lantern:rain","shape":{"kind":"binary"},"targets":[{}],"title":"Will it rain?"}'
FACTS = (
    '"category":"nature","creator":"u9","creator_name":"Ann","event":"north","id":"KORLY","label":"By May",'
    '"market":"m1","market_closes_at":"2026-04-01T17:00:00+00:00","slug":"rain-may",'
    '"spot_at":"2026-03-01T20:27:17.017320+02:00","station":"Orly","training":"no","weight":"0.5"'
)


def test_facts_of_a_stored_question_are_read_into_their_fields() -> None:
    found = QUESTION.decode(STORED % FACTS)
    assert (found.event, found.creator, found.category, found.creator_name) == ("north", "u9", "nature", "Ann")
    assert (found.market, found.slug, found.label, found.source_id) == ("m1", "rain-may", "By May", "KORLY")
    assert (found.weight, found.allows_training) == (0.5, False)
    assert found.market_closes_at == datetime(2026, 4, 1, 17, tzinfo=UTC)
    assert found.spot_at == datetime(2026, 3, 1, 18, 27, 17, 17320, UTC)
    assert dict(found.facts) == {"station": "Orly"}


@pytest.mark.parametrize("facts", [FACTS, '"weight":"1"', '"station":"Orly"'])
def test_a_stored_question_that_is_read_again_is_no_new_version(facts: str) -> None:
    """A new version would be forecast again, each question at the price of its models."""
    text = STORED % facts
    assert QUESTION.encode(QUESTION.decode(text)) == text
    assert question_version(QUESTION.decode(text)) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("facts", ['"weight":"heavy"', '"weight":"nan"', '"weight":"-1"', '"spot_at":"soon"'])
def test_a_stored_fact_of_another_type_is_left_out_and_the_question_read(facts: str) -> None:
    found = QUESTION.decode(STORED % f'{facts},"station":"Orly"')
    assert (found.weight, found.spot_at, dict(found.facts)) == (None, None, {"station": "Orly"})


def test_a_stored_moment_without_a_time_zone_is_in_utc() -> None:
    found = QUESTION.decode(STORED % '"market_closes_at":"2027-04-01T00:00:00"')
    assert found.market_closes_at == datetime(2027, 4, 1, tzinfo=UTC)


async def test_a_question_with_fields_is_read_from_the_ledger_as_it_was_recorded(ledger_fixture: LedgerFixture) -> None:
    asked = await ledger_fixture.ask(event="north", weight=0.25, spot_at=NOON, source_id="KORLY", allows_training=False)
    assert await ledger_fixture.ledger.questions.get(asked.ref) == asked
