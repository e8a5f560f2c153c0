"""What errors of a provider mean, and that what its libraries say of secrets gets nowhere."""

import asyncio
import re
import socket
from typing import Any

import pytest

from bot.core.errors import (
    AuthenticationError,
    FoxcastError,
    MalformedDataError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.core.language_models import ModelCompletion, Prompt, SamplingSettings, TokenPrice
from bot.llm.call_records import PromptDocumentCache, RequestRecord
from bot.llm.calls import ModelCallRequest
from bot.llm.deadline import RequestDeadline
from bot.llm.pricing import ModelPrice
from bot.llm.providers import describe_foreign_error, is_busy, may_be_billed
from bot.testing.models import ScriptedModelProvider, text_completion
from tests.unit.llm.conftest import OpenRig
from tests.unit.llm.gateway_fixture import MAIN, PRICE, inquiry, rows, section, two

NOT_SHOWN = "sk-nobody-may-see-this"
ADDRESS = f"https://models.example/v1?key={NOT_SHOWN}"


def caused(error: FoxcastError, cause: BaseException | None) -> FoxcastError:
    error.__cause__ = cause
    return error


REFUSED = [
    ServiceUnavailableError("429", retry_after_s=1.0),
    ServiceUnavailableError("500"),
    AuthenticationError("401"),
    RequestRejectedError("400"),
    caused(ServiceUnavailableError("nobody there"), ConnectionRefusedError()),
    caused(ServiceUnavailableError("no such name"), socket.gaierror()),
]
BROKEN_OFF = [
    MalformedDataError("half a sentence"),
    caused(ServiceUnavailableError("late"), TimeoutError()),
    caused(ServiceUnavailableError("gone"), ConnectionResetError()),
    caused(ServiceUnavailableError("broken"), BrokenPipeError()),
    caused(ServiceUnavailableError("nested"), caused(MalformedDataError("inner"), TimeoutError())),
]


@pytest.mark.parametrize("error", REFUSED, ids=str)
def test_what_was_refused_is_not_billed(error: FoxcastError) -> None:
    assert not may_be_billed(error)


@pytest.mark.parametrize("error", BROKEN_OFF, ids=str)
def test_what_broke_off_after_it_was_sent_may_be_billed(error: FoxcastError) -> None:
    assert may_be_billed(error)


def test_what_led_to_an_error_counts_also_where_it_is_not_named_and_not_where_it_is_denied() -> None:
    error = ServiceUnavailableError("gone")
    error.__context__ = ConnectionResetError()
    assert may_be_billed(error)
    error.__suppress_context__ = True
    assert not may_be_billed(error)


def test_an_error_that_led_to_itself_is_read_to_its_end() -> None:
    first, second = ServiceUnavailableError("first"), ServiceUnavailableError("second")
    first.__cause__, second.__cause__ = second, first
    assert may_be_billed(first) is False


def test_who_asks_for_patience_is_busy_and_who_fails_is_not() -> None:
    assert is_busy(ServiceUnavailableError("429", retry_after_s=0.0))
    assert not is_busy(ServiceUnavailableError("500"))
    assert not is_busy(RequestRejectedError("400"))


def test_an_error_that_is_not_ours_is_named_by_its_type_and_its_place() -> None:
    with pytest.raises(ValueError, match=NOT_SHOWN) as caught:
        int(NOT_SHOWN)
    assert re.fullmatch(r"ValueError \(test_provider_errors\.py:\d+\)", describe_foreign_error(caught.value))
    assert describe_foreign_error(KeyError(NOT_SHOWN)) == "KeyError"


class FakeLeakingProvider(ScriptedModelProvider):
    """A provider that lets errors of its library out, and the library puts addresses and keys into them."""

    async def price(self, model: str) -> TokenPrice | None:
        if model == "unpriced":
            raise LookupError(ADDRESS)
        return await ScriptedModelProvider.price(self, model)

    async def complete(self, model: str, prompt: Prompt, sampling: SamplingSettings) -> ModelCompletion:
        raise LookupError(ADDRESS)


@pytest.mark.parametrize("model", [MAIN, "prime:unpriced"])
async def test_what_a_library_says_of_our_keys_comes_into_no_error_no_alert_and_no_record(
    open_rig: OpenRig, model: str
) -> None:
    llms = {"prime": FakeLeakingProvider(), "other": ScriptedModelProvider()}
    async with open_rig(section(roles={"main": {"model": model}}), llms=llms) as rig:
        with pytest.raises(MalformedDataError, match=r"LookupError \(test_provider_errors\.py:\d+\)") as caught:
            await rig.gateway.ask(inquiry(), deadline_s=60)
        await rig.settled()
        assert len(rig.alerts) == 1
        assert NOT_SHOWN not in str([caught.value, rig.alerts, rows(rig.path, "select * from model_call")])


class FakeCancelledProvider(ScriptedModelProvider):
    """A provider whose library cancels itself."""

    async def complete(self, model: str, prompt: Prompt, sampling: SamplingSettings) -> ModelCompletion:
        raise asyncio.CancelledError


async def test_a_provider_that_cancels_itself_has_failed_and_may_be_billed(open_rig: OpenRig) -> None:
    llms = {"prime": FakeCancelledProvider(), "other": ScriptedModelProvider()}
    async with open_rig(section(roles={"main": {"model": MAIN}}), llms=llms) as rig:
        with pytest.raises(MalformedDataError, match="its provider raised CancelledError, and nobody cancelled it"):
            await rig.gateway.ask(inquiry(), deadline_s=60)
        [(state, cost_usd, worst_usd)] = rig.rows("state, cost_usd, worst_usd")
        assert (state, cost_usd) == ("failed", worst_usd)
        assert worst_usd > 0.0


@pytest.mark.parametrize("field", ["cost_usd", "usage"])
async def test_an_answer_that_is_none_is_told_without_what_is_in_it(open_rig: OpenRig, field: str) -> None:
    odd: Any = {"usage": text_completion("x").usage, field: NOT_SHOWN}
    async with open_rig(llms=two(ModelCompletion(text="x", **odd))) as rig:
        with pytest.raises(MalformedDataError, match=r"does not have the documented form \(") as caught:
            await rig.gateway.ask(inquiry(), deadline_s=60)
        assert NOT_SHOWN not in f"{caught.value} {rig.rows('detail')}"


async def test_an_error_of_no_provider_is_on_record_without_its_text(open_rig: OpenRig) -> None:
    parts = PromptDocumentCache().prompt_documents(inquiry().prompt)
    record = RequestRecord(
        model=MAIN,
        messages=tuple(part.digest for part in parts.messages),
        offer=parts.options.digest,
        sampling=SamplingSettings(max_tokens=1000, temperature=None, effort=None, seed=None),
    )
    request = ModelCallRequest(
        model_request=inquiry(), model=MAIN, record=record, documents=parts, digest=record.digest
    )
    price = ModelPrice(tokens=PRICE, is_configured=False)
    async with open_rig() as rig:
        deadline = RequestDeadline(role_s=9.0, caller_s=9.0)
        call = await rig.gateway.accounting.open_call(request, price, deadline)
        await call.record_start()
        await call.record_failure(LookupError(NOT_SHOWN))
        assert rig.rows("state, detail, cost_usd") == [("failed", "LookupError", 0.0)]


async def test_an_errand_that_fails_is_logged_without_what_a_library_says(
    open_rig: OpenRig, capsys: pytest.CaptureFixture[str]
) -> None:
    async def send() -> None:
        raise LookupError(NOT_SHOWN)

    async with open_rig() as rig:
        rig.gateway.accounting.tasks.start_task(send())
        await asyncio.sleep(0)
    shown = "".join(capsys.readouterr())
    assert "LookupError (test_provider_errors.py:" in shown
    assert NOT_SHOWN not in shown
