"""The plan of a simulation, and what is drawn from its seed: venues, faults, pace, and how each life ends.

What the settings of the program are is drawn in ``drawn_config``; where ``SimulationPlan.drawn`` is false, they are
those that stand here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bot.core.clock import SeededRandom
from bot.simulator.environment import BALANCE, TRADING, VENUES
from bot.simulator.faults import RequestFault

if TYPE_CHECKING:
    import numpy as np

# The plugin of those who forecast without a world; it lies next to the folders of lives, so that no path tells where.
DRIFTER_FILE = Path(__file__).with_name("drifting_forecaster.py")
HOUR_S, DAY_S = 3_600.0, 86_400.0
# In how many seeds what waits is sent every few minutes, as it is by default, and not every few hours: more of those
# with Metaculus alone, where a pass that finds nothing is short.
SENDING_OFTEN, ALONE_OFTEN, SENDS_EVERY_S = 1 / 24, 1 / 2, 240.0
# How many questions close within a day, and the most days until one of the others does: a question is traded when it is
# new and when it ends, so a day sees little where few end.
SHORT, LONG_D = 2 / 3, 6.0
# How many kills at a write come at once, before its answer is on record.
BEFORE_RECORD = 1 / 2
# What an order, and all orders of a day and of an arm record may cost, where that is not drawn: less than is wanted on
# many a day.
CAPS: Mapping[str, float] = {"per_order": 10.0, "per_day": 40.0, "total": 2_000.0}
# What the signer signs in a day by itself, sent or not: less than most days' orders may cost, or more.
SIGNED_A_DAY = (15.0, 60.0)
# A few watch prices: it follows them every few seconds, which takes most of a simulated day's work.
WATCHING, WATCHED = 1 / 16, 3
PAPER = 1 / 5
# And of those with an account at Polymarket and another venue, where all that happens there is met by orders on paper.
SIGNED_PAPER = 1 / 3
# And of those where Manifold is beside another venue that is written to, without a world.
MANIFOLD_PAPER = 2 / 5
WORLDLY = 1 / 8
# Of the seeds without that world: which venues there are.
VENUE_SETS: Sequence[tuple[float, tuple[str, ...]]] = (
    (0.6, ("manifold", "metaculus")),
    (0.85, ("manifold",)),
    (1.01, ("metaculus",)),
)
# Of how many seeds orders at Polymarket are written, which a signer signs, without that world and with it; and which
# venues there are without it.
SIGNING, WORLDLY_SIGNING = 0.45, 1 / 2
SIGNED_VENUE_SETS: Sequence[tuple[float, tuple[str, ...]]] = (
    (0.35, ("polymarket",)),
    (0.75, ("manifold", "polymarket")),
    (1.01, ("metaculus", "polymarket")),
)
# Of the venues that are written to, at how many a person approves each submission.
APPROVING = 1 / 6
# For how many days venues are armed at a time, in half of the seeds, and what the orders of an arm record may cost.
ARMED_DAYS, ARMED_FOR = 31.0, (0.15, 2.0)
ARM_AMOUNTS: Mapping[str, tuple[float, float]] = {
    "per_order": (4.0, 12.0),
    "per_day": (12.5, 45.0),
    "total": (12.0, 60.0),
}
# What accounts begin with in some seeds, where cash is short; in most of those no share of the account bounds an order,
# so that cash itself does, and in the others shares that leave enough for an order.
SHORT_OF_CASH, SMALL_BALANCE, UNBOUNDED = 0.4, (15.0, 120.0), 0.6
WHOLE_ACCOUNT: Mapping[str, float] = dict.fromkeys(("per_pass", "per_question", "per_event", "per_day", "total"), 1.0)
SHARED_ACCOUNT: Mapping[str, float] = {"per_pass": 0.4, "per_question": 0.1, "per_event": 0.15, "per_day": 0.6}
# How many seeds have a second forecaster at each venue, which is scored alone; questions that are excluded, by words of
# their titles; and a configuration that is changed in mid-run.
SECOND_FORECASTER, EXCLUDING, CHANGING = 1 / 3, 1 / 3, 1 / 2
# And in how many of those with a second one, and without a world, a third one blends the answers of both.
BLENDING = 2 / 3
EXCLUDED_WORDS = ("lamp 1", "lamp 4", "row 5", "bridge 2", "cup 1", "harbour 0", "ship 2", "race 1")
# In how many seeds people are not called at night; a stale forecast is withdrawn at Metaculus; and venues cannot be
# reached for some time, which is looked for often.
QUIET_NIGHTS, WITHDRAWING, FAILING = 1 / 4, 1 / 4, 1 / 6
# And in how many some markets have an outcome hours before they would close, which is not known at once.
EARLY = 2 / 3
# And in how many creators close some markets later than they had said.
MOVING = 1 / 3
# And in how many of those with Metaculus it is too busy at times to take a forecast, and says so.
BUSY = 1 / 2
NIGHTS: Sequence[tuple[str, str]] = (("22:00-07:00", "UTC"), ("20:30-09:15", "Europe/Berlin"), ("01:00-14:00", "UTC"))
LOOKS_EVERY_S = 480.0
# In how many seeds somebody else writes to an account of Foxcast, from some share of the days on.
FOREIGN, FOREIGN_FROM = 1 / 4, (0.02, 0.4)
# How an event with several markets is asked at Polymarket: with one question for each market they share the caps of it.
GROUPINGS = ("choice", "markets")
ORDER_TYPES = ("FAK", "FAK", "FOK", "GTD", "GTD")
# An order that rests there does so for four minutes at least.
LEAST_LIFETIME_S = 240.0
# Faults that leave a write in doubt; half of the seeds have one of them often.
FREQUENT_FAULTS = (
    RequestFault.DROPPED_AFTER,
    RequestFault.ERROR_AFTER,
    RequestFault.LATE,
    RequestFault.PAGE_AFTER,
    RequestFault.HANGING_AFTER,
    RequestFault.STALE,
)
# In how many seeds a match at Polymarket is settled on chain after minutes, and after how many seconds.
SLOW_CHAIN, CONFIRMED_AFTER_S = 1 / 2, (30.0, 1_200.0)
# What is not filled at once rests for a minute, or for an hour.
LIFETIMES_S = (60.0, 3_600.0)
# In some seeds nobody acts and little goes wrong: positions stand, and are sold once a belief has turned against them.
QUIET, QUIET_ROUGHNESS = 1 / 4, 0.2
QUIET_TURNS_H, QUIET_STALE_H, QUIET_BOLDNESS, QUIET_CAUTION = (4.0, 9.0), (1.5, 4.0), 1.6, 3.0
# In some of those an account may lose so much in all, and any amount in a day: losses of several days stop it.
LOSING, LOST_IN_ALL, ANY_LOSS = 1 / 3, (6.0, 20.0), 1_000.0
# The signer signs away what the caps of orders leave, and a share of its cost at which a position is sold in some.
SIGNED_QUIETLY = 500.0
EXITS, EXIT_SHARE = 2 / 3, (0.03, 0.2)
# In how many seeds lists are as long as real ones, and how long they are in the others: an order on one of thirty
# linked answers takes as long to plan as the rest of its hour.
LONG_LISTS, LONG_LIST, SHORT_LIST = 1 / 4, 30, 7
# In how many seeds markets are shallow.
SHALLOW = 1 / 2
# In some seeds for longer than from one pass that buys to the next, in shares of that time.
PATIENT, PATIENT_ON_PAPER, PATIENCE = 1 / 4, 2 / 3, 2.25
# At a common pace. Passes that find nothing to do take most of a simulated day's work, so there are few.
RECONCILE_S = 7_200.0
PACES: Mapping[str, float] = {
    "requests": 1_800.0,
    "discover": 14_400.0,
    "forecast": 7_200.0,
    "submit": 7_200.0,
    "reconcile": RECONCILE_S,
    "resolve": 21_600.0,
    "score": 43_200.0,
    "backup": 43_200.0,
}
# Copies of the ledger are thinned out within a month of it, too.
BACKUP_GB = 0.05
# Dollars per million tokens, where the settings are drawn.
MODEL_PRICES: Mapping[str, float] = {"price_in": 2.0, "price_cached": 0.5, "price_out": 8.0}
DRIFTER, SECOND, BLF, BLEND, PAGER = "drifter", "drifter_second", "blf", "blend", "pager"

# How many lives are killed while forecasts are under way, after so many calls at most, and how many of those are not
# followed by the next one for hours.
KILLED_AT_CALLS, MOST_CALLS = 1 / 6, 40
LONG_PAUSE, LONG_PAUSE_S = 1 / 2, (1.2 * HOUR_S, 5.0 * HOUR_S)
# In how many seeds of those that trade, with enough cash, one bound alone is tight, so that no other one hides what
# goes beyond it: which, and at which amount. Orders are so small that several of them meet it.
TIGHT, SMALL_ORDER, WIDE = 2 / 5, 3.0, 500.0
# Forecasts are renewed in every other pass there, so that positions grow order by order, at times from one level of a
# book.
# What own orders on paper took of a level is known to Foxcast alone, so more of the seeds with such books are so.
TIGHT_ON_PAPER = 2 / 3
RENEWED_AFTER_H, RENEWED_GAP_H = 1.8 * PACES["forecast"] / HOUR_S, 0.5
TIGHT_AMOUNTS: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("caps.per_question", "bankroll.per_question"), (3.2, 7.0)),
    **dict.fromkeys(("caps.per_event", "bankroll.per_event"), (3.2, 5.5)),
    **dict.fromkeys(("caps.per_category", "bankroll.per_pass"), (5.0, 15.0)),
    **dict.fromkeys(("caps.per_day", "caps.total", "bankroll.per_day", "bankroll.total"), (8.0, 25.0)),
}
# Events with several questions of their own are at Polymarket alone, and only there where each market is a question.
OF_EVENTS = ("caps.per_event", "bankroll.per_event")

EndingKind = Literal["age", "kill", "kill at a write", "stop", "full disk", "storage fault"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationPlan:
    """How long, how rough, and what is broken in the program; ``people`` act on it, set clocks and fill disks.

    ``modes`` are those of the venues, where they are not drawn. ``closing``: somebody also closes positions at times.
    ``drawn``: the settings of the program are drawn from the seed too. ``has_storage_fault``: the caller lets a
    statement of the ledger fail, which may end the first life.
    """

    seed: int
    days: float = 3.0
    lives: int = 6
    faulty: bool = True
    people: bool = True
    closing: bool = False
    mutant: str | None = None
    modes: Mapping[str, str] | None = None
    drawn: bool = True
    has_storage_fault: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeEnding:
    """How a life ends: after ``turns`` of the loop, counted from the ``writes``-th write on, or ``after_s`` seconds.

    Or from the ``calls``-th call for a forecast on. The next life follows ``pause_s`` later, or soon.
    """

    manner: EndingKind
    turns: int = 0
    writes: int = 0
    calls: int = 0
    after_s: float = 0.0
    pause_s: float = 0.0


END_OF_TIME, STORAGE_FAULT = LifeEnding(manner="age"), LifeEnding(manner="storage fault")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationTraits:
    """What differs from seed to seed: venues and their sides, pace of jobs, what goes wrong how often, ends of lives.

    ``has_world``, the questions of a simulated world are there too, with its press, and a model that reads it.
    ``order_type`` is that of Polymarket, ``signed_a_day`` the dollars that its signer signs away.

    At the venues in ``approving`` a person approves each submission. Venues are armed for ``armed_days`` at a time,
    with ``arm_amounts``. ``has_second``: a second forecaster is scored, ``has_blend``: and a blend of both. Questions
    with one of the words in ``excluded`` are left out. The configuration changes with the first life after
    ``changes_at_s``. ``grouping`` is how Polymarket's events are asked. From ``foreign_from_s`` on somebody else writes
    to an account for some hours. Accounts that trade begin with ``balance``; ``uses_whole_account``: no share of it
    bounds an order.

    ``is_quiet``: people only permit, and beliefs turn every ``turns_every_h`` and are renewed after ``stale_after_h``.
    Positions are sold once they have lost, or gained, the share of their cost in ``exits``; an account stops once it
    has lost ``drawdown`` since its best value. ``is_shallow``: markets
    take little, so that an order moves the price, and only a part of a position is worth a sale. Lists have so many
    ``answers``. Matches at Polymarket are confirmed after ``confirmed_s``, 0: within seconds.
    ``answers``. At ``night``, hours in a time zone, only what is critical is told. ``withdraws``: what is stale is
    taken back. ``has_outages``: at times a venue cannot be reached. ``ends_early``: some markets resolve before their
    close. ``moves_closes``: some close later than was said. ``is_busy``: Metaculus refuses some forecasts for now.
    ``sends_often``: each few minutes. ``tight`` is
    the one bound that is tight where others are wide, with its amount.
    """

    modes: Mapping[str, str]
    has_world: bool
    pace: float
    watched: int
    roughness: float
    frequent_fault: RequestFault | None
    lifetime_s: float
    order_type: str
    signed_a_day: float
    endings: Sequence[LifeEnding]
    drawn: bool = False
    approving: tuple[str, ...] = ()
    armed_days: float = ARMED_DAYS
    arm_amounts: Mapping[str, float] = field(default_factory=lambda: CAPS)
    has_second: bool = False
    has_blend: bool = False
    excluded: tuple[str, ...] = ()
    changes_at_s: float = math.inf
    grouping: str = "choice"
    foreign_from_s: float = math.inf
    balance: float = BALANCE
    uses_whole_account: bool = False
    is_quiet: bool = False
    turns_every_h: float = 0.0
    stale_after_h: float = 0.0
    exits: Mapping[str, float] = field(default_factory=dict)
    drawdown: float = ANY_LOSS
    is_shallow: bool = False
    answers: int = LONG_LIST
    confirmed_s: float = 0.0
    night: tuple[str, str] | None = None
    withdraws: bool = False
    has_outages: bool = False
    ends_early: bool = False
    is_busy: bool = False
    moves_closes: bool = False
    sends_often: bool = False
    tight: tuple[str, float] | None = None

    @property
    def live(self) -> tuple[str, ...]:
        """The venues that are written to."""
        return tuple(name for name, mode in self.modes.items() if mode == "live")

    @property
    def scored(self) -> tuple[str, ...]:
        """The forecasters of each venue that are scored alone."""
        return (SECOND,) * self.has_second + (BLEND,) * self.has_blend

    @property
    def signs(self) -> bool:
        """Whether there is an account at Polymarket, and people about: not in a simulated world that is read alone."""
        return "polymarket" in self.modes and (self.modes["polymarket"] == "live" or not self.has_world)

    @property
    def signed_lifetime_s(self) -> float:
        """How long an order at Polymarket rests."""
        return max(LEAST_LIFETIME_S, self.lifetime_s)


def draw_traits(plan: SimulationPlan) -> SimulationTraits:
    """Draw what the seed says."""
    stream = SeededRandom(plan.seed).stream("temper")
    worldly = stream.random() < WORLDLY
    draw, signing = stream.random(), SeededRandom(plan.seed).stream("signer")
    signs = signing.random() < (WORLDLY_SIGNING if worldly else SIGNING)
    company = (signing.random(), SIGNED_VENUE_SETS) if signs else (draw, VENUE_SETS)
    names = VENUES if worldly else next(names for share, names in company[1] if company[0] < share)
    fond = FREQUENT_FAULTS[int(stream.integers(len(FREQUENT_FAULTS)))] if stream.random() < 1 / 2 else None
    is_paper = plan.drawn and SeededRandom(plan.seed).stream("signed paper").random() < SIGNED_PAPER
    trades_on_paper = is_paper and len(names) > 1 and not worldly
    modes = (
        _draw_modes(stream, names, signs=signs, trades_on_paper=trades_on_paper) if plan.modes is None else plan.modes
    )
    if plan.drawn and plan.modes is None and not worldly:
        modes = _draw_manifold(modes, SeededRandom(plan.seed).stream("manifold paper"))
    traits = SimulationTraits(
        modes=modes,
        has_world=worldly and plan.modes is None,
        pace=float(stream.choice([0.5, 1.0, 1.5])),
        watched=WATCHED if stream.random() < WATCHING and not worldly else 0,
        roughness=float(stream.uniform(0.3, 1.0)) if plan.faulty else 0.0,
        frequent_fault=fond if plan.faulty else None,
        lifetime_s=float(stream.choice(LIFETIMES_S)),
        order_type=str(signing.choice(ORDER_TYPES)),
        signed_a_day=float(signing.choice(SIGNED_A_DAY)),
        endings=[STORAGE_FAULT] * plan.has_storage_fault
        + _cut_forecasts([_draw_ending(stream, plan) for _ in range(plan.lives)], plan),
        **(_draw_permissions(plan, modes) if plan.drawn else {}),
    )
    patient = PATIENT_ON_PAPER if modes.get("manifold") == "paper" else PATIENT
    is_patient = plan.drawn and SeededRandom(plan.seed).stream("patience").random() < patient
    traits = replace(traits, lifetime_s=PATIENCE * PACES["submit"] * traits.pace) if is_patient else traits
    blends = SeededRandom(plan.seed).stream("blend").random() < BLENDING
    # A world is looked at less often: what its press says costs more than a look.
    is_alone = not traits.has_world
    traits = replace(
        traits,
        has_blend=blends and traits.has_second and is_alone,
        has_outages=traits.has_outages and is_alone,
        ends_early=traits.ends_early and is_alone,
    )
    if not plan.drawn or plan.modes:
        return traits
    traits = _draw_quiet(traits, SeededRandom(plan.seed).stream("quiet"))
    losses = SeededRandom(plan.seed).stream("losses in all")
    is_losing, drawdown = losses.random() < LOSING, round(float(losses.uniform(*LOST_IN_ALL)), 2)
    traits = replace(traits, drawdown=drawdown) if traits.is_quiet and is_losing else traits
    return _draw_tight(traits, SeededRandom(plan.seed).stream("tight bound"))


def _draw_tight(traits: SimulationTraits, stream: np.random.Generator) -> SimulationTraits:
    """Return the traits as they are, or with one bound that is tight."""
    names = [name for name in TIGHT_AMOUNTS if "polymarket" in traits.modes or name not in OF_EVENTS]
    share = TIGHT_ON_PAPER if traits.modes.get("polymarket") == "paper" and not traits.has_world else TIGHT
    is_tight, name = stream.random() < share, names[int(stream.integers(len(names)))]
    is_able = not traits.is_quiet and traits.balance == BALANCE and bool({*traits.modes} & {*TRADING})
    if not is_tight or not is_able:
        return traits
    return replace(
        traits,
        tight=(name, round(float(stream.uniform(*TIGHT_AMOUNTS[name])), 2)),
        grouping="markets" if name in OF_EVENTS else traits.grouping,
        signed_a_day=SIGNED_QUIETLY,
        arm_amounts={"per_order": CAPS["per_order"], "per_day": WIDE, "total": WIDE},
    )


def _draw_quiet(traits: SimulationTraits, stream: np.random.Generator) -> SimulationTraits:
    """Return the traits as they are, or those of a quiet seed, in which somebody trades."""
    is_quiet = stream.random() < QUIET and not traits.has_world and bool({*traits.modes} & {*TRADING})
    turns_h, stale_h = (round(float(stream.uniform(*bounds)), 2) for bounds in (QUIET_TURNS_H, QUIET_STALE_H))
    exits = {name: round(float(stream.uniform(*EXIT_SHARE)), 3) for name in ("stop_loss", "take_profit")}
    if not is_quiet:
        return traits
    return replace(
        traits,
        is_quiet=True,
        roughness=traits.roughness * QUIET_ROUGHNESS,
        frequent_fault=None,
        has_outages=False,
        ends_early=False,
        is_busy=False,
        armed_days=ARMED_DAYS,
        signed_a_day=SIGNED_QUIETLY,
        foreign_from_s=math.inf,
        turns_every_h=turns_h,
        stale_after_h=stale_h,
        exits={name: share for name, share in exits.items() if stream.random() < EXITS},
    )


def _draw_permissions(plan: SimulationPlan, modes: Mapping[str, str]) -> dict[str, Any]:
    """Draw what people permit, and what they change."""
    stream = SeededRandom(plan.seed).stream("permissions")
    approving = tuple(name for name, mode in modes.items() if stream.random() < APPROVING and mode == "live")
    is_short, armed_days = stream.random() < 1 / 2, float(stream.uniform(*ARMED_FOR))
    amounts = {name: round(float(stream.uniform(*bounds)), 2) for name, bounds in ARM_AMOUNTS.items()}
    # A smaller one is refused.
    amounts["total"] = max(amounts["total"], amounts["per_day"])
    second, excludes = bool(stream.random() < SECOND_FORECASTER), bool(stream.random() < EXCLUDING)
    words = tuple(word for word in EXCLUDED_WORDS if stream.random() < 1 / 4)
    grouping = GROUPINGS[int(SeededRandom(plan.seed).stream("grouping").integers(len(GROUPINGS)))]
    changes, share = bool(stream.random() < CHANGING), float(stream.uniform(0.1, 0.7))
    is_shared, foreign = bool(stream.random() < FOREIGN), float(stream.uniform(*FOREIGN_FROM))
    chain, purse = SeededRandom(plan.seed).stream("chain"), SeededRandom(plan.seed).stream("purse")
    is_slow, confirmed_s = chain.random() < SLOW_CHAIN, round(float(chain.uniform(*CONFIRMED_AFTER_S)), 1)
    is_short_of_cash, small = bool(purse.random() < SHORT_OF_CASH), round(float(purse.uniform(*SMALL_BALANCE)), 2)
    often = ALONE_OFTEN if [*modes] == ["metaculus"] else SENDING_OFTEN
    nights, failing = (SeededRandom(plan.seed).stream(name) for name in ("nights", "outages"))
    is_quiet_at_night, night = bool(nights.random() < QUIET_NIGHTS), NIGHTS[int(nights.integers(len(NIGHTS)))]
    return {
        "drawn": True,
        "night": night if is_quiet_at_night else None,
        "withdraws": "metaculus" in modes and bool(SeededRandom(plan.seed).stream("stale").random() < WITHDRAWING),
        "has_outages": plan.faulty and bool(failing.random() < FAILING),
        "is_busy": plan.faulty and bool(SeededRandom(plan.seed).stream("busy").random() < BUSY),
        "ends_early": plan.faulty and bool(SeededRandom(plan.seed).stream("early outcomes").random() < EARLY),
        "moves_closes": plan.faulty and bool(SeededRandom(plan.seed).stream("moved closes").random() < MOVING),
        "sends_often": bool(SeededRandom(plan.seed).stream("passes").random() < often),
        "is_shallow": bool(SeededRandom(plan.seed).stream("depth").random() < SHALLOW),
        "answers": LONG_LIST if SeededRandom(plan.seed).stream("lists").random() < LONG_LISTS else SHORT_LIST,
        "confirmed_s": confirmed_s if is_slow else 0.0,
        "approving": approving,
        "armed_days": armed_days if is_short else ARMED_DAYS,
        "arm_amounts": amounts,
        "has_second": second,
        "excluded": words if excludes else (),
        "grouping": grouping,
        "changes_at_s": plan.days * DAY_S * share if changes else math.inf,
        "foreign_from_s": plan.days * DAY_S * foreign if is_shared and plan.people else math.inf,
        "balance": small if is_short_of_cash else BALANCE,
        "uses_whole_account": is_short_of_cash and bool(purse.random() < UNBOUNDED),
    }


def draw_days_open(stream: np.random.Generator) -> float:
    """Draw for how many days a question is open."""
    return float(stream.uniform(0.2, 1.0 if stream.random() < SHORT else LONG_D))


def simulation_tables(traits: SimulationTraits, environment_tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the simulation sets in the configuration; HOME stands for the folder of a life."""
    daemon = {f"{job}_every_s": seconds * traits.pace for job, seconds in PACES.items()}
    world = (
        environment_tables if traits.has_world else {"plugins": [*traits.modes], "venues": environment_tables["venues"]}
    )
    forecaster = {"metaculus": BLF} if traits.has_world else {}
    names = {name: forecaster.get(name, DRIFTER) for name in traits.modes}
    tables = {
        **world,
        "plugins": [*world["plugins"], DRIFTER_FILE.stem, *[BLF] * traits.has_world, *[BLEND] * traits.has_blend],
        "plugin_files": [f"../{DRIFTER_FILE.name}"],
        "mode": "live",
        "state": "HOME/state",
        "log": {"level": "error"},
        "notifiers": {PAGER: {"level": "info"}},
        "alerts": {"every_s": PACES["requests"] * traits.pace},
        # Of the machine's own disk, whose free space is another in each run.
        "daemon": {**daemon, "watch_questions": traits.watched, "backup_gb": BACKUP_GB, "min_free_mb": 0},
        "venues": {
            name: _venue_table(name, traits, environment_tables["venues"][name], names[name]) for name in traits.modes
        },
    }
    if traits.drawn and traits.has_world:
        # Nobody confirms costs here, so forecasts would wait for that until the end.
        priced = dict.fromkeys(tables["llm"]["models"], MODEL_PRICES)
        tables["llm"] = {**tables["llm"], "models": priced, "budget": {"ask_above_usd": 1_000.0}}
        tables["llm"]["providers"] = {name.partition(":")[0]: {} for name in priced}
    if traits.drawn:
        tables["forecasters"] = {name: {} for name in (DRIFTER, BLF) if name in names.values()}
        tables["forecasters"] |= {SECOND: {"uses": DRIFTER}} if traits.has_second else {}
        tables["forecasters"] |= {BLEND: {"settings": {"members": [DRIFTER, SECOND]}}} if traits.has_blend else {}
    if traits.night is not None:
        tables["alerts"] |= {"quiet_hours": traits.night[0], "time_zone": traits.night[1]}
    if traits.withdraws:
        tables["policy"] = {"withdraw_stale": True}
    if traits.tight is not None:
        renewed = {"stale_after_h": RENEWED_AFTER_H * traits.pace, "min_gap_h": RENEWED_GAP_H}
        tables["policy"] = tables.get("policy", {}) | renewed
    if traits.has_outages:
        tables["alerts"]["every_s"] = LOOKS_EVERY_S
    if traits.sends_often:
        tables["daemon"]["submit_every_s"] = SENDS_EVERY_S
    if traits.is_quiet:
        answers = {"turns_every_h": traits.turns_every_h, "boldness": QUIET_BOLDNESS, "caution": QUIET_CAUTION}
        tables["forecasters"][DRIFTER] = {"settings": {**answers, "fails_share": 0.0, "slips_share": 0.0}}
        tables["policy"] = tables.get("policy", {}) | {"stale_after_h": traits.stale_after_h, "min_gap_h": 0.5}
    return tables


