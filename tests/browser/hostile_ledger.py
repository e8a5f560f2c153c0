"""A ledger in which every text of others tries to run a script, to load something, or to break out of a page."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bot.core.alerts import AlertLevel
from bot.core.beliefs import Belief, Evidence, Step, StepAction, StepObservation
from bot.core.forecasts import Trial, TrialEnd
from bot.core.orders import Account, ContractSide, Position
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.permissions import ApprovalState, SubmissionApproval
from bot.core.predictions import BinaryPrediction, ChoicePrediction, ChoiceShape
from bot.core.questions import CrowdForecast, Question
from bot.core.submissions import HoldDecision
from bot.store import permissions
from bot.store.alerts import AlertRecord
from bot.store.ledger import LEDGER_FILE, Ledger
from tests.unit.store.conftest import LedgerFixture

# Each sets the variable that the tests look for, in another place of a page where text may become markup.
ATTACKS = (
    "</title><script>window.owned=1</script>",
    "<img src=x onerror='window.owned=2'>",
    "\"><svg onload='window.owned=3'>",
    "' autofocus onfocus='window.owned=4' x='",
    "{{ 7 * 7 }}{% include 'base.html' %}",
    "<style>@import 'http://outside.example/a.css'</style><link rel=stylesheet href='http://outside.example/b.css'>",
    "<iframe srcdoc='<script>parent.owned=5</script>'></iframe><base href='http://outside.example/'>",
    "\u202eevil\u202c\u200b<form action='http://outside.example/'><button>Approve</button></form>",
)
ATTACK = " ".join(ATTACKS)
SCRIPT_ADDRESS = "javascript:window.owned=6"
# Characters that mean something in an address.
HOSTILE_KEY = "a/../b?ref=x&q=\"'<script>#%2e"


async def write_hostile_ledger(ledger: Ledger, folder: Path, now: datetime) -> Question:
    """Write one question of each kind of trouble and return the first one."""
    story = LedgerFixture(ledger, folder / LEDGER_FILE, now=now)
    texts: dict[str, Any] = {
        "title": ATTACK,
        "source": ATTACKS[1],
        "family": ATTACKS[2],
        "tags": (ATTACKS[3],),
        "background": ATTACK,
        "criteria": ATTACK,
        "url": SCRIPT_ADDRESS,
        "batch": None,
        "closes_at": now + timedelta(days=9),
    }
    question = await story.ask(HOSTILE_KEY, **texts)
    forecast = await _forecast(story, question)
    await ledger.submissions.decide(forecast_id=forecast, decision=HoldDecision(why=ATTACK, until=now), at=now)
    changed = replace(question, background=f"{ATTACK}\nand more", title=f"{ATTACKS[2]} changed")
    await ledger.questions.record([changed], seen_at=now + timedelta(seconds=1))
    moved = replace(changed, crowd=CrowdForecast(prediction=BinaryPrediction(0.6), at=now))
    await ledger.questions.record([moved], seen_at=now + timedelta(seconds=2))
    await _ask_choice(story, now)
    resolved = await story.ask("resolved", **{**texts, "closes_at": now - timedelta(days=1)})
    before = now - timedelta(days=2)
    for name in ("fox", "baseline", ATTACKS[1]):
        done = await story.forecast(resolved, 0.8, forecaster=name, now=before, cutoff=before)
    outcome = Resolution(ref=resolved.ref, target="outcome", outcome=BinaryOutcome(1.0), resolved_at=now)
    await ledger.resolutions.record([outcome], seen_at=now)
    await ledger.submissions.decide(forecast_id=done.id, decision=story.order(done), at=now)
    await story.begin(await story.ask("running", **texts), forecaster="fox", now=now, cutoff=now, why=ATTACK)
    await ledger.calls.reserve(story.reservation(model=ATTACKS[0], forecaster=ATTACKS[1], role=ATTACKS[2]))
    await _add_records(ledger, forecast, now)
    return moved


async def _forecast(story: LedgerFixture, question: Question) -> str:
    running = await story.begin(question, forecaster="fox", now=story.now, cutoff=story.now, why=ATTACK)
    belief = Belief(
        predictions={"outcome": BinaryPrediction(0.4)},
        anchor=ATTACK,
        reason=ATTACK,
        evidence_for=(
            Evidence(text=ATTACK, source=SCRIPT_ADDRESS),
            Evidence(text="x", source="https://a.example/\"'>"),
        ),
        evidence_against=(Evidence(text=ATTACKS[1], source="data:text/html,<script>owned=7</script>"),),
        open_questions=(ATTACKS[2],),
    )
    for number in (1, 2):
        step = Step(
            action=StepAction(name=ATTACKS[1], arguments={ATTACKS[2]: ATTACK}),
            observation=StepObservation(text=ATTACK * 30),
            belief=replace(belief, predictions={"outcome": BinaryPrediction(0.4 + number / 20)}),
            remarks=(ATTACKS[0],),
        )
        await story.ledger.forecasts.log_step(running.id, trial=1, number=number, step=step, at=story.now)
    trial = Trial(number=1, end=TrialEnd.STEP_LIMIT, belief=step.belief, steps=2, detail=ATTACKS[0])
    await story.ledger.forecasts.end_trial(running.id, trial, story.now)
    forecast = story.answer(question, running, 0.4, forecaster="fox", why=ATTACK)
    await story.ledger.forecasts.complete(forecast, next_due=None)
    return forecast.id


async def _ask_choice(story: LedgerFixture, now: datetime) -> None:
    options = (ATTACKS[0], ATTACKS[1], "plain")
    question = story.question("choice", shape=ChoiceShape(options=options), crowd=None, title=ATTACKS[3], batch=None)
    await story.ledger.questions.record([question], seen_at=now)
    running = await story.begin(question, forecaster=ATTACKS[1], now=now, cutoff=now)
    share = {ATTACKS[0]: 0.5, ATTACKS[1]: 0.3, "plain": 0.2}
    predictions = {"outcome": ChoicePrediction(share)}
    forecast = replace(
        story.answer(question, running, 0.5, forecaster=ATTACKS[1]), raw=predictions, predictions=predictions
    )
    await story.ledger.forecasts.complete(forecast, next_due=None)


async def _add_records(ledger: Ledger, forecast: str, now: datetime) -> None:
    approval = SubmissionApproval(
        id="feedfacefeedface",
        forecast=forecast,
        venue="lantern",
        cost=5.0,
        state=ApprovalState.ASKED,
        asked_at=now,
        expires_at=now + timedelta(hours=3),
        shown={"title": ATTACK, "order": ATTACKS[1], "why": ATTACKS[2]},
    )
    await ledger.permissions.write(lambda database: permissions.request_approval(database, approval))
    await ledger.events.add_event("alert", ATTACK, at=now)
    held = Position(
        ref=None, contract=ATTACKS[1], leg=ContractSide.YES, shares=9.0, paid=4.0, mark=0.5, option=ATTACKS[2]
    )
    for hours in (2, 1):
        account = Account(at=now - timedelta(hours=hours), currency="COIN", cash=100.0 + hours, positions=(held,))
        await ledger.readings.add("lantern", "default", account, paper=True)
    await ledger.events.job_run(ATTACKS[1], started_at=now, ended_at=now, ok=False, detail=ATTACK)
    alert = AlertRecord(key=f"job:{ATTACKS[1]}", level=AlertLevel.CRITICAL, text=ATTACK, opened_at=now)
    await ledger.alerts.record(opened=[alert], closed=(), notifications=(), at=now)


def utc_now() -> datetime:
    """The present, to the second."""
    return datetime.now(UTC).replace(microsecond=0)
