"""From a FullMarket to questions: which, of what shape, with what text and what price.

A market where one answer wins is one question; if its answers resolve independently each answer is one. The key of a
question is what is traded: the id of the market, or ``market/answer``. Source: docs/facts/manifold.md#reading.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bot.api import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CrowdForecast,
    CurveShape,
    MalformedDataError,
    Question,
    QuestionRef,
    QuestionShape,
    Target,
)
from plugins.manifold.api_records import (
    ManifoldAnswerRecord,
    ManifoldMarketRecord,
    from_milliseconds,
    parse_record,
    record_name,
)
from plugins.manifold.market_state import contract_name, option_names
from plugins.manifold.numeric_scale import ManifoldScale
from plugins.manifold.settings import CASH, MANA, VENUE, MarketKind

KIND_BY_TYPE: dict[str, MarketKind] = {
    "BINARY": "binary",
    "MULTIPLE_CHOICE": "multiple_choice",
    "PSEUDO_NUMERIC": "pseudo_numeric",
    "MULTI_NUMERIC": "number",
    "DATE": "date",
    "NUMBER": "legacy_number",
}
GRID_POINTS = 201
_MAX_DOCUMENT_DEPTH = 60
_ANSWER_DESCRIPTIONS = {"number": "a range or a threshold", "date": "a date, a range of dates or a threshold"}


@dataclass(slots=True)
class ManifoldParsedMarket:
    """A market, its questions, and which parts were skipped and why."""

    market: ManifoldMarketRecord
    questions: list[Question] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def market_objection(market: ManifoldMarketRecord, now: datetime, margin: timedelta) -> str | None:
    """Return why a market cannot be forecast now; None if it can."""
    if market.type not in KIND_BY_TYPE:
        return f"of the type {market.type[:40]}, which is not forecast"
    if market.is_resolved:
        return "resolved"
    if market.closes is not None and from_milliseconds(market.closes) - margin <= now:
        return "closed, or closes soon"
    return None


def parse_answers(market: ManifoldMarketRecord, complaints: list[str]) -> list[ManifoldAnswerRecord]:
    """Return the valid answers, each once, in their order."""
    found: dict[str, ManifoldAnswerRecord] = {}
    for record in market.answers or ():
        try:
            answer = parse_record(
                ManifoldAnswerRecord, record, f"{record_name(record, 'answer')} of market {market.id}"
            )
        except MalformedDataError as error:
            complaints.append(str(error))
        else:
            found.setdefault(answer.id, answer)
    return sorted(found.values(), key=lambda answer: answer.index)


def parse_market(record: object, *, now: datetime) -> ManifoldParsedMarket:
    """Return the questions of a FullMarket, without resolved answers.

    Raises MalformedDataError for an invalid market; an invalid answer is only skipped if answers resolve independently.
    """
    market = parse_record(ManifoldMarketRecord, record, record_name(record))
    unpacked = ManifoldParsedMarket(market)
    try:
        if KIND_BY_TYPE.get(market.type) in {"binary", "pseudo_numeric"}:
            unpacked.questions.append(_market_question(market, now))
        elif market.type in KIND_BY_TYPE:
            _parse_answer_questions(market, unpacked, now)
    except ValueError as error:
        message = f"market {market.id}: {error}"
        raise MalformedDataError(message) from error
    return unpacked


def options_by_answer(market: ManifoldMarketRecord) -> dict[str, str]:
    """Return the names of the options of a market where one answer wins, by the ids of the answers.

    Raises MalformedDataError if one of them is invalid.
    """
    complaints: list[str] = []
    answers = parse_answers(market, complaints)
    if complaints:
        raise MalformedDataError(complaints[0])
    names = option_names([answer.text for answer in answers])
    return {answer.id: name for answer, name in zip(answers, names, strict=True)}


def choice_from_prices(prices: Sequence[tuple[str, float]]) -> ChoicePrediction:
    """Return prices by option as probabilities: they sum to 1 except for rounding and the moment of reading.

    Raises ValueError for invalid prices.
    """
    total = math.fsum(price for _, price in prices)
    if total <= 0.0:
        message = f"prices that sum to {total} are invalid"
        raise ValueError(message)
    return ChoicePrediction({name: price / total for name, price in prices})


def market_scale(market: ManifoldMarketRecord) -> ManifoldScale:
    """Return the scale of a pseudo-numeric market; raises ValueError if it has none."""
    if market.low is None or market.high is None:
        message = "a pseudo-numeric market without its ends"
        raise ValueError(message)
    return ManifoldScale(low=market.low, high=market.high, logarithmic=bool(market.logarithmic))


def curve_shape(market: ManifoldMarketRecord) -> CurveShape:
    """Return the grid of a pseudo-numeric market: even steps of the price, from end to end.

    Values beyond the ends pay as the ends do, so both are closed.
    """
    scale = market_scale(market)
    inner = [scale.value(step / (GRID_POINTS - 1)) for step in range(1, GRID_POINTS - 1)]
    return CurveShape(grid=(scale.low, *inner, scale.high))


def market_background(market: ManifoldMarketRecord) -> str:
    """Return the description; the creator resolves by it, and extends it over time."""
    if market.text is not None:
        return clean_text(market.text)
    if isinstance(market.description, str):
        return clean_text(market.description)
    return clean_text("".join(_document_texts(market.description, 0)))


def clean_text(text: str) -> str:
    """Return a text that can be encoded, without surrounding blanks."""
    return text.encode(errors="replace").decode().strip()


def _document_texts(node: object, depth: int) -> list[str]:
    """Return the texts of a document of the venue's editor, paragraphs on separate lines."""
    if not isinstance(node, dict) or depth > _MAX_DOCUMENT_DEPTH:
        return []
    if isinstance(node.get("text"), str):
        return [node["text"]]
    content = node.get("content")
    inner = (
        [text for child in content for text in _document_texts(child, depth + 1)] if isinstance(content, list) else []
    )
    breaks = node.get("type") in {"paragraph", "heading", "listItem", "hardBreak", "blockquote", "codeBlock"}
    return [*inner, "\n"] if breaks else inner


