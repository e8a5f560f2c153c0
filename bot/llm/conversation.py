"""What of a conversation reaches which model: a conversation belongs to the model that spoke in it.

What a provider gave along with a message (signatures, encrypted reasoning) is void at any other model, and most refuse
a request that holds it. So another model gets the handover, a conversation of its own that sums up the first one, and
here is the one place where state of one model is kept from another, whatever a prompt holds.
"""

from collections.abc import Sequence
from dataclasses import replace

from bot.domain.inquiry import Charge
from bot.domain.prompt import Message, Prompt
from bot.ids import derive_id
from bot.llm.roles import name_of


def keyed(prompt: Prompt, charge: Charge, role: str) -> Prompt:
    """Return the prompt with a key for the provider's cache; the trials of a question share it, for each role."""
    if prompt.cache_key:
        return prompt
    return replace(prompt, cache_key=derive_id("cache", charge.ref, charge.forecaster, role))


def addressed(prompt: Prompt, model: str) -> Prompt:
    """Return what is sent to a model, ``provider:name``: the conversation if it is its own, else the handover.

    Without a handover another model gets the messages, and in no case state that is not its own.
    """
    own = prompt.model in {"", model}
    if not own and prompt.handover:
        messages, stable = _stateless(prompt.handover), len(prompt.handover)
    else:
        messages, stable = _stateless(prompt.messages, name_of(model) if own else None), prompt.stable
    spoke = prompt.model if own else ""
    if messages is prompt.messages and not prompt.handover and spoke == prompt.model:
        return prompt
    return replace(prompt, messages=messages, stable=stable, model=spoke, handover=())


def _stateless(messages: tuple[Message, ...], name: str | None = None) -> tuple[Message, ...]:
    """Return the messages without state of models other than the one of that name; the same ones where none has any."""
    if not any(_is_foreign(message, name) for message in messages):
        return messages
    return tuple(replace(message, native=None) if _is_foreign(message, name) else message for message in messages)


def _is_foreign(message: Message, name: str | None) -> bool:
    return message.native is not None and (name is None or message.native.model != name)


def first_asked(models: Sequence[str], spoke: str) -> Sequence[str]:
    """Return the models with the one that spoke in the conversation first, where it is among them."""
    return sorted(models, key=lambda model: model != spoke)