def limits_of(tables: Mapping[str, Any], traits: SimulationTraits, venue: str) -> dict[str, float]:
    """Return what one order and the orders of one day may cost at a venue under that configuration."""
    caps = tables["venues"][venue].get("caps", {})
    permitted = traits.arm_amounts if traits.modes[venue] == "live" else {}
    return {
        name: min(caps.get(name, math.inf), permitted.get(name, math.inf)) for name in ("per_order", "per_day", "total")
    }


def _venue_table(
    name: str, traits: SimulationTraits, environment_tables: Mapping[str, Any], forecaster: str
) -> dict[str, Any]:
    settings = dict(environment_tables["settings"])
    if name == "manifold":
        # Shallow markets are traded, too.
        settings |= {"order_lifetime_s": traits.lifetime_s, "min_liquidity": 0.0}
    if name == "polymarket":
        settings |= {"min_volume": 0.0, "min_liquidity": 0.0}
        if traits.signs:
            settings["grouping"] = traits.grouping
            settings |= {"order_type": traits.order_type, "order_lifetime_s": traits.signed_lifetime_s}
            settings |= {"signer_per_order": CAPS["per_order"], "signer_per_day": traits.signed_a_day}
    found: dict[str, Any] = {
        "mode": "approve" if name in traits.approving else traits.modes[name],
        "forecasters": [forecaster, *traits.scored],
        # Some venues ask to be looked at more often.
        "discover_every_s": LOOKS_EVERY_S if traits.has_outages else PACES["discover"] * traits.pace,
        "settings": settings,
    }
    if traits.excluded:
        found["exclude"] = {"words": [*traits.excluded]}
    if name in TRADING:
        found["paper"] = {"cash": traits.balance}
    if name in TRADING and traits.is_quiet:
        # Nobody resumes a venue that lost too much, and what was closed by policy is bought again in time.
        found["caps"] = {"daily_loss": ANY_LOSS, "drawdown": traits.drawdown, "orders_per_hour": 100}
        found["trading"] = {**traits.exits, "cooldown_h": 6.0}
    if name in TRADING and traits.tight is not None:
        section, _, bound = traits.tight[0].partition(".")
        amount = traits.tight[1] if section == "caps" else round(traits.tight[1] / BALANCE, 6)
        caps = dict.fromkeys(("per_question", "per_event", "per_creator", "per_category", "per_day", "total"), WIDE)
        found["caps"] = {**caps, "per_order": SMALL_ORDER, "orders_per_hour": 100}
        found["caps"] |= dict.fromkeys(("daily_loss", "drawdown"), WIDE)
        found["bankroll"] = {**WHOLE_ACCOUNT, "min_stake": 1.0}
        found[section][bound] = amount
    if name in TRADING and traits.balance < BALANCE:
        found["bankroll"] = dict(WHOLE_ACCOUNT if traits.uses_whole_account else SHARED_ACCOUNT)
    if name in TRADING and not traits.drawn:
        found["caps"] = {"per_order": CAPS["per_order"], "per_day": CAPS["per_day"]}
        # Most orders want more than their cap.
        found["trading"] = {"kelly": 1.0}
    return found


