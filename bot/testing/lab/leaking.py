"""What of the rewritten articles came to a forecaster, and what the audit of leaks found of it: the truth is known."""

from collections.abc import Iterable, Mapping, Sequence

from bot.evaluation.leak_audit import AuditedDocument, AuditOpinion, LeakAudit
from bot.testing.lab.answers import Leaks
from bot.testing.lab.questions import Case
from bot.testing.world.news import Article, Kind, Newsroom, Trick


def leaks_in(audit: LeakAudit, cases: Sequence[Case], newsroom: Newsroom) -> Leaks:
    """Hold the audit of a run against what really was rewritten after each cutoff; texts count once a question."""
    days = {str(case.question.ref): case.day for case in cases}
    seen = _by_text(audit.documents)
    told = {key: newsroom.article(key[1]) for key in seen}
    late = {key for key, article in told.items() if article is not None and _is_late(article, days[key[0]])}
    fakes = {key for key, article in told.items() if article is not None and article.trick is Trick.FAKE_RESULT}
    let_in = {key for key, found in seen.items() if any(one.document.dropped is None for one in found)}
    flagged = {
        key
        for key, found in seen.items()
        if any(one.document.dropped is None and one.opinion is AuditOpinion.LEAK for one in found)
    }
    return Leaks(
        met=len(late),
        let_in=len(late & let_in),
        caught=len(late & flagged),
        fakes=len((flagged & fakes) - late),
        wrongly=len(flagged - fakes - late),
    )


def _by_text(documents: Iterable[AuditedDocument]) -> Mapping[tuple[str, str], Sequence[AuditedDocument]]:
    """Return what is of the press by question and article."""
    found: dict[tuple[str, str], list[AuditedDocument]] = {}
    for one in documents:
        base, _, number = one.document.name.rpartition("/")
        if base.endswith("/news"):
            found.setdefault((one.ref, number), []).append(one)
    return found


def _is_late(article: Article, day: float) -> bool:
    """Say whether an article that was out by the cutoff tells what was written after it."""
    return article.kind is Kind.EDITED and article.published < day and any(one.day > day for one in article.versions)
