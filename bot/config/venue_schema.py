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

# The names allowed in braces.
COMMENT_PLACEHOLDERS = ("title", "answer", "forecast", "bet", "revision", "trials", "forecaster", "until", "reasons")
DEFAULT_COMMENT = (
    "{forecast}{bet} (revision {revision}, {trials} of {forecaster}, information until {until})\n{reasons}"
)


def _require_known_placeholders(template: str) -> str:
    try:
        parts = [part for part in Formatter().parse(template) if part[1] is not None]
    except ValueError as error:
        message = f"is not a valid template ({error}); write {{{{ or }}}} for a brace"
        raise ValueError(message) from None
    if invalid := [
        name for _, name, spec, conversion in parts if name not in COMMENT_PLACEHOLDERS or spec or conversion
    ]:
        valid = ", ".join(f"{{{name}}}" for name in COMMENT_PLACEHOLDERS)
        message = f"{{{invalid[0]}}} is not a placeholder; valid: {valid}, without format or conversion"
        raise ValueError(message)
    return template


CommentTemplate = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_require_known_placeholders)]


def _as_word_tuple(value: object) -> object:
    match value:
        case str():
            return (value,)
        # Strict validation of a file does not accept a list for a tuple.
        case list():
            return tuple(value)
    return value


WordList = Annotated[
    tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...], BeforeValidator(_as_word_tuple)
]


class ChooseTable(ConfigSection):
    """The forecasters of those questions of a venue that match one word of each key that is set.

    Case does not matter; `foxcast show` prints the words of a question.
    """

    tag: WordList = ()
    """Tags; a question matches if it has one of them. Unset: any."""

    tournament: WordList = ()
    """Tournaments; a question matches if it is in one of them. Unset: any."""

    category: WordList = ()
    """Categories; a question matches if it is in one of them. Unset: any."""

    source: WordList = ()
    """Sources; a question matches if it comes from one of them. Unset: any."""

    forecasters: tuple[ConfigName, ...] = Field(min_length=1)
    """The forecasters of these questions; the forecast of the first one is submitted."""

    @model_validator(mode="after")
    def _require_criterion(self) -> Self:
        if not (self.tag or self.tournament or self.category or self.source):
            message = "matches no question: set tag, tournament, category or source"
            raise ValueError(message)
        return self

    def covers(self, other: Self) -> bool:
        """Return whether every question that matches the other table matches this one too."""
        pairs = zip(self._criteria, other._criteria, strict=True)
        return all(not words or (bool(others) and _fold_case(others) <= _fold_case(words)) for words, others in pairs)

    def matches(self, question: Question) -> bool:
        """Return whether a question matches."""
        labels = (
            question.tags,
            question.tournaments,
            (question.category,),
            (question.source,),
        )
        pairs = zip(self._criteria, labels, strict=True)
        return all(not words or _fold_case(words) & _fold_case(found) for words, found in pairs)

    @property
    def _criteria(self) -> tuple[WordList, ...]:
        return (self.tag, self.tournament, self.category, self.source)


class ExcludeSection(ConfigSection):
    """Questions of a venue that are neither forecast nor traded; positions in them may still be sold.

    Case does not matter; `foxcast show` prints the words of a question.
    """

    topics: WordList = ()
    """Tags, categories and tournaments whose questions are excluded."""

    creators: WordList = ()
    """Names or ids of creators whose questions are excluded."""

    questions: WordList = ()
    """Questions that are excluded: by key, or by id, short name or address of their market."""

    words: WordList = ()
    """Words or phrases of a title or answer whose questions are excluded."""

    def exclusion_reason(self, question: Question) -> str | None:
        """Return why a question is excluded, or None."""
        names_by_key = {
            "topics": (*question.tags, *question.tournaments, question.category),
            "creators": (question.creator, question.creator_name),
            "questions": (
                *(question.ref.key, str(question.ref), question.url or ""),
                *(question.market, question.event, question.slug),
            ),
        }
        for key, names in names_by_key.items():
            if found := _fold_case(getattr(self, key)) & _fold_case(name for name in names if name):
                return f"excluded by {key} = {min(found)!r} in config"
        text = f"{question.title}\n{question.label}"
        word = next((word for word in self.words if _contains_phrase(text, word)), None)
        return None if word is None else f"excluded by words = {word!r} in config"


