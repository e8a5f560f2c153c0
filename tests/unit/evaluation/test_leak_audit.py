"""The audit of leaks against what a trial was really shown, counted by hand, and the planted leaks."""

import dataclasses
import io
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bot.cli.leaks import leak_audit_to_json, print_leak_audit, print_self_test, self_test_to_json
from bot.config.schema import LlmSection
from bot.core.beliefs import ModelUsage
from bot.core.clock import SeededRandom
from bot.core.errors import ServiceUnavailableError
from bot.core.language_models import CostAttribution, ModelCompletion, Prompt
from bot.core.questions import Question
from bot.evaluation.leak_audit import (
    AuditOpinion,
    LeakAudit,
    LeakAuditRun,
    ModelLeakAuditor,
    RuleFinding,
    find_leak,
    parse_opinions,
)
from bot.evaluation.planted_leaks import PLANTED_LEAKS, LayerProof, LeakPlanting
from bot.evaluation.seen_documents import DocumentKind, GuardLayer, SeenDocument
from bot.forecasting.leak_guard.blocked_addresses import BlockedAddresses
from bot.forecasting.trial_memory import FilterCounts
from bot.llm.gateway import open_gateway
from bot.testing.clock import FakeClock
from bot.testing.models import ScriptedModelProvider
from bot.testing.research import FakeDataSource, FakePageSource, FakeRedirect, PlainTextReader
from tests.blank_ledger import open_blank_ledger
from tests.unit.forecast_run_fixture import model_with_beliefs, open_forecast_runs, question
from tests.unit.forecasting.research_fixture import CUTOFF, ResearchFixture, hit, level, market, passage

DAY = timedelta(days=1)
BACKDATED = market(as_of=CUTOFF)
NEWS = "https://news.example/"
SECTION = LlmSection.model_validate(
    {
        "roles": {role: {"model": f"prime:{role}", "max_tokens": 500} for role in ("filter", "auditor")},
        "budget": {"question_usd": None, "day_usd": None},
        "providers": {"prime": {"attempts": 1}},
    }
)


def verdicts(prompt: Prompt) -> ModelCompletion:
    """Play the filter, which drops what says "drop me", and the auditor, which calls a leak what says "spoiler"."""
    text = prompt.messages[-1].text
    audits = '"clean", "leak"' in json.dumps(_plain(prompt.schema))
    head, mark, words = ("Text ", "spoiler", ("leak", "clean")) if audits else ("Result ", "drop me", ("drop", "keep"))
    shown = f"\n\n{text}".split(f"\n\n{head}")[1:]
    results = [
        {"number": number, "verdict": words[mark not in one], "reason": "read"} for number, one in enumerate(shown, 1)
    ]
    return ModelCompletion(text=json.dumps({"results": results}), usage=ModelUsage(calls=1, tokens_in=10, tokens_out=5))


def _plain(value: Any) -> Any:
    return {key: _plain(part) for key, part in value.items()} if isinstance(value, Mapping) else value


@dataclasses.dataclass
class AuditFixture:
    """A ledger in which tools were used, with a model for the filter and for the auditor."""

    context: ResearchFixture
    llm: ScriptedModelProvider

    async def use(
        self, *uses: tuple[str, Mapping[str, Any]], scope: str = "f1", question: Question = BACKDATED, **more: Any
    ) -> FilterCounts:
        charge = CostAttribution(scope=scope, ref="lantern:lamp", venue="lantern", forecaster="thinker", trial=1)
        bench = await self.context.open_trial(question, charge=charge, **more)
        for tool, arguments in uses:
            await bench.use_tool(tool, dict(arguments))
        await bench.write_waiting()
        return bench.caught

    async def audit(self, **more: Any) -> LeakAudit:
        given = {"ledger": self.context.ledger, "answer_hosts": ("lantern.example",), **more}
        return await LeakAuditRun(**given).run()


