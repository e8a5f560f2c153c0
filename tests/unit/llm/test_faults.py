"""What errors of a provider mean, and that what its libraries say of secrets gets nowhere."""

import asyncio
import re
import socket

import pytest

from bot.domain.prompt import Completion, Price, Prompt, Sampling
from bot.errors import ContractError, FoxcastError, Rejected, Unauthorized, Unavailable
from bot.llm.faults import is_busy, may_be_billed, named
from bot.testing.llm import ScriptedLlm, said
from tests.unit.llm.conftest import OpenRig
from tests.unit.llm.rig import MAIN, inquiry, rows, section, two

NOT_SHOWN = "sk-nobody-may-see-this"
ADDRESS = f"https://models.example/v1?key={NOT_SHOWN}"


def caused(error: FoxcastError, cause: BaseException | None) -> FoxcastError:
    error.__cause__ = cause
    return error


REFUSED = [
    Unavailable("429", retry_after_s=1.0),
    Unavailable("500"),
    Unauthorized("401"),
    Rejected("400"),
    caused(Unavailable("nobody there"), ConnectionRefusedError()),
    caused(Unavailable("no such name"), socket.gaierror()),
]
BROKEN_OFF = [
    ContractError("half a sentence"),
    caused(Unavailable("late"), TimeoutError()),
    caused(Unavailable("gone"), ConnectionResetError()),
    caused(Unavailable("broken"), BrokenPipeError()),
    caused(Unavailable("nested"), caused(ContractError("inner"), TimeoutError())),
]


@pytest.mark.parametrize("error", REFUSED, ids=str)
def test_what_was_refused_is_not_billed(error: FoxcastError) -> None:
    assert not may_be_billed(error)


@pytest.mark.parametrize("error", BROKEN_OFF, ids=str)
def test_what_broke_off_after_it_was_sent_may_be_billed(error: FoxcastError) -> None:
    assert may_be_billed(error)


def test_what_led_to_an_error_counts_also_where_it_is_not_named_and_not_where_it_is_denied() -> None:
    error = Unavailable("gone")
    error.__context__ = ConnectionResetError()
    assert may_be_billed(error)
    error.__suppress_context__ = True
    assert not may_be_billed(error)


def test_an_error_that_led_to_itself_is_read_to_its_end() -> None:
    first, second = Unavailable("first"), Unavailable("second")
    first.__cause__, second.__cause__ = second, first
    assert may_be_billed(first) is False


def test_who_asks_for_patience_is_busy_and_who_fails_is_not() -> None:
    assert is_busy(Unavailable("429", retry_after_s=0.0))
    assert not is_busy(Unavailable("500"))
    assert not is_busy(Rejected("400"))


def test_an_error_that_is_not_ours_is_named_by_its_type_and_its_place() -> None:
    with pytest.raises(ValueError, match=NOT_SHOWN) as caught:
        int(NOT_SHOWN)
    assert re.fullmatch(r"ValueError \(test_faults\.py:\d+\)", named(caught.value))
    assert named(KeyError(NOT_SHOWN)) == "KeyError"


class Careless(ScriptedLlm):
    """A provider that lets errors of its library out, and the library puts addresses and keys into them."""

    async def price(self, model: str) -> Price | None:
        if model == "unpriced":
            raise LookupError(ADDRESS)
        return await ScriptedLlm.price(self, model)

    async def complete(self, model: str, prompt: Prompt, sampling: Sampling) -> Completion:
        raise LookupError(ADDRESS)


@pytest.mark.parametrize("model", [MAIN, "prime:unpriced"])
async def test_what_a_library_says_of_our_keys_comes_into_no_error_no_alert_and_no_record(
    open_rig: OpenRig, model: str
) -> None:
    llms = {"prime": Careless(), "other": ScriptedLlm()}
    async with open_rig(section(roles={"main": {"model": model}}), llms=llms) as rig:
        with pytest.raises(ContractError, match=r"LookupError \(test_faults\.py:\d+\)") as caught:
            await rig.gateway.ask(inquiry(), deadline_s=60)
        await rig.settled()
        assert len(rig.alerts) == 1
        assert NOT_SHOWN not in str([caught.value, rig.alerts, rows(rig.path, "select * from model_call")])


async def test_an_answer_that_is_none_is_told_without_what_is_in_it(open_rig: OpenRig) -> None:
    odd = Completion(text="x", usage=said("x").usage, cost_usd=NOT_SHOWN)  # type: ignore[arg-type]  # no provider may
    async with open_rig(llms=two(odd)) as rig:
        with pytest.raises(ContractError, match=r"has not the form of one \(TypeError") as caught:
            await rig.gateway.ask(inquiry(), deadline_s=60)
        assert NOT_SHOWN not in f"{caught.value} {rig.rows('detail')}"


async def test_an_errand_that_fails_is_logged_without_what_a_library_says(
    open_rig: OpenRig, capsys: pytest.CaptureFixture[str]
) -> None:
    async def send() -> None:
        raise LookupError(NOT_SHOWN)

    async with open_rig() as rig:
        rig.gateway.till.errands.begin(send())
        await asyncio.sleep(0)
    shown = "".join(capsys.readouterr())
    assert "LookupError (test_faults.py:" in shown
    assert NOT_SHOWN not in shown
