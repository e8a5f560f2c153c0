"""Leaks counted against what really was rewritten: the newsroom knows, the audit does not."""

from collections.abc import Sequence

from bot.evaluation.leak_audit import AuditedDocument, AuditOpinion, LeakAudit
from bot.evaluation.seen_documents import DocumentKind as Document
from bot.evaluation.seen_documents import GuardLayer, SeenDocument
from bot.simulator.laboratory.questions import LaboratoryQuestion, create_world, select_questions
from bot.simulator.laboratory.runs import count_leaks
from bot.simulator.laboratory.trial_runner import NEWS_ORIGIN
from bot.simulator.world.news import ArticleKind, HostileTrick, NewsArticle, NewsGenerator

WORLD = create_world(5, 60)
ROOM = NewsGenerator(world=WORLD)
CASES = select_questions(WORLD, 60)


def pick(kind: ArticleKind, trick: HostileTrick | None = None) -> tuple[LaboratoryQuestion, NewsArticle]:
    """Return a case with an article of the kind that was out by its cutoff."""
    return next(
        (case, article)
        for case in CASES
        for article in ROOM.articles(case.simulated_question.key)
        if article.kind is kind and article.trick is trick and article.published < case.day
    )


def seen(case: LaboratoryQuestion, article: NewsArticle, *, kept: bool, opinion: AuditOpinion) -> AuditedDocument:
    met = SeenDocument(
        trial=1,
        tool="web_search",
        kind=Document.RESULT,
        name=f"{NEWS_ORIGIN}/news/{article.id}",
        text="",
        dropped=None if kept else GuardLayer.CONTENT,
    )
    return AuditedDocument(scope="s", ref=str(case.question.ref), document=met, opinion=opinion)


def audit(*documents: AuditedDocument) -> LeakAudit:
    return LeakAudit(forecasts=1, unguarded=0, documents=documents)


def counts(documents: Sequence[AuditedDocument]) -> tuple[int, int, int, int, int]:
    found = count_leaks(audit(*documents), CASES, ROOM)
    return found.found_by_search, found.let_in, found.caught, found.fakes, found.false_alarms


def test_what_was_rewritten_after_the_cutoff_is_a_leak_found_or_not() -> None:
    case, edited = pick(ArticleKind.EDITED)
    assert counts([seen(case, edited, kept=True, opinion=AuditOpinion.LEAK)]) == (1, 1, 1, 0, 0)
    assert counts([seen(case, edited, kept=True, opinion=AuditOpinion.CLEAN)]) == (1, 1, 0, 0, 0)
    assert counts([seen(case, edited, kept=False, opinion=AuditOpinion.LEAK)]) == (1, 0, 0, 0, 0)


def test_a_text_counts_once_however_often_it_was_met() -> None:
    case, edited = pick(ArticleKind.EDITED)
    twice = [seen(case, edited, kept=kept, opinion=AuditOpinion.LEAK) for kept in (False, True)]
    assert counts(twice) == (1, 1, 1, 0, 0)


def test_what_is_honest_or_only_pretends_is_no_leak_but_may_be_taken_for_one() -> None:
    honest = seen(*pick(ArticleKind.RELEVANT), kept=True, opinion=AuditOpinion.LEAK)
    fake = seen(*pick(ArticleKind.HOSTILE, HostileTrick.FAKE_RESULT), kept=True, opinion=AuditOpinion.LEAK)
    assert counts([honest]) == (0, 0, 0, 0, 1)
    assert counts([fake]) == (0, 0, 0, 1, 0)
    assert counts([]) == (0, 0, 0, 0, 0)
