"""A person as a model: the terminal shows the prompt, and the answer is typed there. ``terminal:Ada``.

Everything else is as with any model: role, record, replay, budget (declare it free). Only a command that runs in the
foreground of a terminal can ask; anywhere else, in the daemon say, the question is refused at once, with the reason.
Two questions are never asked at the same time, and text that was typed before a question was shown is no answer to it.
The texts of others are shown without the control characters of a terminal.
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
    FinishReason,
    Json,
    LocalPath,
    Message,
    MessageRole,
    ModelCompletion,
    ModelProvider,
    ModelSpec,
    ModelUsage,
    PluginContext,
    PluginSettings,
    Prompt,
    RequestRejectedError,
    SamplingSettings,
    TokenPrice,
    ToolCall,
    hookimpl,
)
from plugins.models._schema_form import AnswerDeclinedError, choose_option, fill_schema

NAME = "terminal"
USAGE_HINT = "run `foxcast forecast` in the foreground of a terminal, while no daemon runs"
# How soon a cancelled question frees the terminal.
POLL_INTERVAL_S = 0.2
MAX_LINE_BYTES = 4096


class TerminalSettings(PluginSettings):
    """Which terminal a person is asked on."""

    device: LocalPath = Field(default=Path("/dev/tty"))
    """The terminal that shows questions; by default the one that the program was started from."""


@dataclass(slots=True)
class TerminalLine:
    """An open terminal that shows texts and reads lines. Waiting for a line ends when it is cancelled."""

    device: int
    _unread: bytes = b""

    def show_text(self, text: str) -> None:
        """Show a text, without control characters of the terminal."""
        shown = "".join(sign if sign.isprintable() or sign in "\n\t" else " " * sign.isspace() for sign in text)
        left = shown.encode(errors="replace")
        while left:
            left = left[os.write(self.device, left) :]

    async def read_line(self, prompt: str) -> str:
        """Return one line, without its end; raises AnswerDeclinedError where there will be none (Ctrl-D)."""
        self.show_text(prompt)
        while b"\n" not in self._unread:
            ready, _, _ = await asyncio.to_thread(select.select, [self.device], [], [], POLL_INTERVAL_S)
            if not ready:
                continue
            came = os.read(self.device, MAX_LINE_BYTES)
            if not came:
                message = "the line was closed"
                raise AnswerDeclinedError(message)
            self._unread += came
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode(errors="replace").strip()


@dataclass(slots=True)
class TerminalProvider:
    """Implements ``bot.api.ModelProvider``: the model's name is that of the person."""

    settings: TerminalSettings
    # The texts of the last prompt by person: they need not read a continued conversation from the beginning.
    _shown: dict[str, frozenset[str]] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def price(self, model: str) -> TokenPrice | None:
        """Return nothing: config declares a person free."""
        return None

    async def lacks(self, model: str) -> str | None:
        """Return why nobody can be asked now, if that is so."""
        try:
            with self._open_line():
                return None
        except RequestRejectedError as error:
            return str(error)

    async def complete(self, model: str, prompt: Prompt, sampling: SamplingSettings) -> ModelCompletion:
        """Ask the person.

        Raises RequestRejectedError where no person is at the terminal, and where the line is closed with Ctrl-D.
        """
        async with self._lock:
            with self._open_line() as line:
                termios.tcflush(line.device, termios.TCIFLUSH)
                line.show_text(f"\n{model} is asked:\n")
                line.show_text("".join(f"{text}\n\n" for text in self._unseen_texts(model, prompt.messages)))
                try:
                    return await _ask_person(prompt, line)
                except AnswerDeclinedError as decline:
                    why = f"{NAME}:{model} gives no answer: {decline}"
                    raise RequestRejectedError(why) from None

    def _unseen_texts(self, model: str, messages: Sequence[Message]) -> list[str]:
        """Return the texts that the person has not seen in an earlier prompt, and in any case the last one."""
        texts = [message.text for message in messages if message.speaker is not MessageRole.ASSISTANT]
        before = self._shown.get(model, frozenset())
        self._shown[model] = frozenset(texts)
        return [text for text in texts[:-1] if text not in before] + texts[-1:]

    @contextmanager
    def _open_line(self) -> Iterator[TerminalLine]:
        where = self.settings.device
        try:
            device = os.open(where, os.O_RDWR | os.O_NOCTTY)
        except OSError as error:
            message = f"there is no terminal to ask on ({where}: {error.strerror}); {USAGE_HINT}"
            raise RequestRejectedError(message) from None
        try:
            if (why := _unusable_reason(device)) is not None:
                message = f"{where} {why}; {USAGE_HINT}"
                raise RequestRejectedError(message)
            yield TerminalLine(device)
        finally:
            os.close(device)


async def _ask_person(prompt: Prompt, line: TerminalLine) -> ModelCompletion:
    usage = ModelUsage(calls=1)
    if prompt.schema is not None:
        answer = json.dumps(await fill_schema(prompt.schema, line), ensure_ascii=False)
        return ModelCompletion(text=answer, usage=usage)
    offered = {tool.name: tool for tool in prompt.tools if not prompt.allowed or tool.name in prompt.allowed}
    if not offered:
        return ModelCompletion(text=await line.read_line("your answer: "), usage=usage)
    name = await choose_option("what to do", list(offered), line)
    given: Json = await fill_schema(offered[name].parameters, line)
    call = ToolCall(id="call_1", name=name, arguments=json.dumps(given, ensure_ascii=False))
    return ModelCompletion(calls=(call,), finish=FinishReason.CALLS, usage=usage)


def _unusable_reason(device: int) -> str | None:
    """Return why no person is at an open device; to read from the background would stop the whole program."""
    if not os.isatty(device):
        return "is no terminal"
    try:
        in_front = os.tcgetpgrp(device) == os.getpgrp()
    except OSError:
        # Not the terminal that this program was started from, but one that config names.
        return None
    return None if in_front else "belongs to another program now: this one runs in the background"


@asynccontextmanager
async def open_terminal(settings: TerminalSettings, _place: PluginContext) -> AsyncIterator[ModelProvider]:
    """Open nothing yet: the terminal is opened for each question."""
    yield TerminalProvider(settings)


@hookimpl
def foxcast_models() -> list[ModelSpec[TerminalSettings]]:
    """Offer the provider."""
    return [
        ModelSpec(
            name=NAME,
            summary="A person who answers in the terminal",
            settings=TerminalSettings,
            open=open_terminal,
            is_interactive=True,
        )
    ]