@asynccontextmanager
async def laboratory(folder: Path, *turns: Any) -> AsyncIterator[AuditFixture]:
    clock, llm = FakeClock(CUTOFF + DAY), ScriptedModelProvider(turns=list(turns or [verdicts]))

    async def alert(subject: str, text: str) -> None:
        del subject, text

    async with (
        open_blank_ledger(folder / "ledger.sqlite", now=clock.now()) as ledger,
        open_gateway(
            SECTION, {"prime": llm}, ledger=ledger, clock=clock, random=SeededRandom(1), alert=alert
        ) as gateway,
    ):
        context = ResearchFixture(ledger=ledger, clock=clock)
        context.models = gateway  # type: ignore[assignment]  # the real thing where most tests have a fake
        yield AuditFixture(context=context, llm=llm)


SEARCH = ("web_search", {"query": "lamp"})


def look(name: str) -> tuple[str, Mapping[str, Any]]:
    return ("lookup_url", {"url": f"{NEWS}{name}"})


def counted(audit: LeakAudit) -> dict[tuple[str, str], int]:
    return {
        (kind.value, "kept" if fate is None else fate.value): count
        for (kind, fate), count in audit.count_by_layer().items()
    }


def furnish(context: ResearchFixture) -> None:
    """Put something for each layer, and something for none, where a trial will find it."""
    context.engine.hits = [
        hit("fine"),
        hit("spoilt", snippet="spoiler, let through"),
        hit("told", snippet="drop me: spoiler"),
        hit("wary", snippet="drop me"),
        hit("late", published_at=CUTOFF),
        hit("answer", url="https://lantern.example/q/lamp"),
        hit("again", url=f"{NEWS}fine#twice"),
        hit("moved"),
    ]
    context.fetcher.web = {
        f"{NEWS}fine": "Fine\nIt is dark.",
        f"{NEWS}spoilt": "Spoilt\ndrop me: spoiler",
        f"{NEWS}moved": FakeRedirect("https://lantern.example/q/lamp"),
    }
    context.reader = PlainTextReader({f"{NEWS}fine": CUTOFF - DAY})
    context.add_data_source(FakeDataSource({"LEVEL": level(beyond=5)}, series_of_questions=["LEVEL"]), serves="almanac")
    late = passage("Now", "It was lit.", revised_at=CUTOFF)
    context.add_page_source(FakePageSource({("Lamp", "Now"): late, ("Lamp", "Then"): passage("Then", "It was dark.")}))


async def test_every_document_is_found_with_what_became_of_it(tmp_path: Path) -> None:
    async with laboratory(tmp_path) as lab:
        furnish(lab.context)
        sections = [("fetch_lexicon_section", {"page": "Lamp", "heading": one}) for one in ("Now", "Then")]
        series = ("series_history", {"source": "tides", "name": "LEVEL"})
        caught = await lab.use(SEARCH, look("fine"), look("spoilt"), look("moved"), series, *sections)
        audit = await lab.audit(auditor=ModelLeakAuditor(lab.context.models))  # type: ignore[arg-type]  # see laboratory

    assert caught == FilterCounts(dates=1, content=3, clamped=6, blocked=2)
    assert counted(audit) == {
        ("search result", "kept"): 3,
        ("search result", "content"): 2,
        ("search result", "dates"): 1,
        ("search result", "addresses"): 1,
        ("page", "kept"): 1,
        ("page", "content"): 1,
        ("page", "addresses"): 1,
        ("series", "kept"): 1,
        ("passage", "kept"): 1,
        ("passage", "clamp"): 1,
    }
    assert audit.clamped_points == 5
    # Seen by the filter: three results and a page that it kept, two results and a page that it dropped.
    assert audit.confusion_matrix() == {
        (AuditOpinion.CLEAN, True): 3,
        (AuditOpinion.LEAK, True): 1,
        (AuditOpinion.CLEAN, False): 1,
        (AuditOpinion.LEAK, False): 2,
    }
    # One of the three results, the page and the passage that were kept.
    assert audit.residual_leak_share() == pytest.approx(1 / 5)
    assert [one.document.name for one in audit.leaks] == [f"{NEWS}spoilt"]
    assert [one.finding for one in audit.documents if one.finding] == []


