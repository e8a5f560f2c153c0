"""Checks of the evidence of a ledger: its file, the content of each document, and what the ledger says of it."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path

from sqlite_utils import Database

from bot.core.errors import FoxcastError
from bot.core.ids import sha256_hex
from bot.store.database import open_reader_with, translate_errors
from bot.store.evidence import EvidenceReader, bundle_contents, evidence_path
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
        sql="""
select t.forecast, t.number, t.steps from trial t join forecast f on f.id = t.forecast
where f.evidence_removed_at is null and t.steps <> (
  select count(*) from step s where s.forecast = t.forecast and s.trial = t.number and s.number <= t.steps)
union all
select s.forecast, s.trial, s.number from step s where s.body not in (select digest from evidence_document)
""",
        meaning="a step of a trial is missing",
    ),
    LedgerInvariant(
        name="recording_is_kept",
        sql="""
select scope, trial, kind, key, nth from recording where answer not in (select digest from evidence_document)
""",
        meaning="a recorded response of a trial that is not in the evidence",
    ),
    LedgerInvariant(
        name="answered_call_has_its_answer",
        sql="""
select c.id, c.state from model_call c
where (c.state = 'done') <> (c.answer is not null)
  or c.answer is not null and c.answer not in (select digest from evidence_document)
  and not exists (select 1 from forecast f where f.id = c.scope and f.evidence_removed_at is not null)
""",
        meaning="an answered call without its answer, or the reverse",
    ),
    LedgerInvariant(
        name="document_has_its_bundle",
        sql="select digest from evidence_document where bundle not in (select id from bundle)",
        meaning="a document without its content",
    ),
)
_SELECT_STEPS = """
select s.forecast, s.trial, s.number, s.body from trial t join forecast f on f.id = t.forecast
join step s on s.forecast = t.forecast and s.trial = t.number and s.number <= t.steps
where f.evidence_removed_at is null order by s.forecast, s.trial, s.number
"""
_HAS_DOCUMENT = "select 1 from evidence_document where digest = ?"
_DOCUMENT_PLACE = "select bundle, place from evidence_document where digest = ?"
_SELECT_BUNDLES = "select id, codec, packed from bundle"
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
    evidence = EvidenceReader(database)
    for forecast, trial, number, body in database.execute(_SELECT_STEPS):
        try:
            cited = json.loads(evidence.text(body))["observation"].get("documents", ())
        except (FoxcastError, ValueError, KeyError) as error:
            yield f"step {number} of trial {trial} of {forecast}: {error}"
            continue
        for digest in cited:
            if database.execute(_HAS_DOCUMENT, [digest]).fetchone() is None:
                yield f"{forecast}, {digest}"


def find_damaged_bundles(database: Database) -> Iterator[str]:
    """Yield the bundles that cannot be read, or whose documents are not where the index says."""
    for bundle, codec, packed in database.execute(_SELECT_BUNDLES):
        try:
            contents = list(bundle_contents(codec, packed))
        except ValueError as error:
            yield f"bundle {bundle}: {error}"
            continue
        for place, content in contents:
            if database.execute(_DOCUMENT_PLACE, [sha256_hex(content)]).fetchone() != (bundle, place):
                yield f"bundle {bundle}: the document at {place}"


def _problem(check: str, meaning: str, faults: Iterator[str]) -> IntegrityProblem | None:
    examples = tuple(islice(faults, MAX_EXAMPLES))
    return IntegrityProblem(check=check, meaning=meaning, examples=examples) if examples else None
