"""What models may remember instead of forecasting: outcomes that were known before the end of their training.

No leak guard keeps out what a model learned in training. So each forecast is compared with the knowledge cutoffs of the
models that it used: the date from config, else the one that the maker published. A model that is not listed has no
date, which never means that it knows nothing. Source: BLF (arXiv 2604.18576v3), appendix B.2, which tests models on
later questions only.
"""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from functools import cache
from importlib import resources

from bot.config.schema import LlmSection
from bot.core.errors import NotFoundError
from bot.core.learning import Round
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import VoidOutcome
from bot.core.questions import Question, QuestionRef
from bot.evaluation.seen_documents import trial_opening
from bot.llm.roles import bare_model_name
from bot.plugin_system.discovery import BUILT_IN_PACKAGE
from bot.store.forecast_queries import find_scope_question, list_scope_trials, list_scopes
from bot.store.ledger import Ledger
from bot.store.trials import RecordedResponse, RecordingKey

CUTOFFS_FILE = "knowledge_cutoffs.txt"

# Labels before a name that say who made or serves the model, as some providers write them.
_MAKER_PREFIX = re.compile(r"^(?:[a-z]+\.)+(?=[a-z])")
_FAMILY_AND_NUMBER = re.compile(r"^([a-z]+)(?=\d)")
# What may follow a name without making it another model.
_VERSION_WORD = (
    r"latest|preview|exp|experimental|customtools|instruct|it|chat|turbo|vision|text|hf|versatile|instant|thinking"
    r"|reasoning|online|free|beta|high|medium|low|gguf|bf16|fp\d+|q\d(?:-[a-z0-9])*"
    r"|\d{4}-\d{2}-\d{2}|\d{2}-\d{2}|\d{3,8}|\d+k|v\d+(?:-\d+)?|\d+b|[ae]\d+b|\d+e"
)
_VERSION_SUFFIX = re.compile(rf"(?:-(?:{_VERSION_WORD}))*")


def knowledge_cutoff(model: str, section: LlmSection) -> date | None:
    """Return the last day of the model's knowledge, None where that is not known.

    ``model`` is named ``provider:name``; a ``knowledge_cutoff`` in its table of config takes precedence over the
    shipped date.
    """
    table = section.models.get(model)
    if table is not None and table.knowledge_cutoff is not None:
        return table.knowledge_cutoff
    return published_cutoff(bare_model_name(model), shipped_cutoffs())


def published_cutoff(name: str, cutoffs: Mapping[str, date]) -> date | None:
    """Return the date of the longest of the names that a model's name is a version of."""
    wanted = canonical_model_name(name)
    matches = [
        remembered
        for remembered in cutoffs
        if wanted.startswith(remembered) and _VERSION_SUFFIX.fullmatch(wanted[len(remembered) :]) is not None
    ]
    return cutoffs[max(matches, key=len)] if matches else None


@cache
def shipped_cutoffs() -> Mapping[str, date]:
    """Return the published dates by canonical name."""
    text = resources.files(BUILT_IN_PACKAGE).joinpath(CUTOFFS_FILE).read_text(encoding="utf-8")
    return dict(_parse_entries(text))


def canonical_model_name(name: str) -> str:
    """Return a model's name without its maker and in one spelling: ``maker/Name2.1:free`` is ``name-2-1-free``."""
    bare = _MAKER_PREFIX.sub("", name.rpartition("/")[2].casefold())
    bare = _FAMILY_AND_NUMBER.sub(r"\1-", bare)
    return re.sub(r"[^a-z0-9]+", "-", bare).strip("-")


def _parse_entries(text: str) -> Iterator[tuple[str, date]]:
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, day = line.split()
            yield canonical_model_name(name), date.fromisoformat(day)


_EXCHANGE_KINDS = ("opening", "model")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOutcome:
    """An outcome that models had to predict: the question, when it was known, and the models."""

    ref: str
    known_at: datetime
    models: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMemory:
    """One model: its knowledge ``cutoff`` (None: not known), and its predicted outcomes.

    ``asked`` counts these outcomes, ``remembered`` those that were known by the cutoff.
    """

    model: str
    cutoff: date | None
    asked: int
    remembered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReport:
    """What the models of some forecasts may remember.

    ``remembered`` counts the outcomes that were known before the cutoff of any of their models, ``questions`` names
    theirs; ``unclear`` counts those where that is unknown, because no known cutoff reaches them and one is not known.
    """

    asked: int
    remembered: int
    unclear: int
    models: tuple[ModelMemory, ...]
    questions: tuple[str, ...]

    @property
    def unknown(self) -> tuple[str, ...]:
        """The models whose knowledge cutoff is not known."""
        return tuple(one.model for one in self.models if one.cutoff is None)