async def test_results_read_together_are_told_apart_by_the_place_at_which_they_were_judged(tmp_path: Path) -> None:
    async with laboratory(tmp_path) as lab:
        names = ("one", "two", "three", "four")
        lab.context.engine.hits = [hit(name) for name in names]
        lab.context.fetcher.web = {
            f"{NEWS}one": "One\nfine",
            f"{NEWS}two": "Two\ndated",
            f"{NEWS}three": "Three\ndrop me",
            f"{NEWS}four": ServiceUnavailableError("down"),
        }
        lab.context.reader = PlainTextReader({f"{NEWS}two": CUTOFF + DAY})
        summary = {"search_index": 1, "result_indices": [1, 2, 3, 4], "question": "?"}
        await lab.use(SEARCH, ("summarize_results", summary))
        audit = await lab.audit()
    pages = {
        one.document.name: one.document.dropped for one in audit.documents if one.document.kind is DocumentKind.PAGE
    }
    assert pages == {f"{NEWS}one": None, f"{NEWS}two": GuardLayer.DATES, f"{NEWS}three": GuardLayer.CONTENT}


async def test_a_page_that_nobody_judged_was_not_used(tmp_path: Path) -> None:
    async with laboratory(tmp_path, verdicts, ServiceUnavailableError("busy")) as lab:
        lab.context.engine.hits = [hit("one")]
        lab.context.fetcher.web = {f"{NEWS}one": "One\nfine"}
        await lab.use(SEARCH, look("one"))
        audit = await lab.audit()
    assert counted(audit) == {("search result", "kept"): 1, ("page", "unchecked"): 1}


def passing_over(prompt: Prompt) -> ModelCompletion:
    """Play a filter that has a verdict on the second of two texts alone."""
    assert "Result 2:" in prompt.messages[-1].text
    return ModelCompletion(text='{"results": [{"number": 2, "verdict": "keep", "reason": "read"}]}')


@pytest.mark.parametrize(
    ("said", "cutoff", "fates", "unjudged"),
    [
        (passing_over, CUTOFF + DAY, {("search result", "kept"): 2}, {}),
        (passing_over, CUTOFF, {("search result", "kept"): 1, ("search result", "unchecked"): 1}, {}),
        (ServiceUnavailableError("busy"), CUTOFF, {("search result", "kept"): 2}, {DocumentKind.RESULT: 2}),
    ],
    ids=["of today", "of an earlier day", "of an earlier day, without a verdict"],
)
async def test_what_the_filter_passed_over_is_told_whether_it_was_kept_or_left_out(
    tmp_path: Path, said: Any, cutoff: datetime, fates: dict[tuple[str, str], int], unjudged: dict[DocumentKind, int]
) -> None:
    async with laboratory(tmp_path, said) as lab:
        # What is published while a live trial runs is no leak, and where nothing can leak nobody is asked.
        newest = CUTOFF - DAY if cutoff == CUTOFF else cutoff + timedelta(minutes=5)
        lab.context.engine.hits = [hit("one"), hit("two", published_at=newest)]
        await lab.use(SEARCH, question=market(), cutoff=cutoff)
        audit = await lab.audit()
        assert bool(lab.llm.requests) is (cutoff == CUTOFF)
    assert counted(audit) == fates
    assert audit.count_unjudged() == unjudged
    assert audit.leaks == []
    assert leak_audit_to_json(audit)["kept_without_verdict"] == {"search result": sum(unjudged.values()), "page": 0}
    console = Console(file=io.StringIO(), width=200)
    print_leak_audit(console, audit)
    told = "kept without a verdict of the filter: 2 of the 2 search results\n"
    assert isinstance(console.file, io.StringIO)
    assert (told in console.file.getvalue()) is bool(unjudged)
    assert "dropped unchecked" in " ".join(console.file.getvalue().split())


async def test_a_host_that_is_blocked_since_is_found_in_what_was_read_before(tmp_path: Path) -> None:
    async with laboratory(tmp_path) as lab:
        lab.context.engine.hits = [hit("one"), hit("two", url="https://newcomer.example/m/lamp")]
        await lab.use(SEARCH)
        before = await lab.audit()
        since = await lab.audit(answer_hosts=("lantern.example", "newcomer.example"))
    assert before.leaks == []
    assert [(one.document.name, one.finding) for one in since.leaks] == [
        ("https://newcomer.example/m/lamp", RuleFinding.ADDRESS)
    ]


