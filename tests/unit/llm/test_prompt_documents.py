import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import MalformedDataError
from bot.core.language_models import (
    Message,
    MessageRole,
    NativeMessage,
    Prompt,
    SamplingSettings,
    ToolCall,
    ToolDefinition,
)
from bot.llm.call_records import PromptDocumentCache, RequestRecord, ResponseOptions, pack_prompt_documents
from bot.store.evidence import NO_SCOPE

SAY = Message(speaker=MessageRole.USER, text="Will it rain?")
LOOK = ToolDefinition(name="look", description="Look.", parameters={"type": "object"})
PROMPT = Prompt(messages=(SAY,), tools=(LOOK,))
SAMPLING = SamplingSettings(max_tokens=100, temperature=0.5)


def request(
    prompt: Prompt = PROMPT, *, model: str = "prime:big", sampling: SamplingSettings = SAMPLING, nth: int = 0
) -> str:
    parts = PromptDocumentCache().prompt_documents(prompt)
    messages = tuple(part.digest for part in parts.messages)
    return RequestRecord(model=model, messages=messages, offer=parts.options.digest, sampling=sampling, nth=nth).digest


def test_whatever_decides_the_answer_is_in_the_digest_of_the_request() -> None:
    call = ToolCall(id="1", name="look", arguments="{}")
    requests = [
        request(),
        request(model="other:big"),
        request(nth=1),
        *(request(sampling=replace(SAMPLING, **change)) for change in SAMPLINGS),
        request(Prompt(messages=(SAY,))),
        request(Prompt(messages=(SAY, SAY), tools=(LOOK,))),
        request(Prompt(messages=(replace(SAY, speaker=MessageRole.SYSTEM),), tools=(LOOK,))),
        request(Prompt(messages=(replace(SAY, text="Will it snow?"),), tools=(LOOK,))),
        request(Prompt(messages=(replace(SAY, calls=(call,)),), tools=(LOOK,))),
        request(Prompt(messages=(replace(SAY, answers="1"),), tools=(LOOK,))),
        request(Prompt(messages=(SAY,), tools=(LOOK,), allowed=("look",))),
        request(Prompt(messages=(SAY,), tools=(replace(LOOK, description="See."),))),
        request(Prompt(messages=(SAY,), tools=(replace(LOOK, parameters={"type": "array"}),))),
        request(Prompt(messages=(SAY,), schema={"type": "object"})),
    ]
    assert len(set(requests)) == len(requests)
    assert request() == requests[0]


SAMPLINGS: list[dict[str, Any]] = [{"max_tokens": 101}, {"temperature": 0.6}, {"seed": 1}, {"seed": 0}]


def test_a_hint_about_what_repeats_changes_no_answer() -> None:
    assert request(replace(PROMPT, stable=1)) == request()


def test_a_part_is_the_hash_of_its_json() -> None:
    (part,) = PromptDocumentCache().prompt_documents(PROMPT).messages
    # Written out by hand: the form in which it can be read back with plain tools.
    expected = b'{"speaker":"user","text":"Will it rain?"}'
    assert part.digest == hashlib.sha256(expected).hexdigest()
    assert part.text == expected.decode()
    assert part.tokens == 11  # 41 bytes, four to a token


def test_a_growing_conversation_is_hashed_message_by_message_once() -> None:
    memory = PromptDocumentCache()
    messages: tuple[Message, ...] = ()
    seen: list[int] = []
    for number in range(50):
        messages += (Message(speaker=MessageRole.USER, text=f"message {number}"),)
        seen.extend(id(part) for part in memory.prompt_documents(Prompt(messages=messages)).messages)
    assert len(seen) == 50 * 51 // 2
    assert len(set(seen)) == 50


def test_what_is_forgotten_is_hashed_again_to_the_same() -> None:
    small, large = PromptDocumentCache(chars=3_000), PromptDocumentCache()
    for count in (9, 3, 9):
        # Other messages each time, as in another conversation.
        messages = tuple(Message(speaker=MessageRole.USER, text=f"{number} " * 400) for number in range(count))
        kept, forgotten = (memory.prompt_documents(Prompt(messages=messages)) for memory in (large, small))
        assert [part.digest for part in kept.messages] == [part.digest for part in forgotten.messages]
    assert len(small._by_message) < 4 < len(large._by_message)  # noqa: SLF001 - what is remembered shows nowhere else


