"""From a FullMarket to questions: which, of what shape, with what text and what price.

A market where one answer wins is one question; of one whose answers resolve by themselves each answer is one. The key
of a question is what is traded: the id of the market, or ``market/answer``.
Source: venue document, section 4.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bot.api import (
    Binary,
    BinaryShape,
    Choice,
    ChoiceShape,
    ContractError,
    Crowd,
    CurveShape,
    Question,
    QuestionRef,
    Shape,
    Target,
)
from plugins.manifold.raw import RawAnswer, RawMarket, moment_of, name_of, parsed
from plugins.manifold.scale import Scale
from plugins.manifold.settings import CASH, MANA, VENUE, Kind
from plugins.manifold.state import contract_of, option_names

KINDS: dict[str, Kind] = {
    "BINARY": "binary",
    "MULTIPLE_CHOICE": "multiple_choice",
    "PSEUDO_NUMERIC": "pseudo_numeric",
    "MULTI_NUMERIC": "number",
    "DATE": "date",
    "NUMBER": "legacy_number",
}
GRID = 201
_MOST_DEPTH = 60
_WORDS_OF_OPTIONS = {"number": "a range or a threshold", "date": "a date, a range of dates or a threshold"}


@dataclass(slots=True)
class Unpacked:
    """A market, its questions, and what was left out of it and why."""

    market: RawMarket
    questions: list[Question] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def objection(market: RawMarket, now: datetime, margin: timedelta) -> str | None:
    """Say why a market cannot be forecast now, whoever asks; None where it can."""
    if market.type not in KINDS:
        return f"of the type {market.type[:40]}, which is not forecast"
    if market.is_resolved:
        return "resolved"
    if market.closes is not None and moment_of(market.closes) - margin <= now:
        return "closed, or about to"
    return None


def answers_of(market: RawMarket, complaints: list[str]) -> list[RawAnswer]:
    """Return the answers that can be read, each once, in their order."""
    found: dict[str, RawAnswer] = {}
    for record in market.answers or ():
        try:
            answer = parsed(RawAnswer, record, f"{name_of(record, 'answer')} of market {market.id}")
        except ContractError as error:
            complaints.append(str(error))
        else:
            found.setdefault(answer.id, answer)
    return sorted(found.values(), key=lambda answer: answer.index)


def unpack(record: object, *, now: datetime) -> Unpacked:
    """Return the questions of a FullMarket, with answers that are resolved left out.

    Raises ContractError for a market that cannot be read; an answer that cannot is left out alone where it resolves by
    itself.
    """
    market = parsed(RawMarket, record, name_of(record))
    unpacked = Unpacked(market)
    try:
        if KINDS.get(market.type) in {"binary", "pseudo_numeric"}:
            unpacked.questions.append(_whole(market, now))
        elif market.type in KINDS:
            _unpack_answers(market, unpacked, now)
    except ValueError as error:
        message = f"market {market.id}: {error}"
        raise ContractError(message) from error
    return unpacked


def options_of(market: RawMarket) -> dict[str, str]:
    """Return the names of the options of a market where one answer wins, by the ids of the answers.

    Raises ContractError where one of them cannot be read.
    """
    complaints: list[str] = []
    answers = answers_of(market, complaints)
    if complaints:
        raise ContractError(complaints[0])
    names = option_names([answer.text for answer in answers])
    return {answer.id: name for answer, name in zip(answers, names, strict=True)}


def choice_at(prices: Sequence[tuple[str, float]]) -> Choice:
    """Return prices by option as probabilities: they sum to 1 but for rounding and the moment of reading.

    Raises ValueError for prices that are none.
    """
    total = math.fsum(price for _, price in prices)
    if total <= 0.0:
        message = f"prices that sum to {total} are none"
        raise ValueError(message)
    return Choice({name: price / total for name, price in prices})


def scale_of(market: RawMarket) -> Scale:
    """Return the scale of a pseudo-numeric market; raises ValueError where it has none."""
    if market.low is None or market.high is None:
        message = "a pseudo-numeric market without its ends"
        raise ValueError(message)
    return Scale(low=market.low, high=market.high, logarithmic=bool(market.logarithmic))


def curve_shape(market: RawMarket) -> CurveShape:
    """Return the grid of a pseudo-numeric market: even steps of the price, from end to end.

    What lies beyond the ends pays as the ends do, so both are closed.
    """
    scale = scale_of(market)
    inner = [scale.value(step / (GRID - 1)) for step in range(1, GRID - 1)]
    return CurveShape(grid=(scale.low, *inner, scale.high))


def background_of(market: RawMarket) -> str:
    """Return the text that goes with the title; the creator resolves by it, and adds to it over time."""
    if market.text is not None:
        return cleaned(market.text)
    if isinstance(market.description, str):
        return cleaned(market.description)
    return cleaned("".join(_told(market.description, 0)))


def cleaned(text: str) -> str:
    """Return a text that any file can hold, without blanks around it."""
    return text.encode(errors="replace").decode().strip()


def _told(node: object, depth: int) -> list[str]:
    """Return the texts of a document of the venue's editor, paragraphs in lines of their own."""
    if not isinstance(node, dict) or depth > _MOST_DEPTH:
        return []
    if isinstance(node.get("text"), str):
        return [node["text"]]
    content = node.get("content")
    inner = [text for child in content for text in _told(child, depth + 1)] if isinstance(content, list) else []
    breaks = node.get("type") in {"paragraph", "heading", "listItem", "hardBreak", "blockquote", "codeBlock"}
    return [*inner, "\n"] if breaks else inner


