"""The [venues.NAME] tables of config.toml.

Forecasters and exclusions, spending caps, trading rules, position sizing, paper trading and comment text.
"""

import re
from collections.abc import Iterable
from string import Formatter
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from bot.config.base_schema import ConfigName, ConfigSection, Hours, PluginTable, Seconds
from bot.domain.question import Question
from bot.domain.submission import Mode

# What may stand in braces.
COMMENT_PLACEHOLDERS = ("title", "answer", "forecast", "bet", "revision", "trials", "forecaster", "until", "reasons")


DEFAULT_COMMENT = (
    "{forecast}{bet} (revision {revision}, {trials} of {forecaster}, information until {until})\n{reasons}"
)


def _require_known_placeholders(template: str) -> str:
    try:
        parts = [part for part in Formatter().parse(template) if part[1] is not None]
    except ValueError as error:
        message = f"this is no template ({error}); a brace that is meant is written twice"
        raise ValueError(message) from None
    if strange := [name for _, name, form, turned in parts if name not in COMMENT_PLACEHOLDERS or form or turned]:
        places = ", ".join(f"{{{place}}}" for place in COMMENT_PLACEHOLDERS)
        message = f"{{{strange[0]}}} as it is written stands for nothing; there are {places}"
        raise ValueError(message)
    return template


CommentTemplate = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_require_known_placeholders)]


def _as_word_tuple(value: object) -> object:
    match value:
        case str():
            return (value,)
        # What comes from a file is checked strictly, and a list is no tuple there.
        case list():
            return tuple(value)
    return value


WordList = Annotated[
    tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...], BeforeValidator(_as_word_tuple)
]