async def test_an_auditor_that_does_not_answer_leaves_the_rules(tmp_path: Path) -> None:
    async with laboratory(tmp_path, verdicts, ServiceUnavailableError("busy")) as lab:
        lab.context.engine.hits = [hit("one", snippet="spoiler")]
        await lab.use(SEARCH)
        audit = await lab.audit(auditor=ModelLeakAuditor(lab.context.models))  # type: ignore[arg-type]  # see laboratory
    assert "busy" in audit.interruption
    assert (audit.residual_leak_share(), len(audit.documents)) == (None, 1)


async def test_asking_again_costs_nothing(tmp_path: Path) -> None:
    async with laboratory(tmp_path) as lab:
        lab.context.engine.hits = [hit(str(number)) for number in range(8)]
        await lab.use(SEARCH)
        auditor = ModelLeakAuditor(lab.context.models)  # type: ignore[arg-type]  # see laboratory
        first = await lab.audit(auditor=auditor)
        asked = len(lab.llm.requests)
        assert await lab.audit(auditor=auditor) == first
    assert len(lab.llm.requests) == asked


async def test_only_what_was_read_since_a_moment_is_audited(tmp_path: Path) -> None:
    async with laboratory(tmp_path) as lab:
        lab.context.engine.hits = [hit("one")]
        await lab.use(SEARCH, scope="early")
        lab.context.clock.set_wall_clock(86_400)
        await lab.use(SEARCH, scope="later")
        audit = await lab.audit(since=lab.context.clock.now())
        everything = await lab.audit()
    assert (audit.forecasts, {one.scope for one in audit.documents}) == (1, {"later"})
    assert everything.forecasts == 2


async def test_what_may_see_everything_is_left_aside(tmp_path: Path) -> None:
    async with open_forecast_runs(
        tmp_path, ScriptedModelProvider(turns=[model_with_beliefs(0.3, 0.7)])
    ) as forecast_runs:
        past = forecast_runs.clock.now() - 30 * DAY
        await forecast_runs.forecast(question("rain", as_of=past), clairvoyant=True)
        await forecast_runs.forecast(question("snow"))
        audit = await LeakAuditRun(ledger=forecast_runs.ledger).run()
    assert (audit.forecasts, audit.unguarded) == (1, 1)
    assert {one.ref for one in audit.documents} == {"lantern:snow"}
    # Three results in each of two trials.
    assert counted(audit) == {("search result", "kept"): 6}


def met(kind: DocumentKind, **more: Any) -> SeenDocument:
    return SeenDocument(trial=1, tool="t", kind=kind, name="https://news.example/x", text="x", **more)


@pytest.mark.parametrize(
    ("document", "found"),
    [
        (met(DocumentKind.RESULT, dated=CUTOFF), RuleFinding.DATED),
        (met(DocumentKind.RESULT, dated=CUTOFF - DAY), None),
        (met(DocumentKind.RESULT, dated=CUTOFF, backdated=False), None),
        (met(DocumentKind.PAGE), None),
        (met(DocumentKind.PAGE, dated=CUTOFF + DAY), RuleFinding.DATED),
        (met(DocumentKind.PAGE, dated=CUTOFF + DAY, dropped=GuardLayer.DATES), None),
        (met(DocumentKind.PASSAGE, dated=CUTOFF), RuleFinding.REVISED),
        (met(DocumentKind.SERIES, shown="date,value\n2026-02-28,1\n2026-03-01,2"), RuleFinding.POINTS),
        (met(DocumentKind.SERIES, shown="date,value\n2026-02-28,1\n2026-02-30,2"), None),
    ],
)
def test_rules_find_what_came_too_late(document: SeenDocument, found: RuleFinding | None) -> None:
    assert find_leak(document, CUTOFF, BlockedAddresses()) is found


