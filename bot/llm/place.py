"""Where a model is served, as far as its provider tells: the same name elsewhere is another model.

The port does not demand it. A provider whose settings decide what answers (an address, a body) offers a method
``place(model)`` beside those of ``bot.ports.Llm``: a short text, a digest of those settings without keys, which is part
of what names a request on record.
"""

from bot.errors import ContractError, FoxcastError
from bot.llm.faults import named
from bot.llm.roles import name_of
from bot.ports import Llm


def place_of(llm: Llm, model: str) -> str:
    """Return what a provider says of where a model is served, or nothing where it has no word for it.

    Raises what the provider raises of ours, and ContractError for what no provider may do.
    """
    place = getattr(llm, "place", None)
    if place is None:
        return ""
    try:
        told = place(name_of(model))
    except FoxcastError:
        raise
    except Exception as error:
        message = f"{model}: its provider failed with {named(error)} when asked where it is served"
        raise ContractError(message) from error
    if not isinstance(told, str):
        message = f"{model}: its provider says where it is served as {type(told).__name__}, which is no text"
        raise ContractError(message)
    return told
