"""What is asked of an answer beyond its form: criteria restated before it is extreme, sources, length, rounding."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from bot.api import Binary, Choice, Json, Prediction, Predictions, Question, reading

BOTTOM_LINE = "bottom_line"
RATIONALE = "rationale"
RESTATED = "criteria_restated"
BOTTOM_CHARS = 400
REASON_CHARS = 6000
RESTATED_CHARS = 2000

# Fewer words than these beyond the title restate nothing; fewer than those of the question's own restate another one.
_NEW_WORDS = 4
_OWN_WORDS = 3
# Nearer to certainty than this, a tenth of a percent matters; options are counted in thousandths.
_FINE = 0.1
_PARTS = 1000
_WORD = re.compile(r"\w{3,}")
_ADDRESS = re.compile(r"https?://([^\s/\"'<>\])]+)", re.IGNORECASE)
_HOST = re.compile(r"\b(?:[a-z0-9-]{1,63}\.)+[a-z]{2,24}\b", re.IGNORECASE)
# A result of a search in the fence of the desk, which no text within can imitate: its title, then its address and day.
_FOUND = re.compile(
    r'<untrusted-([0-9a-f]+) label="(search_\d+_result_\d+)">\n'
    r"[^\n]*\n(\S+) \((?:no date|[0-9-]+)\)\n.*?</untrusted-\1>",
    re.DOTALL,
)
# A section of a page: the page, the heading, the address.
_SECTION = re.compile(r"<untrusted-[0-9a-f]+ [^\n]*\n[^\n]*\n[^\n]*\n(https?://\S+)")
_NAME = re.compile(r"\bsearch_\d+_result_\d+\b")
# Second parts of names such as example.co.uk, which belong to nobody.
_SHARED = frozenset({"ac", "co", "com", "edu", "gov", "net", "or", "org"})
# Tools that bring data of a source of their own.
_PAGES = "fetch_"
_DATA = ("series_", "market_", _PAGES)
_SEARCH, _LOOKUP = "web_search", "lookup_url"


class Sources:
    """Who stands behind what a trial was shown: sites, and data of the desk; what was made up counts for nothing."""

    def __init__(self) -> None:
        # By the number of a search result, by site, and by the kind of a tool of data.
        self._behind: dict[str, str] = {}
        self._tools: set[str] = set()

    def meet(self, tool: str, text: str, url: str = "") -> None:
        """Remember what a tool of the desk brought; ``url`` is the address that was read, if one was.

        A result of a search is of the site of its own address, not of those that its text names. What other tools
        print, a program say, is no source at all.
        """
        if tool == _SEARCH:
            for _, name, address in _FOUND.findall(text):
                self._know(name, _site_of(address))
        elif tool == _LOOKUP:
            self._know(_site_of(url), _site_of(url))
        elif tool.startswith(_DATA):
            # A series and what is computed from it are of one source; so are the headings of a page and its text.
            self._tools.add(tool)
            self._behind.setdefault(_kind(tool), _kind(tool))
            if tool.startswith(_PAGES) and tool.endswith("_section") and (section := _SECTION.match(text)) is not None:
                self._know(_kind(tool), _site_of(section[1]))

    def cited(self, texts: Iterable[str]) -> set[str]:
        """Return the sources that the texts name, by address, by name, by a tool or by the number of a result."""
        said = "\n".join(texts)
        named = [*_NAME.findall(said), *map(_site, _HOST.findall(said))]
        named += [_kind(tool) for tool in self._tools if tool in said]
        return {self._behind[name] for name in named if name in self._behind}

    def _know(self, name: str, site: str) -> None:
        if site:
            self._behind.update({name: site, site: site})


def is_extreme(predictions: Predictions, extreme: float) -> bool:
    """Say whether an answer is nearly certain of anything; a low share of one option of many is not."""
    return any(_most(prediction) >= extreme for prediction in predictions.values())


def held_back(predictions: Predictions, extreme: float) -> Predictions:
    """Return the answer with nothing beyond the bound of what is extreme."""
    return {key: _within(prediction, extreme) for key, prediction in predictions.items()}


def round_predictions(predictions: Predictions) -> Predictions:
    """Return the answer in whole percent, with one decimal below 10 % and above 90 %.

    Shares of options have one decimal, still sum to 1, and none that was possible is 0.
    """
    return {key: _rounded(prediction) for key, prediction in predictions.items()}


def why_not_restated(raw: Json, question: Question, least: int) -> str | None:
    """Say why a text does not restate the criteria of the question; None where it does, as far as words tell."""
    said = reading.text(raw, RESTATED_CHARS)
    if len(said) < least:
        return f"{RESTATED} should say in {least} characters or more what exactly must happen, by when, and who decides"
    words, title = _words(said), _words(question.title)
    if len(words - title) < _NEW_WORDS:
        return f"{RESTATED} should say more than the title does"
    if len(words & _words(f"{question.title} {question.background} {question.criteria}")) < _OWN_WORDS:
        return f"{RESTATED} should be about the criteria of this question"
    return None


def too_long(arguments: Mapping[str, Json], words: int) -> str | None:
    """Say why a rationale is too long; None where it is not."""
    count = len(reading.text(arguments.get(RATIONALE), REASON_CHARS).split())
    return f"{RATIONALE} has {count} words, and {words} are the most" if count > words else None


def no_bottom_line(arguments: Mapping[str, Json]) -> str | None:
    """Say that the bottom line is missing; None where it is there."""
    said = reading.text(arguments.get(BOTTOM_LINE), BOTTOM_CHARS)
    return None if said else f"{BOTTOM_LINE} should say in one sentence what you conclude"


def reason_of(arguments: Mapping[str, Json], words: int) -> str:
    """Return the reason that was given: the bottom line, then the rationale, cut where it is too long."""
    rationale = reading.text(arguments.get(RATIONALE), REASON_CHARS)
    if too_long(arguments, words):
        rationale = f"{' '.join(rationale.split()[:words])} ..."
    return "\n".join(part for part in (reading.text(arguments.get(BOTTOM_LINE), BOTTOM_CHARS), rationale) if part)


def _most(prediction: Prediction) -> float:
    match prediction:
        case Binary(probability=probability):
            return max(probability, 1.0 - probability)
        case Choice(probabilities=shares):
            return max(shares.values())
        case _:
            return 0.0


def _within(prediction: Prediction, extreme: float) -> Prediction:
    match prediction:
        case Binary(probability=probability):
            return Binary(min(max(probability, 1.0 - extreme), extreme))
        case Choice(probabilities=shares) if max(shares.values()) > extreme:
            most = max(shares, key=lambda option: shares[option])
            # Their sum, not what is missing to 1: where that is tiny, little of it is right.
            rest = math.fsum(share for option, share in shares.items() if option != most)
            others = {
                option: (1.0 - extreme) * (share / rest if rest else 1.0 / (len(shares) - 1))
                for option, share in shares.items()
            }
            return Choice({**others, most: extreme})
        case _:
            return prediction


def _rounded(prediction: Prediction) -> Prediction:
    match prediction:
        case Binary(probability=probability):
            fine = round(probability, 3 if probability < _FINE or probability > 1.0 - _FINE else 2)
            return Binary(min(max(fine, 0.001), 0.999) if 0.0 < probability < 1.0 else probability)
        case Choice(probabilities=shares) if len(shares) <= _PARTS:
            return Choice({option: parts / _PARTS for option, parts in _in_parts(shares).items()})
        case _:
            return prediction


def _in_parts(shares: Mapping[str, float]) -> dict[str, int]:
    """Return shares in thousandths that sum to 1000, by largest remainder, at least 1 for what was possible."""
    whole = {option: max(int(_PARTS * share), int(share > 0.0)) for option, share in shares.items()}
    by_lack = sorted(shares, key=lambda option: whole[option] - _PARTS * shares[option])
    missing = _PARTS - sum(whole.values())
    for option in by_lack[:missing] if missing > 0 else ():
        whole[option] += 1
    for _ in range(-missing):
        whole[max(whole, key=lambda option: whole[option])] -= 1
    return whole


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _site_of(address: str) -> str:
    """Return the site of an address, "" for what is none."""
    host = _ADDRESS.match(address)
    return _site(host[1].rpartition("@")[2]) if host is not None else ""


def _kind(tool: str) -> str:
    """Return what the tools of one source have in common: ``series`` of series_history and series_model."""
    return tool.rpartition("_")[0]


def _site(host: str) -> str:
    """Return the part of a host name that one owner has."""
    parts = host.casefold().partition(":")[0].strip(".").split(".")
    wide = len(parts) > 2 and len(parts[-1]) == 2 and parts[-2] in _SHARED
    return ".".join(parts[-3:] if wide else parts[-2:])
