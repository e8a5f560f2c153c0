"""Rules for an answer beyond its schema.

The criteria restated before an extreme answer, independent sources, length and rounding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from bot.api import (
    BinaryPrediction,
    ChoicePrediction,
    Json,
    Prediction,
    Question,
    ShownSource,
    TargetPredictions,
    parsing,
)

BOTTOM_LINE = "bottom_line"
RATIONALE = "rationale"
CRITERIA_RESTATED = "criteria_restated"
BOTTOM_CHARS = 400
REASON_CHARS = 6000
RESTATED_CHARS = 2000

# With fewer words than these beyond the title, or fewer of the question's own, a text does not restate the question.
_NEW_WORDS = 4
_OWN_WORDS = 3
# Nearer to certainty than this, a tenth of a percent matters; options are counted in thousandths.
_FINE_RANGE = 0.1
_PARTS = 1000
_WORD = re.compile(r"\w{3,}")
_ADDRESS = re.compile(r"https?://([^\s/\"'<>\])]+)", re.IGNORECASE)
_HOST = re.compile(r"\b(?:[a-z0-9-]{1,63}\.)+[a-z]{2,24}\b", re.IGNORECASE)
_TOKEN = re.compile(r"\w+")
# Second parts of names such as example.co.uk, which have no owner.
_SHARED = frozenset({"ac", "co", "com", "edu", "gov", "net", "or", "org"})
# Tools that bring data of a source of their own.
_PAGES = "fetch_"
_DATA = ("series_", "market_", _PAGES)
_SEARCH, _LOOKUP = "web_search", "lookup_url"


class SeenSources:
    """The independent sources of a trial: sites, and data of its tools; invented sources do not count."""

    def __init__(self) -> None:
        # By site, and by the kind of a tool of data; and the site of each search result by its name.
        self._behind: dict[str, str] = {}
        self._results: dict[str, str] = {}
        self._tools: set[str] = set()

    def add_result(self, tool: str, shown: Sequence[ShownSource] = (), url: str = "") -> None:
        """Remember the result of a tool; ``url`` is the address that was read, if one was.

        A search result belongs to the site of its own address, not to those that its text names. The output of other
        tools, such as a program, is no source at all.
        """
        if tool == _SEARCH:
            for source in shown:
                self._know(_address_site(source.url), _address_site(source.url))
                self._results[source.name] = _address_site(source.url)
        elif tool == _LOOKUP:
            self._know(_address_site(url), _address_site(url))
        elif tool.startswith(_DATA):
            # A series and the values computed from it have one source; so do the headings of a page and its text.
            self._tools.add(tool)
            self._behind.setdefault(_tool_family(tool), _tool_family(tool))
            if tool.startswith(_PAGES) and tool.endswith("_section"):
                for source in shown:
                    self._know(_tool_family(tool), _address_site(source.url))

    def find_cited(self, texts: Iterable[str]) -> set[str]:
        """Return the sources that the texts name, by address, by name, by a tool or by the name of a result."""
        text = "\n".join(texts)
        named = [self._results.get(token, "") for token in _TOKEN.findall(text)]
        named += map(_host_site, _HOST.findall(text))
        named += [_tool_family(tool) for tool in self._tools if tool in text]
        return {self._behind[name] for name in named if name in self._behind}

    def _know(self, name: str, site: str) -> None:
        if site:
            self._behind.update({name: site, site: site})


def is_extreme(predictions: TargetPredictions, extreme: float) -> bool:
    """Say whether an answer is nearly certain of anything; a low share of one option of many is not."""
    return any(_largest_probability(prediction) >= extreme for prediction in predictions.values())


def limit_extremes(predictions: TargetPredictions, extreme: float) -> TargetPredictions:
    """Return the answer, bounded by the limit for extreme values."""
    return {key: _limit_extreme(prediction, extreme) for key, prediction in predictions.items()}


def round_predictions(predictions: TargetPredictions) -> TargetPredictions:
    """Return the answer in whole percent, with one decimal below 10 % and above 90 %.

    Shares of options have one decimal, still sum to 1, and none that was possible is 0.
    """
    return {key: _round_prediction(prediction) for key, prediction in predictions.items()}


def restatement_fault(raw: Json, question: Question, least: int) -> str | None:
    """Say why a text does not restate the criteria of the question; None if it does, as far as words show."""
    text = parsing.read_text(raw, RESTATED_CHARS)
    if len(text) < least:
        return (
            f"{CRITERIA_RESTATED} should say in {least} characters or more what exactly must happen, "
            "by when, and who decides"
        )
    words, title = _word_set(text), _word_set(question.title)
    if len(words - title) < _NEW_WORDS:
        return f"{CRITERIA_RESTATED} should say more than the title does"
    if len(words & _word_set(f"{question.title} {question.background} {question.criteria}")) < _OWN_WORDS:
        return f"{CRITERIA_RESTATED} should be about the criteria of this question"
    return None


def length_fault(arguments: Mapping[str, Json], words: int) -> str | None:
    """Say why a rationale is too long; None if it is not."""
    count = len(parsing.read_text(arguments.get(RATIONALE), REASON_CHARS).split())
    return f"{RATIONALE} has {count} words, and {words} are the most" if count > words else None


def bottom_line_fault(arguments: Mapping[str, Json]) -> str | None:
    """Say that the bottom line is missing; None if it is there."""
    text = parsing.read_text(arguments.get(BOTTOM_LINE), BOTTOM_CHARS)
    return None if text else f"{BOTTOM_LINE} should say in one sentence what you conclude"


def join_reasons(arguments: Mapping[str, Json], words: int) -> str:
    """Return the given reason: the bottom line, then the rationale, cut if it is too long."""
    rationale = parsing.read_text(arguments.get(RATIONALE), REASON_CHARS)
    if length_fault(arguments, words):
        rationale = f"{' '.join(rationale.split()[:words])} ..."
    return "\n".join(part for part in (parsing.read_text(arguments.get(BOTTOM_LINE), BOTTOM_CHARS), rationale) if part)


def _largest_probability(prediction: Prediction) -> float:
    match prediction:
        case BinaryPrediction(probability=probability):
            return max(probability, 1.0 - probability)
        case ChoicePrediction(probabilities=shares):
            return max(shares.values())
        case _:
            return 0.0


def _limit_extreme(prediction: Prediction, extreme: float) -> Prediction:
    match prediction:
        case BinaryPrediction(probability=probability):
            return BinaryPrediction(min(max(probability, 1.0 - extreme), extreme))
        case ChoicePrediction(probabilities=shares) if max(shares.values()) > extreme:
            most = max(shares, key=lambda option: shares[option])
            # Their sum, not 1 minus the rest: if that is tiny, its relative error is large.
            rest = math.fsum(share for option, share in shares.items() if option != most)
            others = {
                option: (1.0 - extreme) * (share / rest if rest else 1.0 / (len(shares) - 1))
                for option, share in shares.items()
            }
            return ChoicePrediction({**others, most: extreme})
        case _:
            return prediction


def _round_prediction(prediction: Prediction) -> Prediction:
    match prediction:
        case BinaryPrediction(probability=probability):
            fine = round(probability, 3 if probability < _FINE_RANGE or probability > 1.0 - _FINE_RANGE else 2)
            return BinaryPrediction(min(max(fine, 0.001), 0.999) if 0.0 < probability < 1.0 else probability)
        case ChoicePrediction(probabilities=shares) if len(shares) <= _PARTS:
            return ChoicePrediction({option: parts / _PARTS for option, parts in _to_thousandths(shares).items()})
        case _:
            return prediction


def _to_thousandths(shares: Mapping[str, float]) -> dict[str, int]:
    """Return shares in thousandths that sum to 1000, by largest remainder, at least 1 for possible options."""
    whole = {option: max(int(_PARTS * share), int(share > 0.0)) for option, share in shares.items()}
    by_lack = sorted(shares, key=lambda option: whole[option] - _PARTS * shares[option])
    missing = _PARTS - sum(whole.values())
    for option in by_lack[:missing] if missing > 0 else ():
        whole[option] += 1
    for _ in range(-missing):
        whole[max(whole, key=lambda option: whole[option])] -= 1
    return whole


def _word_set(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _address_site(address: str) -> str:
    """Return the site of an address, "" for an invalid one."""
    host = _ADDRESS.match(address)
    return _host_site(host[1].rpartition("@")[2]) if host is not None else ""


def _tool_family(tool: str) -> str:
    """Return the common name of the tools of one source: ``series`` of series_history and series_model."""
    return tool.rpartition("_")[0]


def _host_site(host: str) -> str:
    """Return the part of a host name that one owner has."""
    parts = host.casefold().partition(":")[0].strip(".").split(".")
    wide = len(parts) > 2 and len(parts[-1]) == 2 and parts[-2] in _SHARED
    return ".".join(parts[-3:] if wide else parts[-2:])