def _market_question(market: ManifoldMarketRecord, now: datetime) -> Question:
    if KIND_BY_TYPE[market.type] == "pseudo_numeric":
        return _build_question(market, curve_shape(market))
    crowd = None
    if market.prob is not None:
        crowd = CrowdForecast(
            prediction=BinaryPrediction(market.prob),
            at=now,
            explanation=_describe_pool(market),
            liquidity=market.liquidity,
        )
    return _build_question(market, BinaryShape(), crowd=crowd)


def _parse_answer_questions(market: ManifoldMarketRecord, unpacked: ManifoldParsedMarket, now: datetime) -> None:
    answers = parse_answers(market, unpacked.complaints)
    if not market.is_linked:
        for answer in answers:
            if answer.resolution is not None:
                unpacked.skipped.append("an answer that is resolved")
                continue
            try:
                unpacked.questions.append(_answer_question(market, answer, now))
            except ValueError as error:
                unpacked.complaints.append(f"answer {answer.id} of market {market.id}: {error}")
        return
    if unpacked.complaints:
        raise MalformedDataError(unpacked.complaints[0])
    if len(answers) < 2:
        unpacked.skipped.append("with fewer than two answers")
        return
    names = option_names([answer.text for answer in answers])
    prices = [(name, answer.prob) for name, answer in zip(names, answers, strict=True) if answer.prob is not None]
    crowd = None
    if len(prices) == len(names):
        pools = "; ".join(
            f"{name}: {_describe_answer_pool(answer)}" for name, answer in zip(names, answers, strict=True)
        )
        crowd = CrowdForecast(
            prediction=choice_from_prices(prices),
            at=now,
            explanation=clean_text(f"pools {pools}"),
            liquidity=market.liquidity,
        )
    unpacked.questions.append(_build_question(market, ChoiceShape(options=names), crowd=crowd))


