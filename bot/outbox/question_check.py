"""Nothing leaves onto another question than the one that was forecast: the writer's own reading decides.

It is fresher than any list. What it shows is put on record, an intent of an earlier version goes back to the gate, and
the question is forecast again at once.
"""

from collections.abc import Mapping, Sequence

from bot.domain.question import Question
from bot.domain.question_changes import describe_changes
from bot.domain.submission import Intent, Sealed
from bot.outbox.door import Door, log
from bot.store.codec import version_of
from bot.store.schedule import Due
from bot.store.submissions import IntentRow


async def without_changed(door: Door, items: Sequence[IntentRow], sealed: Mapping[str, Sealed]) -> list[IntentRow]:
    """Return those whose question, as it was read for their request, is the one that was forecast."""
    readings = {one.intent: one.question for one in sealed.values() if one.question is not None}
    if not readings:
        return [*items]
    await door.ledger.questions.record([*readings.values()], seen_at=door.clock.now(), by_writer=True)
    return [item for item in items if not await _is_held(door, item.intent, readings.get(item.intent.id))]


async def _is_held(door: Door, intent: Intent, reading: Question | None) -> bool:
    """Send an intent back to the gate where its question changed, and say whether it was."""
    if reading is None or not intent.rests_on_forecast:
        return False
    forecast = await door.ledger.forecasts.get(intent.forecast)
    if forecast.version == version_of(reading):
        return False
    changes = describe_changes((await door.ledger.forecasts.questions_of([forecast]))[forecast.version], reading)
    if not changes:
        return False
    why = f"the question changed: {'; '.join(changes)}"
    await door.ledger.submissions.abandon(intent.id, why=why, at=door.clock.now())
    await _plan_forecast(door, reading, forecast.forecaster, why)
    log.warning("held: the question changed", intent=intent.id, question=str(intent.ref), why=why)
    return True


async def _plan_forecast(door: Door, question: Question, forecaster: str, why: str) -> None:
    """Make a question due now, unless its newest forecast is of this version already."""
    basis = (await door.ledger.forecasts.bases([question.ref], forecaster)).get(question.ref)
    if basis is None or basis.question is None:
        return
    due = Due(
        ref=question.ref,
        forecaster=forecaster,
        due_at=basis.changed_due(door.clock.now()),
        why=why,
        closes_at=question.closes_at,
        answered_at=basis.made_at,
    )
    await door.ledger.schedule.plan([due])
