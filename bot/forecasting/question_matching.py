"""Which questions of different venues ask the same, found by their words, numbers, names and dates, without a model.

Two questions are candidates if their titles share enough rare words (the cosine of TF-IDF vectors) and their dates are
near. They are the same by all checks if in addition nothing is left that only one of them says: the same words once
spellings are normalised, the same names in the same order, numbers, negation and deadline. The checks are strict on
purpose: a wrong pair brings a wrong price, a missed one only an unused price. Source of TF-IDF: K. Sparck Jones, A
statistical interpretation of term specificity, Journal of Documentation 28 (1972).
"""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib import resources

from bot.core.light_dataclass import dataclass
from bot.core.predictions import ChoiceShape
from bot.core.questions import Question, QuestionRef

# A pair of titles with a lower cosine is no candidate.
MIN_SIMILARITY = 0.5
# Deadlines further apart make different questions; venues close the same question some days apart.
MAX_CANDIDATE_GAP = timedelta(days=45)
MAX_SAME_GAP = timedelta(days=1)
MAX_CLOSING_GAP = timedelta(days=3)
# An event such as the 2026 World Cup decides by itself when its questions end.
MAX_EVENT_CLOSING_GAP = timedelta(days=60)
# Words in more titles than this share find no candidates, and are still compared.
COMMON_SHARE, LEAST_COMMON = 0.02, 40
# A question is compared with this many others that share its rarest words.
MAX_COMPARED = 60

