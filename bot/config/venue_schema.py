"""The [venues.NAME] tables of config.toml.

Forecasters and exclusions, spending caps, trading rules, position sizing, paper trading and comment text.
"""

import re
from collections.abc import Iterable
from string import Formatter
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from bot.config.base_schema import ConfigName, ConfigSection, Hours, PluginTable, Seconds
from bot.core.questions import Question
from bot.core.submissions import ExecutionMode

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
    """Who forecasts the questions of a venue that fit one word of each key that is set.

    Capitals do not matter; `foxcast show` prints the words of a question.
    """

    tag: WordList = ()
    """Tags; a question fits if it has one of them. Unset: any."""

    tournament: WordList = ()
    """Tournaments; a question fits if it is in one of them. Unset: any."""

    category: WordList = ()
    """Categories; a question fits if it is in one of them. Unset: any."""

    source: WordList = ()
    """Sources; a question fits if it comes from one of them. Unset: any."""

    forecasters: tuple[ConfigName, ...] = Field(min_length=1)
    """Who forecasts these questions; the forecast of the first one is submitted."""

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
    """Questions of a venue that are neither forecast nor bet on; positions in them may still be sold.

    Capitals do not matter; `foxcast show` prints the words of a question.
    """

    topics: WordList = ()
    """Tags, categories and tournaments whose questions are left out."""

    creators: WordList = ()
    """Names or ids of creators whose questions are left out."""

    questions: WordList = ()
    """Questions that are left out: by key, or by id, short name or address of their market."""

    words: WordList = ()
    """Words or phrases of a title or answer whose questions are left out."""

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
    """The most that may be at stake at one venue, in its currency, on paper too.

    What is being sent or of unknown outcome counts as spent. ``daily_loss`` and ``drawdown`` halt the venue until a
    person resumes it; too many writes of unknown outcome halt it until they are settled.
    """

    per_order: Amount | None = None
    """The largest cost of one order; unset: no limit."""

    per_question: Amount | None = None
    """The most at stake in one question; unset: no limit."""

    per_event: Amount | None = None
    """The most at stake in questions that are decided together; unset: no limit."""

    per_creator: Amount | None = None
    """The most at stake in questions of one creator; unset: no limit."""

    per_category: Amount | None = None
    """The most at stake in one category; unset: no limit."""

    per_day: Amount | None = None
    """The most that the orders of one day (UTC) may cost; unset: no limit."""

    total: Amount | None = None
    """The most at stake at the venue; unset: no limit."""

    orders_per_hour: int | None = Field(default=None, ge=0)
    """Orders an hour, or forecasts where nothing is paid; unset: no limit."""

    daily_loss: Amount | None = None
    """The loss of one day (UTC) beyond which the venue stops until `foxcast resume`; unset: no limit."""

    drawdown: Amount | None = None
    """The loss since the highest account value beyond which the venue stops until `foxcast resume`; unset: no limit."""

    unknown_writes: int = Field(default=3, ge=0, le=1000)
    """Writes of unknown outcome beyond which the venue stops until all of them are settled."""

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
    """When a belief becomes an order, and how large."""

    kelly: Probability = 0.25
    """The share of the full Kelly stake."""

    shrink: Probability = 0.0
    """How far the belief is moved towards the market price first, in log-odds; 1 is all the way."""

    edge: Probability = 0.03
    """The least expected gain per share, after fees."""

    band: tuple[Probability, Probability] = (0.03, 0.97)
    """The lowest and the highest price that is traded at."""

    divergence: float | None = Field(default=None, gt=0)
    """The distance from the market price, in log-odds, beyond which a person must approve; unset: none."""

    stop_loss: float | None = Field(default=None, gt=0, le=1)
    """Sell once a position would bring less than it cost by this share; unset: never."""

    take_profit: float | None = Field(default=None, gt=0)
    """Sell once a position would bring more than it cost by this share; unset: never."""

    cooldown_h: float = Field(default=168.0, ge=0, le=366 * 24)
    """Hours in which a question is not bought again after such a sale or after `foxcast close`."""

    @model_validator(mode="after")
    def _require_price_band(self) -> "TradingSection":
        if self.band[0] >= self.band[1]:
            message = f"band = [{self.band[0]:g}, {self.band[1]:g}] holds no price; the first must be below the second"
            raise ValueError(message)
        return self