class ChooseTable(ConfigSection):
    """Who forecasts the questions of a venue that are filed so; the first one's forecast leaves.

    A question fits where it has one of the words of each key that is there: ``tag``, ``tournament``, ``category`` and
    ``source``, in capitals or not, as the plugin of the venue names them (``foxcast show`` prints them).
    """

    tag: WordList = ()
    tournament: WordList = ()
    category: WordList = ()
    source: WordList = ()
    forecasters: tuple[ConfigName, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _require_criterion(self) -> Self:
        if not (self.tag or self.tournament or self.category or self.source):
            message = "says of no question that it fits: name a tag, tournament, category or source"
            raise ValueError(message)
        return self

    def covers(self, other: Self) -> bool:
        """Say whether whatever fits the other table fits this one too."""
        pairs = zip(self._criteria, other._criteria, strict=True)
        return all(not mine or (bool(yours) and _fold_case(yours) <= _fold_case(mine)) for mine, yours in pairs)

    def matches(self, question: Question) -> bool:
        """Say whether a question is filed so."""
        filed = (
            question.tags,
            question.tournaments,
            (question.facts.get("category", ""),),
            (question.source,),
        )
        pairs = zip(self._criteria, filed, strict=True)
        return all(not wanted or _fold_case(wanted) & _fold_case(there) for wanted, there in pairs)

    @property
    def _criteria(self) -> tuple[WordList, ...]:
        return (self.tag, self.tournament, self.category, self.source)


class ExcludeSection(ConfigSection):
    """Questions of a venue that are neither forecast nor bet on; what is held of them may still be sold.

    ``topics`` are tags, categories and tournaments, ``creators`` ids or names, ``questions`` the keys of questions, or
    ids, short names (slugs) or addresses of what they belong to; ``words`` are words or phrases of a title or answer.
    In capitals or not, as ``foxcast show`` prints them.
    """

    topics: WordList = ()
    creators: WordList = ()
    questions: WordList = ()
    words: WordList = ()

    def exclusion_reason(self, question: Question) -> str | None:
        """Say why a question is left out, or nothing."""
        facts = question.facts
        named = {
            "topics": (*question.tags, *question.tournaments, facts.get("category", "")),
            "creators": (facts.get("creator", ""), facts.get("creator_name", "")),
            "questions": (question.ref.key, str(question.ref), question.url or "", *map(facts.get, _PARENT_FACTS)),
        }
        for key, there in named.items():
            if found := _fold_case(getattr(self, key)) & _fold_case(name for name in there if name):
                return f"excluded by {key} = {min(found)!r} in config"
        said = f"{question.title}\n{facts.get('label', '')}"
        word = next((word for word in self.words if _contains_phrase(said, word)), None)
        return None if word is None else f"excluded by words = {word!r} in config"


# Facts that name what a question belongs to.
_PARENT_FACTS = ("market", "event", "slug")


def _contains_phrase(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def require_reachable_choices(tables: tuple[ChooseTable, ...]) -> tuple[ChooseTable, ...]:
    """Return the tables; raises ValueError where a single one before another fits all that this one could fit."""
    for number, table in enumerate(tables, 1):
        for before, earlier in enumerate(tables[: number - 1], 1):
            if earlier.covers(table):
                message = (
                    f"choose[{number - 1}] is never reached: all that fits it fits choose[{before - 1}], and the first "
                    "that fits counts; put it before that one, or take it out"
                )
                raise ValueError(message)
    return tables


def _fold_case(words: Iterable[str]) -> frozenset[str]:
    return frozenset(word.casefold() for word in words)


Amount = Annotated[float, Field(ge=0)]


Probability = Annotated[float, Field(ge=0, le=1)]


PositiveShare = Annotated[float, Field(gt=0, le=1)]


class CapsSection(ConfigSection):
    """The most that may be at stake at one venue, in its currency, in paper too; None is no limit of this kind.

    What is in doubt counts as spent. ``daily_loss`` and ``drawdown`` halt the venue until a person resumes it; more
    than ``doubts`` writes without a known outcome halt it until they are read back.
    """

    per_order: Amount | None = None
    per_question: Amount | None = None
    per_event: Amount | None = None
    per_creator: Amount | None = None
    per_category: Amount | None = None
    per_day: Amount | None = None
    total: Amount | None = None
    orders_per_hour: int | None = Field(default=None, ge=0)
    daily_loss: Amount | None = None
    drawdown: Amount | None = None
    doubts: int = Field(default=3, ge=0, le=1000)

    @model_validator(mode="after")
    def _require_usable_order_cap(self) -> "CapsSection":
        wider = {name: getattr(self, name) for name in ("per_question", "per_event", "per_creator", "per_category")}
        wider |= {"per_day": self.per_day, "total": self.total}
        for name, most in wider.items():
            if self.per_order is not None and most is not None and self.per_order > most:
                message = f"per_order = {self.per_order:g} is more than {name} = {most:g}, so it could never be used"
                raise ValueError(message)
        return self


class TradingSection(ConfigSection):
    """When a belief becomes an order, and how large.

    ``kelly`` is the share of the full Kelly stake, ``shrink`` moves the belief towards the market in log-odds first,
    ``edge`` is the least gain per share after fees, ``band`` the prices that are traded at, ``divergence`` the distance
    from the market, in log-odds, beyond which a person must look first (None: none).

    A position is sold whatever the belief once selling it would bring less than what it cost by the share ``stop_loss``
    of that, or more by the share ``take_profit`` (None: never). Its question is not bought for ``stay_out_h`` hours
    after that, nor after a person closed it.
    """

    kelly: Probability = 0.25
    shrink: Probability = 0.0
    edge: Probability = 0.03
    band: tuple[Probability, Probability] = (0.03, 0.97)
    divergence: float | None = Field(default=None, gt=0)
    stop_loss: float | None = Field(default=None, gt=0, le=1)
    take_profit: float | None = Field(default=None, gt=0)
    stay_out_h: float = Field(default=168.0, ge=0, le=366 * 24)

    @model_validator(mode="after")
    def _require_price_band(self) -> "TradingSection":
        if self.band[0] >= self.band[1]:
            message = f"band = [{self.band[0]:g}, {self.band[1]:g}] holds no price; the first must be below the second"
            raise ValueError(message)
        return self


class BankrollSection(ConfigSection):
    """How large stakes may be beside each other: shares of what the account is worth, 1 is no limit of this kind.

    ``per_pass`` is for all that one pass buys, the others for what is at stake in one question, in one event, by the
    orders of one day (UTC) and in all. ``correlation`` is that of the legs of one event: at 1 they count as one bet
    that is won or lost as a whole, at 0 as so many bets. A stake that would be less than ``least``, in the venue's
    currency, is left for a later pass.
    """

    per_pass: PositiveShare = 0.10
    per_question: PositiveShare = 0.05
    per_event: PositiveShare = 0.10
    per_day: PositiveShare = 0.25
    total: PositiveShare = 0.75
    correlation: Probability = 1.0
    least: Amount = 1.0


class PaperSection(ConfigSection):
    """The paper book: the cash it is begun with, and the seconds after which an order meets the market."""

    cash: float = Field(default=1000.0, gt=0)
    delay_s: float = Field(default=2.0, ge=0, le=3600)


class VenueTable(PluginTable):
    """One venue: its mode where it differs from the common one, and who forecasts; the first one's forecast leaves.

    ``choose`` names others for some of its questions; the first table that fits a question counts. What ``exclude``
    names nobody forecasts, and nothing of it leaves. ``comment_template`` is what a comment says.

    Nothing leaves in the last ``close_margin_s`` before a question closes. ``approval_h`` is how long a person's
    approval is waited for, and how long it holds. ``discover_every_s`` replaces that of the daemon.
    """

    mode: Mode | None = None
    forecasters: tuple[ConfigName, ...] = Field(min_length=1)
    choose: Annotated[tuple[ChooseTable, ...], AfterValidator(require_reachable_choices)] = ()
    exclude: ExcludeSection = ExcludeSection()
    account: str = Field(default="default", min_length=1, max_length=100)
    comment: bool = False
    comment_template: CommentTemplate = DEFAULT_COMMENT
    close_margin_s: float = Field(default=60.0, ge=0, le=30 * 86_400)
    approval_h: Hours = 12.0
    discover_every_s: Seconds | None = None
    caps: CapsSection = CapsSection()
    trading: TradingSection = TradingSection()
    bankroll: BankrollSection = BankrollSection()
    paper: PaperSection = PaperSection()

    @property
    def all_forecasters(self) -> tuple[str, ...]:
        """All who forecast some of its questions, each once."""
        chosen = (name for table in self.choose for name in table.forecasters)
        return tuple(dict.fromkeys((*self.forecasters, *chosen)))

    def forecasters_of(self, question: Question) -> tuple[str, ...]:
        """Return who forecasts a question, the one whose forecast leaves first."""
        return next((table.forecasters for table in self.choose if table.matches(question)), self.forecasters)