def memory_report(outcomes: Iterable[AskedOutcome], section: LlmSection) -> MemoryReport:
    """Compare outcomes with the knowledge cutoffs of the models that predicted them."""
    predicted = [outcome for outcome in outcomes if outcome.models]
    names = sorted({model for outcome in predicted for model in outcome.models})
    cutoffs = {model: knowledge_cutoff(model, section) for model in names}
    asked, remembered = Counter[str](), Counter[str]()
    remembered_refs: list[str] = []
    unclear = 0
    for outcome in predicted:
        asked.update(outcome.models)
        remembering = [model for model in outcome.models if _could_remember(cutoffs[model], outcome.known_at)]
        remembered.update(remembering)
        if remembering:
            remembered_refs.append(outcome.ref)
        elif any(cutoffs[model] is None for model in outcome.models):
            unclear += 1
    return MemoryReport(
        asked=len(predicted),
        remembered=len(remembered_refs),
        unclear=unclear,
        models=tuple(
            ModelMemory(model=model, cutoff=cutoffs[model], asked=asked[model], remembered=remembered[model])
            for model in names
        ),
        questions=tuple(dict.fromkeys(remembered_refs)),
    )


async def memory_in_rounds(
    rounds: Iterable[Round], scopes: Mapping[QuestionRef, str], ledger: Ledger, section: LlmSection
) -> MemoryReport:
    """Return what the models of a backtest may remember; ``scopes`` says where each question's trials are recorded."""
    outcomes: list[AskedOutcome] = []
    for a_round in rounds:
        refs = [question.ref for question in a_round.questions if question.ref in scopes]
        models = {ref: await _scope_models(ledger, scopes[ref]) for ref in refs}
        outcomes += [
            AskedOutcome(ref=str(one.ref), known_at=one.resolved_at, models=models[one.ref])
            for one in a_round.resolutions
            if one.ref in models and not isinstance(one.outcome, VoidOutcome)
        ]
    return memory_report(outcomes, section)


async def memory_on_record(ledger: Ledger, section: LlmSection, *, since: datetime | None = None) -> MemoryReport:
    """Return what the models of all guarded forecasts of a ledger may remember, one outcome for each forecast.

    An outcome was known when the ledger says so, else when it was due. A backtest records no question: there it counts
    as known from the moment as of which it was asked, since everything later had to be unknown.
    """
    return memory_report([one async for one in _iter_outcomes(ledger, since)], section)


async def _iter_outcomes(ledger: Ledger, since: datetime | None) -> AsyncIterator[AskedOutcome]:
    for scope in await list_scopes(ledger, "model", since=since):
        models: frozenset[str] = frozenset()
        bound: datetime | None = None
        for trial in await list_scope_trials(ledger, scope):
            exchanges = await ledger.recordings.read_trial(scope, trial, _EXCHANGE_KINDS)
            opening = trial_opening(exchanges)
            if opening is not None and opening.guarded:
                models |= _answering_models(exchanges)
                bound = opening.bound
        if bound is not None and models:
            ref, known_at = await _question_known_at(ledger, scope)
            yield AskedOutcome(ref=ref, known_at=known_at or bound, models=models)


async def _question_known_at(ledger: Ledger, scope: str) -> tuple[str, datetime | None]:
    """Return the question of a scope, and when its first outcome was known or is due, where the ledger has it."""
    try:
        question = await ledger.forecasts.question_of(scope)
    except NotFoundError:
        return await find_scope_question(ledger, scope) or scope, None
    resolved = [one.resolved_at for one in await ledger.resolutions.current(question.ref)]
    return str(question.ref), min(resolved, default=_due_time(question))


def _due_time(question: Question) -> datetime | None:
    due = [target.resolves_at for target in question.targets if target.resolves_at is not None]
    return min(due, default=question.closes_at)


async def _scope_models(ledger: Ledger, scope: str) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for trial in await list_scope_trials(ledger, scope):
        found |= _answering_models(await ledger.recordings.read_trial(scope, trial, ("model",)))
    return found


def _answering_models(exchanges: Mapping[RecordingKey, RecordedResponse]) -> frozenset[str]:
    """Return the models that answered in a trial, as ``provider:name``."""
    bodies = (json.loads(exchange.body) for key, exchange in exchanges.items() if key.kind == "model")
    answers = (body["value"] for body in bodies if isinstance(body, dict) and "value" in body)
    return frozenset(str(answer["model"]) for answer in answers)


def _could_remember(cutoff: date | None, known_at: datetime) -> bool:
    return cutoff is not None and known_at.astimezone(UTC).date() <= cutoff
