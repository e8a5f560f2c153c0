"""Pairs of questions that may ask the same, the verdicts about them, and prices of paired questions by time.

A pair counts for the texts that were compared: after a change of either question it is only proposed again.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlite_utils import Database

from bot.core.errors import NotFoundError
from bot.core.ids import derive_id, sha256_hex
from bot.core.learning import ResolvedForecast
from bot.core.light_dataclass import dataclass
from bot.core.predictions import ChoicePrediction, ChoiceShape, Prediction, prediction_mismatch
from bot.core.questions import Question, QuestionRef
from bot.store.connections import LedgerReaders, TransactionRunner
from bot.store.question_history import SELECT_QUESTION_VERSION, question_from_row
from bot.store.questions import IS_OPEN_QUESTION, read_current_question
from bot.store.serialization import format_timestamp, parse_timestamp, sanitize_text, to_json_list, unpack_prediction

MIN_ID_CHARS = 6
_COLUMNS = """id, first, second, texts, similarity, exact, state, found_at, changed_at, judged_at, by, reason,
       differences, answer"""
_SELECT_PAIR = f"select {_COLUMNS} from question_pair"  # noqa: S608 - made of constants
_UPSERT_PAIR = """
insert into question_pair (id, first, second, texts, similarity, exact, state, found_at, changed_at)
values (:id, :first, :second, :texts, :similarity, :exact, 'proposed', :at, :at)
on conflict (first, second) do update set
  texts = excluded.texts, similarity = excluded.similarity, exact = excluded.exact, state = 'proposed',
  changed_at = excluded.changed_at, judged_at = null, by = '', reason = 'the text of a question changed',
  differences = '', answer = ''
where texts <> excluded.texts
"""
_OPEN_QUESTIONS = f"""
{SELECT_QUESTION_VERSION} join question q on q.ref = v.ref and q.version = v.version
left join price p on p.id = (select max(id) from price where ref = v.ref)
where q.venue = :venue and {IS_OPEN_QUESTION}
order by q.closes_at is null, q.closes_at, q.ref limit :limit
"""  # noqa: S608 - made of constants
_JUDGE = """
update question_pair set state = :state, judged_at = :at, changed_at = iif(state = :state, changed_at, :at),
  by = :by, reason = :reason, differences = :differences, answer = :answer