class BankrollSection(ConfigSection):
    """How large stakes may be together: shares of what the account is worth, 1 is no limit."""

    per_pass: PositiveShare = 0.10
    """The largest share of the account that one pass may spend; more is scaled down in proportion."""

    per_question: PositiveShare = 0.05
    """The largest share of the account at stake in one question."""

    per_event: PositiveShare = 0.10
    """The largest share of the account at stake in questions that are decided together."""

    per_day: PositiveShare = 0.25
    """The largest share of the account that the orders of one day (UTC) may cost."""

    total: PositiveShare = 0.75
    """The largest share of the account at stake in all."""

    correlation: Probability = 1.0
    """Correlation of the legs of one event: at 1 they count as one bet, at 0 as independent bets."""

    min_stake: Amount = 1.0
    """The smallest stake, in the venue's currency; a smaller one waits for a later pass."""


class PaperSection(ConfigSection):
    """The paper book: its first cash, and how late an order meets the market."""

    cash: float = Field(default=1000.0, gt=0)
    """Cash that the paper book starts with, in the venue's currency."""

    delay_s: float = Field(default=2.0, ge=0, le=3600)
    """Seconds after which a paper order meets the market."""


class VenueTable(PluginTable):
    """One venue: its mode where it differs from the common one, who forecasts, and what may be submitted."""

    mode: ExecutionMode | None = None
    """What the venue is used for; unset: the mode at the top of the file."""

    forecasters: tuple[ConfigName, ...] = Field(min_length=1)
    """Who forecasts its questions; all are scored, and the forecast of the first one is submitted."""

    choose: Annotated[tuple[ChooseTable, ...], AfterValidator(require_reachable_choices)] = ()
    """Other forecasters for some of its questions; the first table that fits counts."""

    exclude: ExcludeSection = ExcludeSection()
    """Questions that are neither forecast nor bet on."""

    account: str = Field(default="default", min_length=1, max_length=100)
    """A name that keeps the submissions of several accounts at one venue apart."""

    comment: bool = False
    """Post a comment with each forecast, where the venue takes comments."""

    comment_template: CommentTemplate = DEFAULT_COMMENT
    """The text of a comment, with placeholders in braces such as `{forecast}` and `{reasons}`."""

    close_margin_s: float = Field(default=60.0, ge=0, le=30 * 86_400)
    """Seconds before a question closes in which nothing is submitted."""

    approval_h: Hours = 12.0
    """Hours that a person's approval is waited for, and that it stays valid."""

    discover_every_s: Seconds | None = None
    """Seconds between searches for questions; unset: as in `[daemon]`, or sooner where the plugin says so."""

    caps: CapsSection = CapsSection()
    """The most that may be at stake, in the venue's currency."""

    trading: TradingSection = TradingSection()
    """When a belief becomes an order, and how large."""

    bankroll: BankrollSection = BankrollSection()
    """How large stakes may be together, as shares of the account."""

    paper: PaperSection = PaperSection()
    """The paper book of a venue that takes orders."""

    @property
    def all_forecasters(self) -> tuple[str, ...]:
        """All who forecast some of its questions, each once."""
        chosen = (name for table in self.choose for name in table.forecasters)
        return tuple(dict.fromkeys((*self.forecasters, *chosen)))

    def forecasters_of(self, question: Question) -> tuple[str, ...]:
        """Return who forecasts a question, the one whose forecast leaves first."""
        return next((table.forecasters for table in self.choose if table.matches(question)), self.forecasters)
