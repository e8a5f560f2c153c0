"""What comes before the gate: a forecast, the lane it would leave by, and all that stands around both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import inf

from bot.config.venue_schema import (
    DEFAULT_COMMENT,
    BankrollSection,
    CapsSection,
    ChooseTable,
    ExcludeSection,
    TradingSection,
)
from bot.domain.forecast import Forecast
from bot.domain.order import Order, Plan, Side
from bot.domain.permission import Approval, Arm, Exposure, Usage
from bot.domain.question import Question
from bot.domain.submission import Hold, Intent, IntentAction, Mode
from bot.ids import derive_id
from bot.store.codec import stamp
from bot.store.stops import Stop

# How long a hold that time or a person may lift stands before the question is put again.
ASK_AGAIN = timedelta(minutes=10)
# A market without a good price is looked at again after so long; one that moves far is forecast again before.
PLAN_AGAIN = timedelta(hours=1)

LIVE_MODES = frozenset({Mode.APPROVE, Mode.LIVE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One venue's way out: its mode, whose forecasts leave, under which account, and within which limits.

    Forecasts of ``primary`` leave, but for questions that a table in ``choose`` fits, and of those that ``exclude``
    names nothing. ``comment``: the reasons of a forecast that stands are left there too, in the words of ``template``.
    ``digest`` is that of the configuration that an arm record for it is bound to.
    """

    venue: str
    mode: Mode
    primary: str
    account: str
    caps: CapsSection = field(default_factory=CapsSection)
    trading: TradingSection = field(default_factory=TradingSection)
    bankroll: BankrollSection = field(default_factory=BankrollSection)
    close_margin: timedelta = timedelta()
    approval: timedelta = timedelta(hours=12)
    comment: bool = False
    template: str = DEFAULT_COMMENT
    digest: str = ""
    choose: tuple[ChooseTable, ...] = ()
    exclude: ExcludeSection = field(default_factory=ExcludeSection)

    @property
    def may_lead(self) -> frozenset[str]:
        """All whose forecasts leave of some questions, where that depends on the question; else nobody."""
        chosen = [table.forecasters[0] for table in self.choose]
        return frozenset((self.primary, *chosen)) if chosen else frozenset()

    def leader(self, question: Question) -> str:
        """Return whose forecast of a question leaves."""
        return next((table.forecasters[0] for table in self.choose if table.matches(question)), self.primary)

    def excludes(self, question: Question, order: Order | None) -> str | None:
        """Say why a question is left out, or nothing; what is held of it may be sold."""
        sells = order is not None and order.side is Side.SELL
        return None if sells else self.exclude.exclusion_reason(question)

    @property
    def live(self) -> bool:
        """Whether anything real would leave by it."""
        return self.mode in LIVE_MODES


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One forecast before the gate, with what already stands for its question in this lane.

    ``forecast_on`` is the question as it was when it was forecast (None where that is not asked), ``stops`` are all
    that stand, ``arm`` the newest record of the lane, ``lacking`` names what a live lane still lacks, ``approval`` is
    what a person was asked about the forecast last. ``clairvoyant``: the forecast was made as one that may see the
    future; ``apart``: as one that a person only wanted to see. ``trades`` says that the venue takes orders; ``plan`` is
    then what to do, and ``usage`` what is at stake.

    ``worth`` is what the account is worth, None where that is not asked; ``in_pass`` is what was bought in this pass
    before, and ``part`` the most that this order may cost beside the others of the pass. ``closed_at`` is when a
    position in the question was closed last whatever the belief.
    """

    lane: Lane
    forecast: Forecast
    question: Question
    standing: Intent | None
    locked: str | None
    now: datetime
    forecast_on: Question | None = None
    stops: Sequence[Stop] = ()
    arm: Arm | None = None
    lacking: Sequence[str] = ()
    approval: Approval | None = None
    clairvoyant: bool = False
    apart: bool = False
    trades: bool = False
    plan: Plan | None = None
    usage: Usage = field(default_factory=Usage)
    worth: float | None = None
    in_pass: float = 0.0
    part: float = inf
    closed_at: datetime | None = None

    @property
    def order(self) -> Order | None:
        """The order that would leave, if one would."""
        return None if self.plan is None else self.plan.order

    @property
    def binding(self) -> bool:
        """Whether the window binds as it does live: orders need an open market on paper too."""
        return self.lane.live or self.trades

    def later(self, why: str, after: timedelta = ASK_AGAIN) -> Hold:
        """Return a hold that is looked at again."""
        return Hold(why=why, until=self.now + after)


def on_paper(lanes: Mapping[str, Lane]) -> frozenset[str]:
    """Return the venues whose account is a paper book."""
    return frozenset(venue for venue, lane in lanes.items() if not lane.live)


def exposure_of(question: Question) -> Exposure:
    """Return with what else an order on the question stands or falls, as its venue tells."""
    facts = question.facts
    return Exposure(event=facts.get("event", ""), creator=facts.get("creator", ""), category=facts.get("category", ""))


def intent_of(case: Case) -> Intent:
    """Return the intent of the case; the same case always has the same intent id."""
    lane, forecast, order = case.lane, case.forecast, case.order
    action = IntentAction.FORECAST if order is None else IntentAction.ORDER
    # A position may be closed in parts, each by an order of its own.
    closing = [order.contract, order.leg, stamp(case.now)] if order is not None and order.closing else []
    intent_id = derive_id("intent", lane.venue, lane.account, str(forecast.ref), forecast.id, action, *closing)
    return Intent(
        id=intent_id,
        account=lane.account,
        ref=forecast.ref,
        forecast=forecast.id,
        action=action,
        predictions=forecast.predictions,
        batch=intent_id if order is not None else case.question.batch or intent_id,
        order=order,
        exposure=exposure_of(case.question),
    )