def test_equal_messages_of_two_conversations_share_a_document() -> None:
    memory = PromptDocumentCache()
    first, second = (memory.prompt_documents(Prompt(messages=(replace(SAY),))).messages[0] for _ in range(2))
    assert first is second


def test_conversations_under_way_keep_their_documents_however_many_there_are_and_no_longer() -> None:
    memory = PromptDocumentCache(chars=30_000)
    conversations = [
        Prompt(messages=tuple(Message(speaker=MessageRole.USER, text=f"{number} {turn} " * 500) for turn in range(4)))
        for number in range(100)
    ]
    first = [memory.prompt_documents(prompt).messages for prompt in conversations]
    again = [memory.prompt_documents(prompt).messages for prompt in conversations]
    assert [[*map(id, parts)] for parts in again] == [[*map(id, parts)] for parts in first]
    del conversations
    kept = [*memory._by_message]  # noqa: SLF001 - as above
    assert 1 < len(kept) == len(memory._by_identity)  # noqa: SLF001 - as above
    assert sum(len(message.text) for message in kept) <= 30_000


def test_what_a_provider_wants_back_takes_room_too() -> None:
    memory = PromptDocumentCache(chars=30_000)
    for number in range(20):
        native = NativeMessage(provider="p", model="m", text=f"{number} " + "s" * 10_000)
        memory.prompt_documents(
            Prompt(messages=(Message(speaker=MessageRole.ASSISTANT, text=f"{number}", native=native),))
        )
    assert len(memory._by_message) < 4  # noqa: SLF001 - as above


def test_offers_without_end_take_no_room_without_end() -> None:
    memory = PromptDocumentCache()
    for number in range(1000):
        memory.prompt_documents(Prompt(messages=(SAY,), schema={"maximum": number}))
    assert len(memory._by_digest) == 256  # noqa: SLF001 - as above


def test_only_what_is_not_on_record_yet_is_to_be_kept_and_that_once() -> None:
    memory = PromptDocumentCache()
    parts = memory.prompt_documents(Prompt(messages=(SAY, SAY)))
    assert [source for _, source in parts.unsaved("first")] == [SAY, ResponseOptions()]
    parts.messages[0].mark_recorded("first", "first")
    assert memory.prompt_documents(Prompt(messages=(SAY, SAY))).unsaved("first") == [(parts.options, ResponseOptions())]


async def test_what_another_forecast_has_to_record_too_is_written_again_to_the_same() -> None:
    memory = PromptDocumentCache()
    prompt = replace(PROMPT, allowed=("look",))
    first = await pack_prompt_documents(memory.prompt_documents(prompt).unsaved("first"))
    for part, _ in memory.prompt_documents(prompt).unsaved("first"):
        part.mark_recorded("first", "first")
    again = memory.prompt_documents(prompt).unsaved("second")
    assert [part.text for part, _ in again] == [None, None]
    assert await pack_prompt_documents(again) == first


def test_what_a_second_and_a_third_forecast_say_too_is_recorded_with_them_and_then_never_again() -> None:
    part = PromptDocumentCache().prompt_documents(Prompt(messages=(SAY,))).messages[0]
    for scope, under in (("first", "first"), ("second", "second"), ("third", NO_SCOPE)):
        assert not part.stored.has_stored(scope)
        assert part.stored.next_scope(scope) == under
        part.mark_recorded(scope, under)
        assert part.stored.has_stored(scope)
    assert part.stored.has_stored("fourth")


def test_what_many_forecasts_recorded_at_once_under_their_own_names_is_still_to_be_recorded_for_all() -> None:
    part = PromptDocumentCache().prompt_documents(Prompt(messages=(SAY,))).messages[0]
    for number in range(9):
        part.mark_recorded(f"forecast {number}", f"forecast {number}")
    assert not part.stored.has_stored("another")
    assert part.stored.next_scope("another") == NO_SCOPE


@given(st.text(max_size=300))
def test_tokens_are_counted_from_the_bytes_of_the_text(text: str) -> None:
    (part,) = (
        PromptDocumentCache()
        .prompt_documents(Prompt(messages=(Message(speaker=MessageRole.USER, text=text),)))
        .messages
    )
    assert part.text is not None
    json.loads(part.text)
    assert 4 * part.tokens >= len(text.encode(errors="replace"))


def test_a_schema_that_json_cannot_say_is_refused() -> None:
    with pytest.raises(MalformedDataError, match="JSON cannot hold"):
        PromptDocumentCache().prompt_documents(Prompt(messages=(SAY,), schema={"maximum": float("nan")}))