def _whole(market: RawMarket, now: datetime) -> Question:
    if KINDS[market.type] == "pseudo_numeric":
        return _question(market, curve_shape(market))
    crowd = None
    if market.prob is not None:
        crowd = Crowd(prediction=Binary(market.prob), at=now, explanation=_pool_of(market))
    return _question(market, BinaryShape(), crowd=crowd)


def _unpack_answers(market: RawMarket, unpacked: Unpacked, now: datetime) -> None:
    answers = answers_of(market, unpacked.complaints)
    if not market.is_linked:
        for answer in answers:
            if answer.resolution is not None:
                unpacked.skipped.append("an answer that is resolved")
                continue
            try:
                unpacked.questions.append(_about(market, answer, now))
            except ValueError as error:
                unpacked.complaints.append(f"answer {answer.id} of market {market.id}: {error}")
        return
    if unpacked.complaints:
        raise ContractError(unpacked.complaints[0])
    if len(answers) < 2:
        unpacked.skipped.append("with fewer than two answers")
        return
    names = option_names([answer.text for answer in answers])
    prices = [(name, answer.prob) for name, answer in zip(names, answers, strict=True) if answer.prob is not None]
    crowd = None
    if len(prices) == len(names):
        pools = "; ".join(f"{name}: {_sides(answer)}" for name, answer in zip(names, answers, strict=True))
        crowd = Crowd(prediction=choice_at(prices), at=now, explanation=cleaned(f"pools {pools}"))
    unpacked.questions.append(_question(market, ChoiceShape(options=names), crowd=crowd))


def _about(market: RawMarket, answer: RawAnswer, now: datetime) -> Question:
    crowd = None
    if answer.prob is not None:
        crowd = Crowd(prediction=Binary(answer.prob), at=now, explanation=f"pool {_sides(answer)}, p 0.5")
    return _question(market, BinaryShape(), answer=answer, crowd=crowd)


def _question(
    market: RawMarket, shape: Shape, *, answer: RawAnswer | None = None, crowd: Crowd | None = None
) -> Question:
    closes = None if market.closes is None else moment_of(market.closes)
    opens = None if market.created is None else moment_of(market.created)
    if opens is not None and closes is not None and opens >= closes:
        opens = None
    title = market.question if answer is None else f"{market.question}: {answer.text}"
    return Question(
        ref=QuestionRef(VENUE, contract_of(market.id, "" if answer is None else answer.id)),
        title=cleaned(title),
        shape=shape,
        targets=(Target(resolves_at=closes),),
        background=background_of(market),
        criteria=_criteria(market, answer),
        url=None if market.url is None else cleaned(market.url),
        source=VENUE,
        series=market.id,
        opens_at=opens,
        closes_at=closes,
        crowd=crowd,
        facts=_facts(market, answer),
        tags=tuple(cleaned(group) for group in market.groups or ()),
    )


def _criteria(market: RawMarket, answer: RawAnswer | None) -> str:
    by = "The creator of the market resolves it by the text above; moderators may override."
    if answer is not None:
        of = _WORDS_OF_OPTIONS.get(KINDS[market.type], "one of several answers")
        each = "each resolves by itself, so more than one may be true"
        return f'{by} The answer "{cleaned(answer.text)}" is {of}; {each}.'
    if market.type == "PSEUDO_NUMERIC":
        scale = scale_of(market)
        kind = "logarithmic" if scale.logarithmic else "linear"
        return f"{by} A number between {scale.low:g} and {scale.high:g} ({kind}); beyond them it pays as at the end."
    return f"{by} Exactly one of the answers wins." if market.type in KINDS and market.type != "BINARY" else by


def _facts(market: RawMarket, answer: RawAnswer | None) -> dict[str, str]:
    facts = {
        "market": market.id,
        "event": market.id,
        "creator": market.creator or "",
        "creator_name": market.creator_name or "",
        "category": (market.groups or [""])[0],
        "type": market.type,
        "mechanism": market.mechanism or "",
        "token": market.token or MANA,
        "slug": market.slug or "",
    }
    if answer is not None:
        facts["answer"] = answer.id
        facts["label"] = answer.text
        if answer.midpoint is not None:
            facts["midpoint"] = f"{answer.midpoint:.15g}"
    return {name: cleaned(value) for name, value in facts.items() if value}


def _pool_of(market: RawMarket) -> str:
    if market.pool is None or market.p is None:
        return ""
    return f"pool YES {market.pool.yes:.6g}, NO {market.pool.no:.6g}, p {market.p:.6g}"


def _sides(answer: RawAnswer) -> str:
    return "not shown" if answer.pool is None else f"YES {answer.pool.yes:.6g}, NO {answer.pool.no:.6g}"


def is_cash(market: RawMarket) -> bool:
    """Say whether a market is traded in the venue's other currency."""
    return market.token == CASH
