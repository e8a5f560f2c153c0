"""The models as one trial hears them: through the record, charged to the trial, and within its time."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from bot.desk.parts import Models
from bot.desk.record import Record, Told, digest_of
from bot.domain.inquiry import Charge, Inquiry
from bot.domain.prompt import Answer, Dialect, Message, Prompt
from bot.errors import ConfigError, NotFound, Unavailable
from bot.ports import Clock
from bot.store.codec import Form

_ANSWER: Form[Answer] = Form("answer", Answer)
_MESSAGE: Form[Message] = Form("message", Message)
_PROMPT: Form[Prompt] = Form("prompt", Prompt)


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
    _digests: dict[Message, str] = field(default_factory=dict)

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
            deadline_s = self.until - self.clock.monotonic()
            if deadline_s <= 0:
                message = "the time of the trial is over"
                raise Unavailable(message)
            inquiry = Inquiry(role=role, prompt=prompt, charge=self.charge, seed=seed, nth=nth)
            return _ANSWER.plain(await self._models(role).ask(inquiry, deadline_s=deadline_s))

        told = await self.record.through("model", self._asked(role, prompt, seed), make, names=names)
        return Heard(_ANSWER.value(told.plain), told)

    def _models(self, role: str) -> Models:
        if self.models is None:
            message = f"no model plays the role {role}: name one in [llm.roles.{role}]"
            raise ConfigError(message)
        return self.models

    def _asked(self, role: str, prompt: Prompt, seed: int | None) -> str:
        frame = _PROMPT.plain(dataclasses.replace(prompt, messages=(), stable=0))
        messages = [self._digest(message) for message in prompt.messages]
        return digest_of({"role": role, "frame": frame, "messages": messages, "seed": seed})

    def _digest(self, message: Message) -> str:
        # A conversation only grows, so each of its messages is written out once.
        if message not in self._digests:
            self._digests[message] = digest_of(_MESSAGE.plain(message))
        return self._digests[message]