def _answer_question(market: ManifoldMarketRecord, answer: ManifoldAnswerRecord, now: datetime) -> Question:
    crowd = None
    if answer.prob is not None:
        crowd = CrowdForecast(
            prediction=BinaryPrediction(answer.prob), at=now, explanation=f"pool {_describe_answer_pool(answer)}, p 0.5"
        )
    return _build_question(market, BinaryShape(), answer=answer, crowd=crowd)


def _build_question(
    market: ManifoldMarketRecord,
    shape: QuestionShape,
    *,
    answer: ManifoldAnswerRecord | None = None,
    crowd: CrowdForecast | None = None,
) -> Question:
    closes = None if market.closes is None else from_milliseconds(market.closes)
    opens = None if market.created is None else from_milliseconds(market.created)
    if opens is not None and closes is not None and opens >= closes:
        opens = None
    title = market.question if answer is None else f"{market.question}: {answer.text}"
    return Question(
        ref=QuestionRef(VENUE, contract_name(market.id, "" if answer is None else answer.id)),
        title=clean_text(title),
        shape=shape,
        targets=(Target(resolves_at=closes),),
        background=market_background(market),
        criteria=_resolution_criteria(market, answer),
        url=None if market.url is None else clean_text(market.url),
        source=VENUE,
        series=market.id,
        opens_at=opens,
        closes_at=closes,
        crowd=crowd,
        event=clean_text(market.id),
        market=clean_text(market.id),
        slug=clean_text(market.slug or ""),
        creator=clean_text(market.creator or ""),
        creator_name=clean_text(market.creator_name or ""),
        category=clean_text((market.groups or [""])[0]),
        label="" if answer is None else clean_text(answer.text),
        facts=_question_facts(market, answer),
        tags=tuple(clean_text(group) for group in market.groups or ()),
    )


def _resolution_criteria(market: ManifoldMarketRecord, answer: ManifoldAnswerRecord | None) -> str:
    by = "The creator of the market resolves it by the text above; moderators may override."
    if answer is not None:
        of = _ANSWER_DESCRIPTIONS.get(KIND_BY_TYPE[market.type], "one of several answers")
        each = "each resolves independently, so more than one may be true"
        return f'{by} The answer "{clean_text(answer.text)}" is {of}; {each}.'
    if market.type == "PSEUDO_NUMERIC":
        scale = market_scale(market)
        kind = "logarithmic" if scale.logarithmic else "linear"
        return f"{by} A number between {scale.low:g} and {scale.high:g} ({kind}); beyond them it pays as at the end."
    return f"{by} Exactly one of the answers wins." if market.type in KIND_BY_TYPE and market.type != "BINARY" else by


def _question_facts(market: ManifoldMarketRecord, answer: ManifoldAnswerRecord | None) -> dict[str, str]:
    facts = {"type": market.type, "mechanism": market.mechanism or "", "token": market.token or MANA}
    if answer is not None:
        facts["answer"] = answer.id
        if answer.midpoint is not None:
            facts["midpoint"] = f"{answer.midpoint:.15g}"
    return {name: clean_text(value) for name, value in facts.items() if value}


def _describe_pool(market: ManifoldMarketRecord) -> str:
    if market.pool is None or market.p is None:
        return ""
    return f"pool YES {market.pool.yes:.6g}, NO {market.pool.no:.6g}, p {market.p:.6g}"


def _describe_answer_pool(answer: ManifoldAnswerRecord) -> str:
    return "not shown" if answer.pool is None else f"YES {answer.pool.yes:.6g}, NO {answer.pool.no:.6g}"


def is_cash_market(market: ManifoldMarketRecord) -> bool:
    """Return whether a market is traded in the venue's other currency."""
    return market.token == CASH
