"""Checks of the evidence of a ledger: its file, the content of each document, and what the ledger says of it."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path

from sqlite_utils import Database

from bot.core.errors import FoxcastError, StoreError
from bot.store.database import open_reader_with, translate_errors
from bot.store.evidence import WITH_DOCUMENTS, EvidenceReader, evidence_path, unpack_bundle
from bot.store.integrity_checks import (
    MAX_EXAMPLES,
    IntegrityProblem,
    IntegrityReport,
    LedgerInvariant,
    run_check,
    run_full_check,
)

# For a connection to the ledger with its evidence attached. Evidence of a forecast may have been removed by a person.
EVIDENCE_INVARIANTS: tuple[LedgerInvariant, ...] = (
    LedgerInvariant(
        name="steps_are_kept",
        sql=f"""{WITH_DOCUMENTS}
select t.forecast, t.number, t.steps from trial t join forecast f on f.id = t.forecast
where f.evidence_removed_at is null and t.steps <> (
  select count(*) from step s where s.forecast = t.forecast and s.trial = t.number and s.number <= t.steps)
union all
select s.forecast, s.trial, s.number from step s
where (s.forecast, s.body) not in (select scope, digest from evidence_document)
  and s.body not in (select digest from shared_document)
""",  # noqa: S608 - made of constants
        meaning="a step of a trial is missing",
    ),
    LedgerInvariant(
        name="recording_is_kept",
        sql=f"""{WITH_DOCUMENTS}
select scope, trial, kind, key, nth from recording
where (scope, answer) not in (select scope, digest from evidence_document)
  and answer not in (select digest from shared_document)
""",  # noqa: S608 - made of constants
        meaning="a recorded response of a trial that is not in the evidence",
    ),
    LedgerInvariant(
        name="answered_call_has_its_answer",
        sql=f"""{WITH_DOCUMENTS}
select c.id, c.state from model_call c
where (c.state = 'done') <> (c.answer is not null)
  or c.answer is not null and (c.scope, c.answer) not in (select scope, digest from evidence_document)
  and c.answer not in (select digest from shared_document)
  and not exists (select 1 from forecast f where f.id = c.scope and f.evidence_removed_at is not null)
""",  # noqa: S608 - made of constants
        meaning="an answered call without its answer, or the reverse",
    ),
    LedgerInvariant(
        name="document_has_its_bundle",
        sql=f"""{WITH_DOCUMENTS}
select digest from shared_document where (digest, bundle) not in (select digest, bundle from evidence_document)
""",  # noqa: S608 - made of constants
        meaning="a document without its content",
    ),
)
_SELECT_STEPS = """
select s.forecast, s.trial, s.number, s.body from trial t join forecast f on f.id = t.forecast
join step s on s.forecast = t.forecast and s.trial = t.number and s.number <= t.steps
where f.evidence_removed_at is null order by s.forecast, s.trial, s.number
"""
# Reads all bundles, but only for what its forecast lacks: an older Foxcast cited answers to equal requests of others.
_HAS_DOCUMENT = f"{WITH_DOCUMENTS} select 1 from evidence_document where digest = ?"  # noqa: S608 - made of constants
_SELECT_BUNDLES = "select id, codec, documents, packed from bundle"
CITATIONS = "cited_documents_are_kept"
CONTENTS = "content_is_as_it_was"


def check_evidence(ledger: Path) -> IntegrityReport:
    """Check the file, every document, and that the evidence has what the ledger names.

    It has no time limit. Raises StoreError for a file that cannot be opened.
    """
    path = evidence_path(ledger)
    report = run_full_check(path, ())
    with translate_errors(path), closing(open_reader_with(ledger, path)) as database:
        database.conn.execute("pragma temp_store = file")
        found = [run_check(database, rule) for rule in EVIDENCE_INVARIANTS]
        found += [
            _problem(CITATIONS, "a step cites a document that is not in the evidence", find_lost_citations(database)),
            _problem(CONTENTS, "the content of a document is damaged", find_damaged_bundles(database)),
        ]
    names = (*(rule.name for rule in EVIDENCE_INVARIANTS), CITATIONS, CONTENTS)
    return replace(
        report,
        checks=(*report.checks, *names),
        problems=(*report.problems, *(problem for problem in found if problem is not None)),
    )


def find_lost_citations(database: Database) -> Iterator[str]:
    """Yield the documents that steps cite and that are missing; of an unreadable step, the reason."""
    for forecast, steps in groupby(database.execute(_SELECT_STEPS), key=itemgetter(0)):
        evidence = EvidenceReader(database, forecast)
        for _, trial, number, body in steps:
            try:
                cited = json.loads(evidence.text(body))["observation"].get("documents", ())
            except (FoxcastError, ValueError, KeyError) as error:
                yield f"step {number} of trial {trial} of {forecast}: {error}"
                continue
            lacking = [digest for digest in cited if not evidence.has(digest)]
            yield from (f"{forecast}, {digest}" for digest in lacking if _is_lost(database, digest))


def _is_lost(database: Database, digest: str) -> bool:
    return database.execute(_HAS_DOCUMENT, [digest]).fetchone() is None


def find_damaged_bundles(database: Database) -> Iterator[str]:
    """Yield the bundles that cannot be read, or that hold other documents than they name."""
    for bundle in database.execute(_SELECT_BUNDLES):
        try:
            unpack_bundle(*bundle)
        except StoreError as error:
            yield str(error)


def _problem(check: str, meaning: str, faults: Iterator[str]) -> IntegrityProblem | None:
    examples = tuple(islice(faults, MAX_EXAMPLES))
    return IntegrityProblem(check=check, meaning=meaning, examples=examples) if examples else None