_WORD = re.compile(r"[$€£]?\d[\d,]*(?:\.\d+)?%?(?:[a-z]+)?|[a-z]+(?:['\u2019][a-z]+)?|[^\W\d_]+")
_NUMBER = re.compile(r"([$€£]?)(\d[\d,]*(?:\.\d+)?)(%?)([a-z]*)")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>20\d\d)"
_LEAD = r"(?P<lead>(?:\b(?:by|before|until|till|through|in|during|on|or|of|as|at|prior|to|the|end|close|eod|eoy)\s+)*)"
# The forms of a date in a title, the most exact first; a lead such as "before" says whether the day itself counts.
_DATES = tuple(
    re.compile(_LEAD + form, re.IGNORECASE)
    for form in (
        r"\b(?P<year>20\d\d)-(?P<number>\d\d)-(?P<day>\d\d)\b",
        rf"\b{_MONTH}\s+{_DAY}\s*,?\s+{_YEAR}\b",
        rf"\b{_DAY}\s+{_MONTH}\s*,?\s+{_YEAR}\b",
        rf"\b{_MONTH}\s*,?\s+{_YEAR}\b",
        r"\bq(?P<quarter>[1-4])\s+(?P<year>20\d\d)\b",
        rf"\b{_MONTH}\s+{_DAY}\b(?!\s*,?\s*20\d\d)",
        rf"(?<=\bof |\bby |\bin ){_MONTH}(?=\s*(?:[?.,;:)]|$))",
        rf"(?<=\bbefore ){_MONTH}(?=\s*(?:[?.,;:)]|$))",
        r"\bend\s+of\s+(?P<year>20\d\d)\b",
        r"\b(?P<year>20\d\d)\b",
    )
)
_BEFORE = re.compile(r"\b(?:before|prior\s+to)\b(?!.*\bend\b)", re.IGNORECASE)
_WINDOW_LEAD = re.compile(r"\b(?:in|during)\s*$", re.IGNORECASE)
_DEADLINE_LEAD = re.compile(r"\b(?:by|before|until|till|through|in|during|end|prior|eoy)\b", re.IGNORECASE)
# A tag that a venue or an author puts in front of or behind a title, such as "[ACX 2026]".
_TAG = re.compile(r"^\s*\[[^\]]*\]|\[[^\]]*\]\s*$")
_NEGATION = re.compile(r"\b(?:not|no|never|without|fails?|avoid|cannot|neither|nor)\b|n['\u2019]t\b", re.IGNORECASE)
_MAGNITUDES = {
    **dict.fromkeys(("k", "thousand"), 1e3),
    **dict.fromkeys(("m", "mm", "mn", "million"), 1e6),
    **dict.fromkeys(("b", "bn", "billion"), 1e9),
    **dict.fromkeys(("t", "tn", "trillion"), 1e12),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFeatures:
    """What a title says: content words and numbers in order, names in order, negations, years of events, dates.

    ``deadline`` is the last day that counts and ``window_start`` a first day that is still to come, where the title
    names them; ``window_year`` is the year of a title that says no more than "in 2026".
    """

    ref: QuestionRef
    place: tuple[str, str]
    kind: tuple[str, ...]
    words: tuple[str, ...]
    names: tuple[str, ...]
    negations: int
    event_years: frozenset[int]
    deadline: date | None
    window_start: date | None
    window_year: int | None
    closes_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionMatch:
    """Two questions that may ask the same: the cosine of their titles, and whether all checks find them the same."""

    first: QuestionRef
    second: QuestionRef
    similarity: float
    is_exact: bool


@dataclass(slots=True)
class _TitleDates:
    """The dates in a title: last days, first days of windows, years of windows, and years that belong to events."""

    last: list[date] = field(default_factory=list)
    first: list[date] = field(default_factory=list)
    window_years: list[int] = field(default_factory=list)
    event_years: list[int] = field(default_factory=list)


def read_features(question: Question, *, today: date) -> QuestionFeatures:
    """Return what the title, kind and dates of a question say on a day: a window that has begun has no start."""
    # A contest that shows markets of others says when those close.
    closes_at = question.market_closes_at or question.closes_at
    rest, dates = _split_dates(_plain_title(question.title), closes_at)
    words = tuple(_content_words(rest))
    return QuestionFeatures(
        ref=question.ref,
        place=(question.ref.venue, question.source),
        kind=_question_kind(question),
        words=words,
        names=_names(rest),
        negations=len(_NEGATION.findall(rest)),
        event_years=frozenset(dates.event_years),
        deadline=max(dates.last, default=None),
        window_start=min((day for day in dates.first if day > today), default=None),
        window_year=min(dates.window_years, default=None),
        closes_at=closes_at,
    )


def match_questions(questions: Sequence[QuestionFeatures]) -> list[QuestionMatch]:
    """Return the candidates among questions of different places, the most similar first; each pair once.

    The cost grows with the number of questions, not with its square: each is compared with at most ``MAX_COMPARED``
    others, those that share its rarest words.
    """
    counts = Counter(word for one in questions for word in set(one.words))
    vectors = [_unit_vector(one, counts, len(questions)) for one in questions]
    found = []
    for place, others in enumerate(_comparable(questions, counts)):
        for other in others:
            similarity = sum(weight * vectors[other].get(word, 0.0) for word, weight in vectors[place].items())
            first, second = questions[place], questions[other]
            if similarity >= MIN_SIMILARITY and _may_be_same(first, second):
                left, right = sorted((first, second), key=lambda one: str(one.ref))
                match = QuestionMatch(
                    first=left.ref,
                    second=right.ref,
                    similarity=min(1.0, similarity),
                    is_exact=are_same_by_all_checks(left, right),
                )
                found.append(match)
    return sorted(found, key=lambda one: (not one.is_exact, -one.similarity, str(one.first), str(one.second)))


def are_same_by_all_checks(first: QuestionFeatures, second: QuestionFeatures) -> bool:
    """Say whether two titles ask the same by words, names and their order, numbers, negation and dates."""
    return (
        first.kind == second.kind
        and first.negations == second.negations
        and set(first.words) == set(second.words)
        and bool(first.words)
        and _same_order(first.names, second.names)
        and _same_time(first, second)
    )


def _question_kind(question: Question) -> tuple[str, ...]:
    shape = question.shape
    dated = "series" if any(target.horizon_days is not None for target in question.targets) else ""
    options = sorted(option.casefold() for option in shape.options) if isinstance(shape, ChoiceShape) else ()
    return (shape.kind, dated, str(len(question.targets)), *options)


def _plain_title(title: str) -> str:
    plain = unicodedata.normalize("NFKD", _TAG.sub("", title).replace("\u2019", "'"))
    return " ".join("".join(char for char in plain if not unicodedata.combining(char)).split())


def _split_dates(title: str, closes_at: datetime | None) -> tuple[str, _TitleDates]:
    """Return the title without its dates, and the dates."""
    dates = _TitleDates()
    for form in _DATES:
        while found := form.search(title):
            _add_date(dates, title, found, closes_at)
            title = f"{title[: found.start()]} {title[found.end() :]}"
    return title, dates


def _add_date(dates: _TitleDates, title: str, found: re.Match[str], closes_at: datetime | None) -> None:
    parts, lead = found.groupdict(), title[: found.start()] + (found.groupdict().get("lead") or "")
    is_bare_year = not any(parts.get(name) for name in ("month", "number", "quarter"))
    if is_bare_year and not (_DEADLINE_LEAD.search(found.group()) and _ends_clause(title, found)):
        dates.event_years.append(int(parts["year"]))
        return
    period = _read_period(parts, closes_at)
    if period is None:
        return
    first, last = period
    if _BEFORE.search(lead[-20:]):
        last = first - timedelta(days=1)
    elif _WINDOW_LEAD.search(lead) and not parts.get("day"):
        dates.first.append(first)
        dates.window_years += [first.year] if is_bare_year else []
    dates.last.append(last)


def _ends_clause(title: str, found: re.Match[str]) -> bool:
    """Say whether a year is the end of a clause, such as "in 2026, will ...", and no part of a name."""
    after = title[found.end() :].lstrip()
    return not after or after[0] in ",;:?(" or not after[0].isupper()


def _read_period(parts: Mapping[str, str | None], closes_at: datetime | None) -> tuple[date, date] | None:
    """Return the first and last day of a date; None for an impossible one. A missing year is that of the close."""
    year, month, day, quarter = (parts.get(name) for name in ("year", "month", "day", "quarter"))
    if year is None and closes_at is None:
        return None
    known_year = int(year) if year else closes_at.year if closes_at else 0
    number = _MONTHS.index(month[:3].casefold()) + 1 if month else int(parts.get("number") or 0)
    try:
        if day:
            only = date(known_year, number, int(day))
            return only, only
        first = date(known_year, number or (3 * int(quarter) - 2 if quarter else 1), 1)
    except ValueError:
        return None
    months = 1 if number else 3 if quarter else 12
    after = first.month + months - 1
    return first, date(first.year + after // 12, after % 12 + 1, 1) - timedelta(days=1)


def _content_words(text: str) -> Iterator[str]:
    plain = f" {' '.join(_WORD.findall(text.casefold()))} "
    for phrase, word in _phrases():
        plain = plain.replace(f" {phrase} ", f" {word} ")
    tokens = plain.split()
    for place, token in enumerate(tokens):
        if token in _fillers() or (
            token in _MAGNITUDES and len(token) > 2 and place and _NUMBER.match(tokens[place - 1])
        ):
            continue
        if number := _NUMBER.fullmatch(token):
            yield _number_word(number, tokens[place + 1] if place + 1 < len(tokens) else "")
        else:
            yield _stem(token)


def _number_word(number: re.Match[str], following: str) -> str:
    suffix = number[4] or (following if following in _MAGNITUDES and len(following) > 2 else "")
    percent = "%" if number[3] or following in {"percent", "%"} else ""
    unit = "" if suffix in _MAGNITUDES or suffix in {"st", "nd", "rd", "th", "percent"} else suffix
    return f"#{float(number[2].replace(',', '')) * _MAGNITUDES.get(suffix, 1.0):.10g}{percent}{unit}"


def _stem(word: str) -> str:
    word = word.replace("'s", "").replace("'", "")
    if word in _same_words():
        return _same_words()[word]
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", "e"), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)] + instead
            break
    return _same_words().get(word, word.rstrip("e") if len(word) > 4 else word)


def _names(text: str) -> tuple[str, ...]:
    """Return the capitalised words but for acronyms such as CEO, normalised, in order."""
    capitals = re.findall(r"\b[A-Z][\w'.&-]*", text)
    return tuple(word for capital in capitals if not _is_acronym(capital) for word in _content_words(capital))


def _is_acronym(word: str) -> bool:
    return word.isupper() and word.casefold() not in _same_words()


def _same_order(first: Sequence[str], second: Sequence[str]) -> bool:
    """Say whether the names that both have appear in the same order: who acts, and on whom."""
    both = set(first) & set(second)
    one, other = (list(dict.fromkeys(name for name in names if name in both)) for names in (first, second))
    return one == other


def _same_time(first: QuestionFeatures, second: QuestionFeatures) -> bool:
    if first.event_years != second.event_years:
        # "The 2026 election" and "the election in 2026".
        windows = (set(first.event_years) == {second.window_year}) or ({first.window_year} == set(second.event_years))
        return windows and _closing_gap(first, second) <= MAX_EVENT_CLOSING_GAP
    if first.window_start != second.window_start:
        return False
    if first.deadline is not None and second.deadline is not None:
        return first.deadline == second.deadline
    if first.deadline is None and second.deadline is None:
        allowed = MAX_EVENT_CLOSING_GAP if first.event_years else MAX_CLOSING_GAP
        return _closing_gap(first, second) <= allowed
    # Only one title names it, so the other must close on that day.
    named, other = (first, second) if first.deadline is not None else (second, first)
    if other.closes_at is None or named.deadline is None:
        return False
    return abs(other.closes_at.astimezone(UTC).date() - named.deadline) <= MAX_SAME_GAP


def _closing_gap(first: QuestionFeatures, second: QuestionFeatures) -> timedelta:
    if first.closes_at is None or second.closes_at is None:
        return timedelta.max
    return abs(first.closes_at - second.closes_at)


def _may_be_same(first: QuestionFeatures, second: QuestionFeatures) -> bool:
    if first.place == second.place or first.kind != second.kind:
        return False
    if first.deadline is not None and second.deadline is not None:
        return abs(first.deadline - second.deadline) <= MAX_CANDIDATE_GAP
    return True


def _unit_vector(one: QuestionFeatures, counts: Mapping[str, int], total: int) -> dict[str, float]:
    weights = {word: math.log((1 + total) / counts[word]) for word in set(one.words)}
    length = math.sqrt(sum(weight * weight for weight in weights.values()))
    return {word: weight / length for word, weight in weights.items()} if length > 0.0 else {}


def _comparable(questions: Sequence[QuestionFeatures], counts: Mapping[str, int]) -> Iterator[list[int]]:
    """Yield for each question the earlier ones that share its rarest words, those that share most first."""
    common = max(LEAST_COMMON, round(COMMON_SHARE * len(questions)))
    by_word: defaultdict[str, list[int]] = defaultdict(list)
    for place, one in enumerate(questions):
        rare = [word for word in dict.fromkeys(one.words) if counts[word] <= common]
        shared: Counter[int] = Counter()
        for word in rare:
            for other in by_word[word]:
                shared[other] += 1
            by_word[word].append(place)
        yield [other for other, _ in shared.most_common(MAX_COMPARED)]


@cache
def _word_lists() -> Mapping[str, tuple[str, ...]]:
    text = resources.files("bot.forecasting").joinpath("matching_words.txt").read_text(encoding="utf-8")
    lines = [line.partition(":") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {name.strip(): tuple(part.strip() for part in rest.split(",")) for name, _, rest in lines}


@cache
def _fillers() -> frozenset[str]:
    return frozenset(_word_lists()["-"])


@cache
def _same_words() -> Mapping[str, str]:
    lists = _word_lists()
    return {one: name for name, words in lists.items() if name != "-" for one in (name, *words) if " " not in one}


@cache
def _phrases() -> tuple[tuple[str, str], ...]:
    lists = _word_lists()
    found = [(one, name) for name, words in lists.items() for one in words if " " in one]
    return tuple(sorted(((one, "" if name == "-" else name) for one, name in found), key=lambda item: -len(item[0])))