where id = :id and texts = :texts and state in ('proposed', 'same', 'different')
"""
_DECIDE = "update question_pair set state = :state, changed_at = :at, by = :by where id = :id"
_TO_JUDGE = f"""
{_SELECT_PAIR} where state = 'proposed' and judged_at is null
order by exact desc, similarity desc, id limit :limit
"""
_ACCEPTED = """(state = 'confirmed' or (state = 'same' and :use in ('judged', 'matched'))
  or (state = 'proposed' and exact = 1 and :use = 'matched'))"""
_ACCEPTED_OF_QUESTION = f"""
{_SELECT_PAIR} where (first = :ref or second = :ref) and {_ACCEPTED} and changed_at < :before order by id
"""
_ACCEPTED_PAIRS = f"{_SELECT_PAIR} where {_ACCEPTED} order by changed_at desc, id limit :limit"
_LISTED = f"""
{_SELECT_PAIR} where state in (select value from json_each(:states))
order by state not in ('confirmed', 'same'), exact desc, similarity desc, id limit :limit
"""  # noqa: S608 - made of constants
# Ids are hexadecimal, so all that begin like one are before it with a "g" behind it.
_BY_PREFIX = f"{_SELECT_PAIR} where id >= :id and id < :id || 'g' order by id limit 4"
_PRICE_BEFORE = """
select at, probability, body, explanation, spread, liquidity from price
where ref = :ref and at < :before and seen_at < :before order by id desc limit 1
"""


class PairState(StrEnum):
    """What is known of a pair: proposed by code, judged by a model (same, different), or decided by a person."""

    PROPOSED = "proposed"
    SAME = "same"
    DIFFERENT = "different"
    CONFIRMED = "confirmed"
    REFUSED = "refused"


class PairUse(StrEnum):
    """Which pairs give prices: confirmed by a person; also judged the same by a model; also the same by all checks."""

    CONFIRMED = "confirmed"
    JUDGED = "judged"
    MATCHED = "matched"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairProposal:
    """Two questions that may ask the same, as they are now; ``is_exact``: by all checks of code."""

    first: Question
    second: Question
    similarity: float
    is_exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionPair:
    """A pair of questions, the first one with the smaller reference, and what was said of it.

    ``texts`` is the digest of what was compared; ``by`` names the model or the person; ``answer`` is the recorded
    answer of the model.
    """

    id: str
    first: QuestionRef
    second: QuestionRef
    texts: str
    similarity: float
    is_exact: bool
    state: PairState
    found_at: datetime
    changed_at: datetime
    judged_at: datetime | None
    by: str
    reason: str
    differences: str
    answer: str

    def other(self, ref: QuestionRef) -> QuestionRef:
        """Return the question that is paired with this one."""
        return self.second if ref == self.first else self.first

    def is_accepted(self, use: PairUse) -> bool:
        """Say whether its prices count."""
        match self.state:
            case PairState.CONFIRMED:
                return True
            case PairState.SAME:
                return use is not PairUse.CONFIRMED
            case PairState.PROPOSED:
                return self.is_exact and use is PairUse.MATCHED
            case _:
                return False


@dataclass(frozen=True, slots=True, kw_only=True)
class PairVerdict:
    """What a model says of a pair; ``state`` is PROPOSED for an answer that could not be read."""

    state: PairState
    by: str
    reason: str
    differences: str = ""
    answer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedPrice:
    """The price of the same question elsewhere, as a prediction of this question; ``at`` is when it last changed."""

    ref: QuestionRef
    title: str
    prediction: Prediction
    at: datetime
    spread: float | None = None
    liquidity: float | None = None
    differences: str = ""


def pair_texts(first: Question, second: Question) -> str:
    """Return the digest of all that decides whether two questions ask the same."""
    parts = [
        [
            str(one.ref),
            one.title,
            one.background,
            one.criteria,
            one.shape.kind,
            list(one.shape.options) if isinstance(one.shape, ChoiceShape) else [],
            format_timestamp(one.closes_at),
        ]
        for one in sorted((first, second), key=lambda one: str(one.ref))
    ]
    return sha256_hex(json.dumps(parts).encode())


@dataclass(frozen=True, slots=True)
class QuestionPairStore:
    """Pairs in the ledger."""

    writer: TransactionRunner
    readers: LedgerReaders

    async def open_questions(self, venue: str, *, now: datetime, limit: int) -> list[Question]:
        """Return the open questions of a venue, soonest close first."""
        values = {"venue": venue, "now": format_timestamp(now), "limit": limit}
        return await self.readers.run(
            lambda database: [question_from_row(row) for row in database.execute(_OPEN_QUESTIONS, values)]
        )

    async def propose(self, proposals: Sequence[PairProposal], *, at: datetime) -> int:
        """Add pairs, and propose those again whose texts changed; return how many."""
        rows = [_proposal_row(one, at) for one in proposals]
        return await self.writer.run(
            lambda database: sum(database.conn.execute(_UPSERT_PAIR, row).rowcount > 0 for row in rows)
        )

    async def to_judge(self, limit: int) -> list[QuestionPair]:
        """Return proposed pairs that no model has judged, the likeliest first."""
        return await self.readers.run(
            lambda database: [_pair(*row) for row in database.execute(_TO_JUDGE, {"limit": limit})]
        )

    async def judge(self, pair: QuestionPair, verdict: PairVerdict, *, at: datetime) -> None:
        """Record what a model says; without effect where a person decided meanwhile, or a text changed."""
        values = {
            "id": pair.id,
            "texts": pair.texts,
            "state": verdict.state.value,
            "by": sanitize_text(verdict.by),
            "reason": sanitize_text(verdict.reason),
            "differences": sanitize_text(verdict.differences),
            "answer": verdict.answer,
            "at": format_timestamp(at),
        }
        await self.writer.run(lambda database: database.execute(_JUDGE, values))

    async def get(self, name: str) -> QuestionPair:
        """Return the pair whose id begins like this; raises NotFoundError for none and for several."""
        return await self.readers.run(lambda database: find_pair(database, name))

    async def rows(self, states: Collection[PairState], *, limit: int) -> list[QuestionPair]:
        """Return pairs in these states, those that are the same first, then the likeliest."""
        values = {"states": to_json_list(state.value for state in states), "limit": limit}
        return await self.readers.run(lambda database: [_pair(*row) for row in database.execute(_LISTED, values)])

    async def accepted(self, use: PairUse, *, limit: int) -> list[QuestionPair]:
        """Return the pairs whose prices count, the newest first."""
        values = {"use": use.value, "limit": limit}
        return await self.readers.run(
            lambda database: [_pair(*row) for row in database.execute(_ACCEPTED_PAIRS, values)]
        )

    async def price_before(self, ref: QuestionRef, before: datetime) -> Prediction | None:
        """Return the newest price of a question that was known before a moment."""
        found = await self.readers.lookup(lambda database: _read_price(database, ref, before))
        return None if found is None else unpack_prediction(found[1], found[2])

    async def paired_prices(self, question: Question, *, use: PairUse, before: datetime) -> list[PairedPrice]:
        """Return the prices of the same question elsewhere that were known before a moment.

        The pair was accepted before it too, neither text has changed since, and the other question was open.
        """
        return await self.readers.lookup(lambda database: read_paired_prices(database, question, use, before))

    async def resolved_prices(self, pasts: Sequence[ResolvedForecast], *, use: PairUse) -> list[list[PairedPrice]]:
        """Return for each resolved forecast the prices elsewhere that were known at its cutoff."""
        return await self.readers.run(
            lambda database: [read_paired_prices(database, past.question, use, past.cutoff) for past in pasts]
        )


def find_pair(database: Database, name: str) -> QuestionPair:
    """Return the pair whose id begins like this; raises NotFoundError for none and for several."""
    rows = database.execute(_BY_PREFIX, {"id": name}).fetchall() if len(name) >= MIN_ID_CHARS else []
    if len(rows) == 1:
        return _pair(*rows[0])
    why = "several pairs have ids that begin so" if rows else "there is no such pair"
    message = f"{name}: {why}; name at least {MIN_ID_CHARS} characters of an id that foxcast pairs lists"
    raise NotFoundError(message)


def decide_pair(database: Database, pair: QuestionPair, state: PairState, *, by: str, at: datetime) -> None:
    """Record what a person says of a pair; nothing but a change of its texts undoes it."""
    database.execute(
        _DECIDE, {"id": pair.id, "state": state.value, "by": sanitize_text(by), "at": format_timestamp(at)}
    )


def read_paired_prices(database: Database, question: Question, use: PairUse, before: datetime) -> list[PairedPrice]:
    """Read the prices of ``QuestionPairStore.paired_prices``."""
    values = {"ref": str(question.ref), "use": use.value, "before": format_timestamp(before)}
    found = []
    for row in database.execute(_ACCEPTED_OF_QUESTION, values).fetchall():
        pair = _pair(*row)
        other = read_current_question(database, pair.other(question.ref))
        is_open = other.closes_at is None or other.closes_at > before
        price = _read_price(database, other.ref, before) if is_open else None
        if price is None or pair_texts(question, other) != pair.texts:
            continue
        at, probability, body, _, spread, liquidity = price
        prediction = fit_prediction(unpack_prediction(probability, body), question)
        if prediction is not None:
            found.append(
                PairedPrice(
                    ref=other.ref,
                    title=other.title,
                    prediction=prediction,
                    at=parse_timestamp(at),
                    spread=spread,
                    liquidity=liquidity,
                    differences=pair.differences,
                )
            )
    return found


def fit_prediction(prediction: Prediction, question: Question) -> Prediction | None:
    """Return a prediction as one of this question, whose options may differ in case; None for another shape."""
    if len(question.targets) != 1:
        return None
    if isinstance(prediction, ChoicePrediction) and isinstance(question.shape, ChoiceShape):
        names = {option.casefold(): option for option in question.shape.options}
        renamed = {names.get(option.casefold(), option): value for option, value in prediction.probabilities.items()}
        prediction = ChoicePrediction(renamed)
    return None if prediction_mismatch(prediction, question.shape) else prediction


def _read_price(database: Database, ref: QuestionRef, before: datetime) -> Any:  # noqa: ANN401 - a database row
    return database.execute(_PRICE_BEFORE, {"ref": str(ref), "before": format_timestamp(before)}).fetchone()


def _proposal_row(one: PairProposal, at: datetime) -> Mapping[str, object]:
    first, second = sorted((str(one.first.ref), str(one.second.ref)))
    return {
        "id": derive_id("pair", first, second),
        "first": first,
        "second": second,
        "texts": pair_texts(one.first, one.second),
        "similarity": one.similarity,
        "exact": int(one.is_exact),
        "at": format_timestamp(at),
    }


def _pair(*columns: Any) -> QuestionPair:  # noqa: ANN401 - a database row
    id_, first, second, texts, similarity, exact, state, found_at, changed_at, judged_at, *said = columns
    by, reason, differences, answer = said
    return QuestionPair(
        id=id_,
        first=QuestionRef.parse(first),
        second=QuestionRef.parse(second),
        texts=texts,
        similarity=similarity,
        is_exact=bool(exact),
        state=PairState(state),
        found_at=parse_timestamp(found_at),
        changed_at=parse_timestamp(changed_at),
        judged_at=parse_timestamp(judged_at),
        by=by,
        reason=reason,
        differences=differences,
        answer=answer,
    )
