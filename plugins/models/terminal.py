"""A person as a model: what is asked stands in the terminal, and what is typed there is the answer. ``terminal:Ada``.

Everything else is as with any model: role, record, replay, budget (declare it free). Only a command that runs in the
foreground of a terminal can ask; anywhere else, in the daemon say, the question is refused at once, with the reason.
Two questions are never asked at the same time, and what was typed before a question was shown is no answer to it. The
texts of others are shown without the signs that steer a terminal.
"""

import asyncio
import json
import os
import select
import termios
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from bot.api import (
    Completion,
    Finish,
    Json,
    Llm,
    LocalPath,
    Message,
    ModelSpec,
    Price,
    Prompt,
    Rejected,
    Sampling,
    Settings,
    Speaker,
    ToolCall,
    Usage,
    Workplace,
    hookimpl,
)
from plugins.models._form import Decline, filled, one_of

NAME = "terminal"
REMEDY = "run `foxcast forecast` in the foreground of a terminal, while no daemon runs"
# How soon a question that was given up lets go of the terminal.
LOOK_S = 0.2
LINE_BYTES = 4096


class TerminalSettings(Settings):
    """``device`` is the terminal that is asked on: the one that the program was started from."""

    device: LocalPath = Field(default=Path("/dev/tty"))


@dataclass(slots=True)
class Line:
    """An open terminal: texts go out, lines come in. Waiting for a line ends when it is cancelled."""

    device: int
    _begun: bytes = b""

    def write(self, text: str) -> None:
        """Show a text, without what would steer the terminal."""
        shown = "".join(sign if sign.isprintable() or sign in "\n\t" else " " * sign.isspace() for sign in text)
        left = shown.encode(errors="replace")
        while left:
            left = left[os.write(self.device, left) :]

    async def read(self, prompt: str) -> str:
        """Return one line, without its end; raises Decline where there will be none (Ctrl-D)."""
        self.write(prompt)
        while b"\n" not in self._begun:
            ready, _, _ = await asyncio.to_thread(select.select, [self.device], [], [], LOOK_S)
            if not ready:
                continue
            came = os.read(self.device, LINE_BYTES)
            if not came:
                message = "the line was closed"
                raise Decline(message)
            self._begun += came
        line, _, self._begun = self._begun.partition(b"\n")
        return line.decode(errors="replace").strip()


@dataclass(slots=True)
class Terminal:
    """Implements ``bot.api.Llm``: the model's name is that of the person."""

    settings: TerminalSettings
    # The texts of the last prompt by person: a conversation that goes on need not be read from the beginning.
    _shown: dict[str, frozenset[str]] = field(default_factory=dict)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def price(self, model: str) -> Price | None:
        """Return nothing: config declares a person free."""
        return None

    async def lacks(self, model: str) -> str | None:
        """Return why nobody can be asked now, if that is so."""
        try:
            with self._opened():
                return None
        except Rejected as error:
            return str(error)

    async def complete(self, model: str, prompt: Prompt, sampling: Sampling) -> Completion:
        """Ask the person.

        Raises Rejected where there is no terminal in front of anybody, and where the line is closed with Ctrl-D.
        """
        async with self._one_at_a_time:
            with self._opened() as line:
                termios.tcflush(line.device, termios.TCIFLUSH)
                line.write(f"\n{model} is asked:\n")
                line.write("".join(f"{text}\n\n" for text in self._new(model, prompt.messages)))
                try:
                    return await _answer(prompt, line)
                except Decline as decline:
                    why = f"{NAME}:{model} gives no answer: {decline}"
                    raise Rejected(why) from None

    def _new(self, model: str, messages: Sequence[Message]) -> list[str]:
        """Return what the person was not told in the prompt before, and in any case the last that others said."""
        told = [message.text for message in messages if message.speaker is not Speaker.ASSISTANT]
        before = self._shown.get(model, frozenset())
        self._shown[model] = frozenset(told)
        return [text for text in told[:-1] if text not in before] + told[-1:]

    @contextmanager
    def _opened(self) -> Iterator[Line]:
        where = self.settings.device
        try:
            device = os.open(where, os.O_RDWR | os.O_NOCTTY)
        except OSError as error:
            message = f"there is no terminal to ask on ({where}: {error.strerror}); {REMEDY}"
            raise Rejected(message) from None
        try:
            if (why := _unfit(device)) is not None:
                message = f"{where} {why}; {REMEDY}"
                raise Rejected(message)
            yield Line(device)
        finally:
            os.close(device)


async def _answer(prompt: Prompt, line: Line) -> Completion:
    usage = Usage(calls=1)
    if prompt.schema is not None:
        answer = json.dumps(await filled(prompt.schema, line), ensure_ascii=False)
        return Completion(text=answer, usage=usage)
    offered = {tool.name: tool for tool in prompt.tools if not prompt.allowed or tool.name in prompt.allowed}
    if not offered:
        return Completion(text=await line.read("your answer: "), usage=usage)
    name = await one_of("what to do", list(offered), line)
    given: Json = await filled(offered[name].parameters, line)
    call = ToolCall(id="call_1", name=name, arguments=json.dumps(given, ensure_ascii=False))
    return Completion(calls=(call,), finish=Finish.CALLS, usage=usage)


def _unfit(device: int) -> str | None:
    """Say why nobody sits in front of an open device; to read from the background would stop the whole program."""
    if not os.isatty(device):
        return "is no terminal"
    try:
        in_front = os.tcgetpgrp(device) == os.getpgrp()
    except OSError:
        # Not the terminal that this program was started from, but one that config names.
        return None
    return None if in_front else "belongs to another program now: this one runs in the background"


@asynccontextmanager
async def open_terminal(settings: TerminalSettings, _place: Workplace) -> AsyncIterator[Llm]:
    """Open nothing yet: the terminal is opened for each question."""
    yield Terminal(settings)


@hookimpl
def foxcast_models() -> list[ModelSpec[TerminalSettings]]:
    """Offer the provider."""
    return [
        ModelSpec(
            name=NAME,
            summary="A person who answers in the terminal",
            settings=TerminalSettings,
            open=open_terminal,
            converses=True,
        )
    ]
