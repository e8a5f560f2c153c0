"""How the baseline learns, and the parameters that come with the package."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from importlib.resources import files

from bot.api import ContractError, Example, Fitted, Happened, Json, QuestionRef
from plugins.baseline.facts import Facts, Known
from plugins.baseline.forecaster import event_of, facts_of
from plugins.baseline.model import fit
from plugins.baseline.parameters import to_json

NAME = "baseline"


class BaselineLearner:
    """Learns all forms from resolved yes-or-no targets; a question without a text counts where its id suffices."""

    def fit(self, examples: Sequence[Example], *, before: datetime) -> Mapping[str, Json]:
        """Return parameters as a JSON object; raises LeakError for an outcome not known before that day."""
        return to_json(fit([*_known(examples)], before=_day(before)))


def shipped() -> tuple[Fitted, ...]:
    """Return the parameters in ``fitted/``; raises ContractError for a file that ``foxcast fit`` has not written so."""
    folder = files("plugins.baseline") / "fitted"
    named = sorted((file.name, file) for file in folder.iterdir() if file.name.endswith(".json"))
    return tuple(_read(name, file.read_text(encoding="utf-8")) for name, file in named)


def _read(name: str, text: str) -> Fitted:
    try:
        raw = json.loads(text)
        return Fitted(
            forecaster=raw["forecaster"],
            before=datetime.fromisoformat(raw["before"]),
            examples=raw["examples"],
            payload=raw["payload"],
            provenance=raw["provenance"],
        )
    except (ValueError, KeyError, TypeError) as error:
        message = f"{name}: {error!r}; write it again with: foxcast fit {NAME}"
        raise ContractError(message) from error


def _known(examples: Iterable[Example]) -> Iterator[Known]:
    # Most questions have several outcomes and the same facts in all of them.
    read: dict[tuple[QuestionRef, datetime], Facts] = {}
    for example in examples:
        resolution, question = example.resolution, example.question
        if not isinstance(resolution.outcome, Happened):
            continue
        asked = question.ref, question.as_of or resolution.resolved_at
        if asked not in read:
            read[asked] = facts_of(question, asked[1])
        event = event_of(read[asked], question.target(resolution.target))
        yield Known(event=event, outcome=resolution.outcome.value, resolved_on=_day(resolution.resolved_at))


def _day(moment: datetime) -> date:
    return moment.astimezone(UTC).date()