@pytest.mark.parametrize(
    ("reply", "opinions"),
    [
        ('{"results": [{"number": 1, "verdict": "LEAK ", "reason": "r"}]}', {0: AuditOpinion.LEAK}),
        (
            'Well: {"results": [{"number": 2, "verdict": "clean"}, {"number": 3, "verdict": "leak"}]}',
            {1: AuditOpinion.CLEAN},
        ),
        ('{"results": [{"number": 0, "verdict": "leak"}, {"number": "1", "verdict": "leak"}, 7, null]}', {}),
        ('{"results": [{"number": 1, "verdict": "perhaps"}]}', {}),
        ('{"results": 3}', {}),
        ("leak", {}),
        ("[" * 100_000, {}),
        ("{" * 100_000 + "}", {}),
    ],
)
def test_an_opinion_is_read_with_suspicion(reply: str, opinions: dict[int, AuditOpinion]) -> None:
    assert {place: opinion for place, (opinion, _) in parse_opinions(reply, 2).items()} == opinions


@pytest.fixture
async def proofs(tmp_path: Path) -> Sequence[LayerProof]:
    clock = FakeClock(datetime(2026, 11, 1, tzinfo=UTC))
    async with open_blank_ledger(tmp_path / "ledger.sqlite", now=clock.now()) as ledger:
        return await LeakPlanting(ledger, clock).prove_layers()


async def test_each_planted_leak_is_caught_by_its_own_layer_alone(proofs: Sequence[LayerProof]) -> None:
    assert {proof.leak.name: (proof.came_through, proof.passes_without) for proof in proofs} == {
        leak.name: (False, (leak.layer,)) for leak in PLANTED_LEAKS
    }
    assert {proof.leak.layer for proof in proofs} == {
        GuardLayer.DATES,
        GuardLayer.CONTENT,
        GuardLayer.CLAMP,
        GuardLayer.ADDRESSES,
    }
    assert [proof.own_count for proof in proofs] == [1, 1, 1, 1, 1, 5, 1]
    assert all(proof.is_proven for proof in proofs)


async def test_a_guard_that_does_nothing_is_found_out(proofs: Sequence[LayerProof]) -> None:
    open_gate = dataclasses.replace(proofs[0], came_through=True)
    idle = dataclasses.replace(proofs[0], passes_without=())
    uncounted = dataclasses.replace(proofs[0], counts=FilterCounts())
    assert [proof.is_proven for proof in (open_gate, idle, uncounted)] == [False] * 3
    assert "do not trust backtests" in printed(lambda console: print_self_test(console, [idle]))
    assert self_test_to_json([idle])["holds"] is False


async def test_planted_leaks_are_told_on_paper_and_as_json(proofs: Sequence[LayerProof]) -> None:
    text = printed(lambda console: print_self_test(console, proofs))
    assert "7 of 7 planted leaks caught" in text
    assert text.count("got through") == 8
    assert self_test_to_json(proofs)["holds"] is True


async def test_an_audit_is_told_on_paper_and_as_json(tmp_path: Path) -> None:
    async with laboratory(tmp_path) as lab:
        lab.context.engine.hits = [hit(str(number), snippet="spoiler") for number in range(10)]
        await lab.use(SEARCH)
        for scope in ("f2", "f3"):
            await lab.use(SEARCH, scope=scope)
        auditor = ModelLeakAuditor(lab.context.models)  # type: ignore[arg-type]  # see laboratory
        bad = await lab.audit(auditor=auditor, answer_hosts=("news.example",))
        good = await lab.audit()
    text = printed(lambda console: print_leak_audit(console, bad))
    assert "forecasts: 3; documents: 30" in text
    assert "100.0 %" in text
    assert "from an address that reveals the answer; the auditor: read" in text
    assert "and 10 more" in text
    plain = json.loads(json.dumps(leak_audit_to_json(bad)))
    assert plain["confusion"] == {"clean": {"kept": 0, "dropped": 0}, "leak": {"kept": 30, "dropped": 0}}
    assert (plain["residual"], len(plain["leaks"])) == (1.0, 30)
    assert "no leaks found" in printed(lambda console: print_leak_audit(console, good))
    hindered = dataclasses.replace(good, interruption="ServiceUnavailableError: busy", unguarded=2)
    assert "forecasts: 3 (2 clairvoyant ones skipped); documents: 30" in printed(
        lambda console: print_leak_audit(console, hindered)
    )


def printed(show: Callable[[Console], None]) -> str:
    console = Console(file=io.StringIO(), width=300)
    show(console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
