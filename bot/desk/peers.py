"""What other forecasters said of the same question, for one that makes an answer of theirs. It asks no model.

Only what stood before its own cutoff counts, and nothing of who saw the future. What was read is on record first, as
the use of a tool, so a trial that is taken up or replayed reads the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.desk.bare import BareBench
from bot.desk.bench import USE, Use
from bot.desk.notebook import NOTE, Note
from bot.desk.record import Record, digest_of
from bot.desk.said import PEERS
from bot.domain.forecast import Forecast, Limits
from bot.domain.inquiry import Charge
from bot.domain.question import Question
from bot.domain.step import Json, Observation, ToolResult
from bot.ports import Clock
from bot.store.codec import PREDICTIONS, clean, version_of
from bot.store.ledger import Ledger

# What a member said so long before says nothing any more.
OLDEST = timedelta(days=6)
_BARE = BareBench()


@dataclass(frozen=True, slots=True)
class PeerBenches:
    """Where forecasters that build on others find what those said, unless that is older than ``oldest``."""

    ledger: Ledger
    clock: Clock
    oldest: timedelta = OLDEST

    async def bench(
        self, question: Question, *, charge: Charge, cutoff: datetime, limits: Limits, guarded: bool = True
    ) -> "PeerBench":
        """Return the bench of one trial, with all that it had read before, if it had begun."""
        record = Record(self.ledger.exchanges, charge.scope, charge.trial, self.clock, sealed=False)
        await record.load()
        return PeerBench(
            ledger=self.ledger,
            question=question,
            charge=charge,
            cutoff=cutoff,
            record=record,
            oldest=self.oldest,
            guarded=guarded,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerBench(BareBench):
    """A bench whose one use is ``peer_forecasts`` with the names of ``forecasters``.

    For code, in ``data``: ``answers``, each with forecaster, id, moments and ``predictions`` (as its trials said
    together, before calibration), in the order of the names; and ``absent``, why others have none, by name.
    """

    ledger: Ledger
    question: Question
    charge: Charge
    cutoff: datetime
    record: Record
    oldest: timedelta = OLDEST
    guarded: bool = True

    async def use(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        """Read what the named forecasters said; nothing else can be used."""
        names = arguments.get("forecasters")
        if tool != PEERS or not isinstance(names, list):
            return await _BARE.use(tool, arguments)
        asked = digest_of({"tool": tool, "arguments": dict(arguments)})
        told = await self.record.through("tool", asked, lambda _: self._read([str(name) for name in names]))
        result = USE.value(told.plain).result
        documents = tuple(dict.fromkeys((*result.observation.documents, told.digest)))
        observation = Observation(text=result.observation.text, documents=documents)
        return ToolResult(observation=observation, data=result.data)

    async def keep(self, text: str) -> str:
        """Put a text on record and return its digest."""
        return await self.ledger.documents.put(clean(text).encode(), "text/plain")

    async def _read(self, names: Sequence[str]) -> object:
        answers: list[Json] = []
        absent: dict[str, Json] = {}
        lines: list[str] = []
        for name in names:
            found = await self._newest(name)
            if isinstance(found, str):
                absent[name] = found
                lines.append(f"{name} is left out: {found}")
                continue
            lines.append(f"{name}: forecast {found.id} of {found.made_at:%Y-%m-%d %H:%M} UTC")
            answers.append(
                {
                    "forecaster": name,
                    "forecast": found.id,
                    "made_at": found.made_at.isoformat(),
                    "cutoff": found.cutoff.isoformat(),
                    "predictions": PREDICTIONS.plain(found.raw),
                }
            )
        data: Json = {"answers": answers, "absent": absent}
        result = ToolResult(observation=Observation(text="\n".join(lines)), data=data)
        return USE.plain(Use(result=result, note=NOTE.plain(Note())))

    async def _is_clairvoyant(self, made: Forecast) -> bool:
        setup = (await self.ledger.forecasts.trace(made.id)).setup
        return setup is not None and setup.clairvoyant

    async def _newest(self, name: str) -> Forecast | str:
        """Return its newest forecast that counts, or why there is none."""
        version, why = version_of(self.question), "it has no forecast of this question"
        for made in reversed(await self.ledger.forecasts.history(self.question.ref)):
            if made.forecaster != name or made.id == self.charge.scope:
                continue
            if made.version != version:
                why = "its forecast is of another text of this question"
            elif made.cutoff > self.cutoff:
                why = "its forecast may rest on what came after the cutoff"
            elif self.cutoff - made.cutoff > self.oldest:
                why = f"its last forecast, of {made.made_at:%Y-%m-%d}, is too old"
            elif self.guarded and await self._is_clairvoyant(made):
                why = "it is clairvoyant"
            else:
                return made
        return why
