"""The writing half: one file per round, replaced as a whole or not at all.

The paper book and the live writer are the same writer on another folder and under another window: live, the folder is
synchronised to the team's bucket and closed outside the 24 hours of the due date.
Source: docs/facts/forecastbench.md#forecast-set.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path

from bot.api import (
    ConfigError,
    IntentState,
    MalformedDataError,
    NotFoundError,
    PluginContext,
    SubmissionBatch,
    VenueSubmitter,
    WriteReceipt,
)
from plugins.forecastbench.file_format import end_of_day, start_of_day
from plugins.forecastbench.file_parser import parse_frame
from plugins.forecastbench.forecast_set import draft_forecast_set, serialize_forecast_set
from plugins.forecastbench.forecast_set_validator import find_violations
from plugins.forecastbench.round_files import decode_json, read_bytes
from plugins.forecastbench.settings import ForecastBenchSettings

PAPER_FOLDER_NAME = "forecast_sets"

WindowObjection = Callable[[date], str | None]


class ForecastSetWriter:
    """Writes the forecast set of a round into a folder.

    ``objection`` returns why a due date is closed, None if open.
    """

    def __init__(self, settings: ForecastBenchSettings, folder: Path, objection: WindowObjection) -> None:
        self._settings = settings
        self._folder = folder
        self._objection = objection

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Replace the file of the round by all intents of the batch.

        Refused as a whole outside the window or for a breach of the documented rules; an intent that does not answer
        its question is refused alone. With more than 5 % of the rows missing nothing is written and the others are
        absent, to come again when there are more. A failing disk gives unknown.
        """
        planned = draft_forecast_set(batch)
        if why := self._refusal(batch):
            return _receipts_for_all(batch, IntentState.REFUSED, why)
        if planned.breaches:
            return _receipts_by_intent(batch, planned.refused, IntentState.ABSENT, detail="; ".join(planned.breaches))
        rows = [row for part in planned.rows.values() for row in part]
        content = serialize_forecast_set(rows, due_date=batch.key, settings=self._settings)
        path = self._path(batch)
        try:
            broken = await asyncio.to_thread(_replace_file, path, content, batch)
        except (OSError, MalformedDataError, NotFoundError) as error:
            return _receipts_for_all(batch, IntentState.UNKNOWN, f"{path.name}: {error}")
        if broken:
            return _receipts_for_all(batch, IntentState.REFUSED, "; ".join(broken[:3]))
        expected = sum(len(question.targets) for question in batch.questions)
        done = f"{len(rows)} of {expected} rows"
        return _receipts_by_intent(batch, planned.refused, IntentState.ACKED, reference=path.name, detail=done)

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Read the file back: acked where every row of an intent is as intended, else absent.

        A file that exists but cannot be read gives unknown.
        """
        path = self._path(batch)
        try:
            content = await asyncio.to_thread(read_bytes, path)
            standing = _written_rows(decode_json(content, name=path.name))
        except NotFoundError:
            return _receipts_for_all(batch, IntentState.ABSENT, f"{path.name} does not exist")
        except MalformedDataError as error:
            return _receipts_for_all(batch, IntentState.UNKNOWN, str(error))
        planned = draft_forecast_set(batch)
        receipts = []
        for intent in batch.intents:
            rows = planned.rows.get(intent.id, ())
            there = bool(rows) and all(
                standing.get((row.source, row.id, row.resolution_date)) == row.forecast for row in rows
            )
            state = IntentState.ACKED if there else IntentState.ABSENT
            receipts.append(WriteReceipt(intent=intent.id, state=state, reference=path.name))
        return tuple(receipts)

    def _refusal(self, batch: SubmissionBatch) -> str | None:
        try:
            due = date.fromisoformat(batch.key)
        except ValueError:
            return f"batch {batch.key!r} is not a due date"
        return self._objection(due)

    def _path(self, batch: SubmissionBatch) -> Path:
        return self._folder / f"{batch.key}.{self._settings.organization}.{self._settings.set_number}.json"


@asynccontextmanager
async def open_paper_forecasts(
    settings: ForecastBenchSettings, context: PluginContext
) -> AsyncIterator[VenueSubmitter]:
    """Open the paper book: files in the venue's own folder, at any time, for any round."""
    folder = context.folder / PAPER_FOLDER_NAME
    folder.mkdir(exist_ok=True)
    yield ForecastSetWriter(settings, folder, _accept_any_date)


@asynccontextmanager
async def open_writer(settings: ForecastBenchSettings, context: PluginContext) -> AsyncIterator[VenueSubmitter]:
    """Open the live writer; raises ConfigError without an upload folder."""
    folder = settings.upload_folder
    if folder is None or not folder.is_dir():
        message = f"upload_folder {str(folder or '')!r} is not a folder: mount the team's bucket there and name it"
        raise ConfigError(message)

    def outside_window(due: date) -> str | None:
        now = context.clock.now()
        if start_of_day(due) <= now <= end_of_day(due):
            return None
        return f"the window of {due} is that day in UTC; it is {now.isoformat(timespec='seconds')}"

    yield ForecastSetWriter(settings, folder, outside_window)


def _accept_any_date(_: date) -> str | None:
    return None


def _replace_file(path: Path, content: bytes, batch: SubmissionBatch) -> tuple[str, ...]:
    """Write, read back, validate, then rename; returns the broken rules, in which case the old file stays."""
    written = path.with_name(f".{path.name}.tmp")
    try:
        with written.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if broken := find_violations(read_bytes(written), file_name=path.name, questions=batch.questions):
            return broken
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)
    _sync_folder(path.parent)
    return ()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _written_rows(raw: object) -> Mapping[tuple[str, str, str | None], float]:
    try:
        _, rows = parse_frame(raw, "forecasts")
        return {(row["source"], row["id"], row["resolution_date"]): row["forecast"] for row in rows}
    except (KeyError, TypeError) as error:
        message = f"not a forecast set: {error!r}"
        raise MalformedDataError(message) from error


def _receipts_by_intent(
    batch: SubmissionBatch, refused: Mapping[str, str], state: IntentState, *, detail: str, reference: str = ""
) -> Sequence[WriteReceipt]:
    return tuple(
        WriteReceipt(intent=intent.id, state=IntentState.REFUSED, reference=reference, detail=refused[intent.id])
        if intent.id in refused
        else WriteReceipt(intent=intent.id, state=state, reference=reference, detail=detail)
        for intent in batch.intents
    )


def _receipts_for_all(batch: SubmissionBatch, state: IntentState, detail: str) -> Sequence[WriteReceipt]:
    return _receipts_by_intent(batch, {}, state, detail=detail)
