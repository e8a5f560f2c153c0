"""Contract kit for notifiers that send over HTTP: tests that a plugin's test module inherits."""

# ruff: noqa: S101 - pytest is made of assert
import json
from copy import copy
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bot.core.alerts import AlertLevel, NotificationMessage
from bot.core.errors import FoxcastError
from bot.core.plugin_specs import NotifierSpec, PluginContext
from bot.testing.clock import START, FakeClock
from bot.testing.http import FixedResponseClient
from bot.testing.spec_contract import TRANSPORT_ERRORS, PluginSpecContract

MESSAGE = NotificationMessage(
    subject="1 venue cannot be read",
    text="kelp: no answer since 09:00\nlook at its status page",
    level=AlertLevel.WARNING,
    id="message-1",
    at=START,
)


class NotifierContract(PluginSpecContract):
    """What every notifier must do; ``secret`` is the secret in the settings, None for one that has none.

    ``answer`` is what its service says to a message that it accepts.
    """

    spec: ClassVar[NotifierSpec[Any]]
    secret: ClassVar[str | None] = None
    answer: ClassVar[bytes] = b"{}"

    async def test_a_message_is_sent_whole(self, tmp_path: Path) -> None:
        http = await self._notify(self.answer, tmp_path)
        assert http.requests, "nothing was sent over context.http"
        sent = " ".join(f"{one.url} {json.dumps(one.body)} {dict(one.headers)}" for one in http.requests)
        for name, text in (("subject", MESSAGE.subject), ("text", MESSAGE.text)):
            missing = [line for line in text.splitlines() if line not in sent]
            assert not missing, f"NotificationMessage.{name} was not sent whole: {missing} is missing"

    @pytest.mark.parametrize("error", TRANSPORT_ERRORS, ids=lambda error: type(error).__name__)
    async def test_a_failure_is_raised(self, error: FoxcastError, tmp_path: Path) -> None:
        try:
            await self._notify(error, tmp_path)
        except type(error):
            return
        pytest.fail(
            f"context.http raised {type(error).__name__} and notify swallowed it: the engine takes a return for a "
            "delivery, and would never send the message again"
        )

    async def test_the_secret_is_shown_nowhere(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        if self.secret is None:
            pytest.skip("this notifier has no secret")
        http = await self._notify(self.answer, tmp_path)
        assert self.secret in " ".join(f"{one.url} {one.headers} {one.body}" for one in http.requests), (
            "the secret of the settings is not sent, so this kit cannot see whether it is shown elsewhere"
        )
        shown = [repr(self.settings), str(self.settings), self.settings.model_dump_json(), caplog.text]
        for error in TRANSPORT_ERRORS:
            with pytest.raises(FoxcastError) as caught:
                await self._notify(error, tmp_path)
            shown.append(f"{caught.value!r} {caught.value}")
        assert sum(self.secret in text for text in shown) == 0, "the secret is in a repr, an error or a log"

    async def _notify(self, answer: bytes | Exception, folder: Path) -> FixedResponseClient:
        # A copy: a channel may add to an error on its way, and other tests raise the same one.
        http = FixedResponseClient(copy(answer))
        context = PluginContext(clock=FakeClock(), http=http, folder=folder)
        async with self.spec.open(self.settings, context) as channel:
            await channel.notify(MESSAGE)
        return http