def _draw_modes(
    stream: np.random.Generator, names: Sequence[str], *, signs: bool, trades_on_paper: bool
) -> dict[str, str]:
    """Draw sides; at least one venue is written to, and Polymarket where orders there are signed.

    ``trades_on_paper``: there is another venue to write to, and Polymarket is on paper.
    """
    modes = {name: "paper" if stream.random() < PAPER else "live" for name in names}
    if "polymarket" in modes:
        modes["polymarket"] = "live" if signs and not trades_on_paper else "paper"
    if "live" not in modes.values():
        modes[names[0]] = "live"
    return modes


def _draw_manifold(modes: Mapping[str, str], stream: np.random.Generator) -> Mapping[str, str]:
    """Return the modes as they are, or with Manifold on paper beside another venue that is written to."""
    live = [name for name, mode in modes.items() if mode == "live"]
    is_paper = "manifold" in live and len(live) > 1 and stream.random() < MANIFOLD_PAPER
    return {**modes, "manifold": "paper"} if is_paper else modes


def _cut_forecasts(endings: Sequence[LifeEnding], plan: SimulationPlan) -> list[LifeEnding]:
    """Return the ends, some of them those of lives that are killed while forecasts are under way."""
    stream, found = SeededRandom(plan.seed).stream("kills at calls"), []
    for ending in endings:
        calls, turns = int(stream.integers(1, MOST_CALLS)), int(stream.geometric(1 / 8))
        pause_s = float(stream.uniform(*LONG_PAUSE_S)) if stream.random() < LONG_PAUSE else 0.0
        is_cut = stream.random() < KILLED_AT_CALLS and plan.drawn
        found.append(LifeEnding(manner="kill", calls=calls, turns=turns, pause_s=pause_s) if is_cut else ending)
    return found


def _draw_ending(stream: np.random.Generator, plan: SimulationPlan) -> LifeEnding:
    """Draw an end; most are kills, and half of those near a write."""
    draw, most_s = float(stream.random()), plan.days * DAY_S * 2.0 / max(plan.lives, 1)
    turns, writes = int(stream.geometric(1 / 8)), int(stream.geometric(1 / 3))
    after_s = float(stream.uniform(0.0, most_s))
    match draw:
        case _ if draw < 0.45:
            at_once = stream.random() < BEFORE_RECORD
            return LifeEnding(manner="kill at a write", turns=1 if at_once else turns, writes=writes, after_s=after_s)
        case _ if draw < 0.57:
            # While it starts, or just after.
            return LifeEnding(manner="kill", turns=int(stream.integers(1, 2_000)))
        case _ if draw < 0.78 or not plan.people:
            return LifeEnding(manner="kill", turns=turns, after_s=after_s)
        case _ if draw < 0.9:
            return LifeEnding(manner="stop", after_s=after_s)
        case _:
            return LifeEnding(manner="full disk", after_s=after_s)