def _contains_phrase(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def require_reachable_choices(tables: tuple[ChooseTable, ...]) -> tuple[ChooseTable, ...]:
    """Return the tables; raises ValueError if a table before another one matches all questions of that one."""
    for number, table in enumerate(tables, 1):
        for earlier_number, earlier in enumerate(tables[: number - 1], 1):
            if earlier.covers(table):
                message = (
                    f"choose[{number - 1}] is never reached: all its questions match choose[{earlier_number - 1}], and "
                    "the first table that matches counts; move it before that one, or remove it"
                )
                raise ValueError(message)
    return tables


def _fold_case(words: Iterable[str]) -> frozenset[str]:
    return frozenset(word.casefold() for word in words)


Amount = Annotated[float, Field(ge=0)]
Probability = Annotated[float, Field(ge=0, le=1)]
PositiveShare = Annotated[float, Field(gt=0, le=1)]


class CapsSection(ConfigSection):
    """The maximum amounts at stake at one venue, in its currency, also on paper.

    Submissions in flight or of unknown outcome count as spent. ``daily_loss`` and ``drawdown`` halt the venue until a
    person resumes it; too many writes of unknown outcome halt it until they are settled.
    """

    per_order: Amount | None = None
    """The largest cost of one order; unset: no limit."""

    per_question: Amount | None = None
    """The largest amount at stake in one question; unset: no limit."""

    per_event: Amount | None = None
    """The largest amount at stake in questions that are decided together; unset: no limit."""

    per_creator: Amount | None = None
    """The largest amount at stake in questions of one creator; unset: no limit."""

    per_category: Amount | None = None
    """The largest amount at stake in one category; unset: no limit."""

    per_day: Amount | None = None
    """The largest total cost of the orders of one day (UTC); unset: no limit."""

    total: Amount | None = None
    """The largest amount at stake at the venue; unset: no limit."""

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
        for name, limit in wider.items():
            if self.per_order is not None and limit is not None and self.per_order > limit:
                message = f"per_order = {self.per_order:g} is more than {name} = {limit:g}, so it could never be used"
                raise ValueError(message)
        return self


class TradingSection(ConfigSection):
    """When a belief becomes an order, and how large."""

    kelly: Probability = 0.25
    """The share of the full Kelly stake."""

    shrink: Probability = 0.0
    """How far the belief is moved towards the market price first, in log-odds; 0: not at all, 1: to the price."""

    edge: Probability = 0.03
    """The minimum expected gain per share, after fees."""

    band: tuple[Probability, Probability] = (0.03, 0.97)
    """The lowest and the highest price for trades."""

    divergence: float | None = Field(default=None, gt=0)
    """The distance from the market, in log-odds, beyond which a person must approve; unset: none.

    Of a number or a date it is the largest at the quartiles of the market."""

    stop_loss: float | None = Field(default=None, gt=0, le=1)
    """Sell a position once it would lose this share of its cost; unset: never."""

    take_profit: float | None = Field(default=None, gt=0)
    """Sell a position once it would gain this share of its cost; unset: never."""

    cooldown_h: float = Field(default=168.0, ge=0, le=366 * 24)
    """Hours in which a question is not bought again after such a sale or after `foxcast close`."""

    @model_validator(mode="after")
    def _require_price_band(self) -> "TradingSection":
        if self.band[0] >= self.band[1]:
            message = (
                f"band = [{self.band[0]:g}, {self.band[1]:g}] contains no price; the first must be below the second"
            )
            raise ValueError(message)
        return self


class BankrollSection(ConfigSection):
    """How large all stakes together may be, as shares of the value of the account; 1: no limit."""

    per_pass: PositiveShare = 0.10
    """The largest share of the account that one pass may spend; more is scaled down in proportion."""

    per_question: PositiveShare = 0.05
    """The largest share of the account at stake in one question."""

    per_event: PositiveShare = 0.10
    """The largest share of the account at stake in questions that are decided together."""

    per_day: PositiveShare = 0.25
    """The largest share of the account that the orders of one day (UTC) may cost."""

    total: PositiveShare = 0.75
    """The largest share of the account at stake in total."""

    correlation: Probability = 1.0
    """Correlation of the legs of one event: at 1 they count as one bet, at 0 as independent bets."""

    min_stake: Amount = 1.0
    """The smallest stake, in the venue's currency; a smaller one waits for a later pass."""


class PaperSection(ConfigSection):
    """The paper book: its initial cash, and the delay of its orders."""

    cash: float = Field(default=1000.0, gt=0)
    """Cash that the paper book starts with, in the venue's currency."""

    delay_s: float = Field(default=2.0, ge=0, le=3600)
    """Seconds after which a paper order is matched with the market."""


class VenueTable(PluginTable):
    """One venue: its mode, its forecasters, and what may be submitted."""

    mode: ExecutionMode | None = None
    """The mode of the venue; unset: the mode at the top of the file."""

    forecasters: tuple[ConfigName, ...] = Field(min_length=1)
    """The forecasters of its questions; all are scored, and the forecast of the first one is submitted."""

    choose: Annotated[tuple[ChooseTable, ...], AfterValidator(require_reachable_choices)] = ()
    """Other forecasters for some of its questions; the first table that matches counts."""

    exclude: ExcludeSection = ExcludeSection()
    """Questions that are neither forecast nor traded."""

    account: str = Field(default="default", min_length=1, max_length=100)
    """A name that distinguishes the submissions of several accounts at one venue."""

    hand_trading: bool = False
    """A person trades on the same account; unset: what the account did and Foxcast did not do stops the venue."""

    comment: bool = False
    """Post a comment with each forecast, if the venue accepts comments."""

    comment_template: CommentTemplate = DEFAULT_COMMENT
    """The text of a comment, with placeholders in braces such as `{forecast}` and `{reasons}`."""

    close_margin_s: float = Field(default=60.0, ge=0, le=30 * 86_400)
    """Seconds before a question closes in which nothing is submitted."""

    approval_h: Hours = 12.0
    """Hours to wait for a person's approval, and hours that it stays valid."""

    discover_every_s: Seconds | None = None
    """Seconds between searches for questions; unset: as in `[daemon]`, or sooner where the plugin says so."""

    caps: CapsSection = CapsSection()
    """The maximum amounts at stake, in the venue's currency."""

    trading: TradingSection = TradingSection()
    """When a belief becomes an order, and how large."""

    bankroll: BankrollSection = BankrollSection()
    """How large all stakes together may be, as shares of the account."""

    paper: PaperSection = PaperSection()
    """The paper book of a venue with orders."""

    @property
    def all_forecasters(self) -> tuple[str, ...]:
        """All forecasters of any of its questions, each once."""
        chosen = (name for table in self.choose for name in table.forecasters)
        return tuple(dict.fromkeys((*self.forecasters, *chosen)))

    def forecasters_of(self, question: Question) -> tuple[str, ...]:
        """Return the forecasters of a question; the forecast of the first one is submitted."""
        return next((table.forecasters for table in self.choose if table.matches(question)), self.forecasters)
