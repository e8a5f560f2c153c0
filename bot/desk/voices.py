"""The models as one trial hears them: through the record, charged to the trial, and within its time."""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from bot.desk.parts import Models
from bot.desk.record import Record, Told, digest_of
from bot.domain.inquiry import Charge, Inquiry
from bot.domain.prompt import Answer, Dialect, Message, Prompt
from bot.errors import ConfigError, ContractError, LimitReached, NotFound, Unavailable
from bot.ids import digest
from bot.ports import Clock
from bot.store.codec import Form

_ANSWER: Form[Answer] = Form("answer", Answer)
_PROMPT: Form[Prompt] = Form("prompt", Prompt)
# What a forecaster repeats it repeats soon; one that makes everything anew must not fill the memory.
_REMEMBERED = 256
# Less than this is no time: timers may come early by a little.
MOMENT_S = 1e-3


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer, and the exchange that holds it."""

    answer: Answer
    told: Told


@dataclass(frozen=True, slots=True, kw_only=True)
class Voices:
    """The models of one trial; ``until`` is the monotonic time at which the trial ends."""

    models: Models | None
    record: Record
    charge: Charge
    clock: Clock
    until: float
    _messages: dict[int, tuple[Message, str]] = field(default_factory=dict)
    _frames: dict[tuple[object, ...], tuple[Prompt, str]] = field(default_factory=dict)

    def dialect(self, role: str) -> Dialect:
        """Return how the role is asked, the same throughout the trial; raises ConfigError for one without a model."""
        asked = digest_of({"role": role})
        return Dialect(self.record.at_once("dialect", asked, lambda: str(self._models(role).dialect(role))))

    def has(self, role: str) -> bool:
        """Say whether a model plays the role."""
        try:
            self.dialect(role)
        except (ConfigError, NotFound):
            return False
        return True

    async def ask(self, role: str, prompt: Prompt, *, seed: int | None = None, names: list[str] | None = None) -> Heard:
        """Ask the model in a role; errors as in ``bot.ports.Desk.ask``. ``names`` gets the name of the exchange."""

        async def make(nth: int) -> Any:  # noqa: ANN401 - the JSON edge
            models = self._models(role)
            deadline_s = self._left_s()
            inquiry = Inquiry(role=role, prompt=prompt, charge=self.charge, seed=seed, nth=nth)
            try:
                return _ANSWER.plain(await models.ask(inquiry, deadline_s=deadline_s))
            except Unavailable:
                # Where the trial had no more time, that is why there is no answer.
                self._left_s()
                raise

        told = await self.record.through("model", self._asked(role, prompt, seed), make, names=names)
        return Heard(_ANSWER.value(told.plain), told)

    def _left_s(self) -> float:
        """Return the seconds that the trial has left; raises LimitReached where there are none."""
        left_s = self.until - self.clock.monotonic()
        if left_s <= MOMENT_S:
            message = "the time of the trial is over"
            raise LimitReached(message, limit="time")
        return left_s

    def _models(self, role: str) -> Models:
        if self.models is None:
            message = f"no model plays the role {role}: name one in [llm.roles.{role}]"
            raise ConfigError(message)
        return self.models

    def _asked(self, role: str, prompt: Prompt, seed: int | None) -> str:
        messages = [self._message(message) for message in prompt.messages]
        return digest_of({"role": role, "frame": self._frame(prompt), "messages": messages, "seed": seed})

    def _frame(self, prompt: Prompt) -> str:
        # Tools and schemas are made once and offered again and again: the same objects, and none of them changes.
        key = (prompt.allowed, id(prompt.schema), *map(id, prompt.tools))
        if (known := self._frames.get(key)) is None:
            _make_room(self._frames)
            frame = dataclasses.replace(prompt, messages=(), stable=0, model="", handover=(), cache_key="")
            known = self._frames[key] = (frame, digest_of(_PROMPT.plain(frame)))
        return known[1]

    def _message(self, message: Message) -> str:
        # A conversation only grows, so each of its messages is digested once. The message stays with its digest, so
        # that no other one can come to have its identity.
        if (known := self._messages.get(id(message))) is None:
            _make_room(self._messages)
            known = self._messages[id(message)] = (message, _digest_of(message))
        return known[1]


def _make_room(known: dict[Any, Any]) -> None:
    if len(known) >= _REMEMBERED:
        del known[next(iter(known))]


def _digest_of(message: Message) -> str:
    """Return a digest that only an equal message has: a line with all that is short and the lengths, then the rest.

    To write a long text as JSON takes longer than to take its digest. Raises ContractError for what is no message.
    """
    try:
        calls = [[call.id, call.name, len(call.arguments)] for call in message.calls]
        native = message.native
        given = None if native is None else [native.provider, native.model, len(native.text)]
        head = json.dumps([message.speaker, message.answers, calls, given])
        whole = head + "\n" + message.text + "".join(call.arguments for call in message.calls)
        whole += "" if native is None else native.text
        return digest(whole.encode(errors="surrogatepass"))
    except (AttributeError, TypeError, ValueError) as error:
        reason = f"what is asked cannot be written down: {error!r}"
        raise ContractError(reason) from error
