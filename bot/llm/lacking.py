"""What a person must do before a model can be asked, as far as its provider can tell without asking it.

The port does not demand it. A provider that knows without a request that a key is missing offers a method
``lacks(model)`` beside those of ``bot.ports.Llm``: what to set, or None. The doctor asks for it.
"""

from bot.errors import ContractError, FoxcastError
from bot.llm.faults import named
from bot.llm.roles import name_of
from bot.ports import Llm


async def lacking(llm: Llm, model: str) -> str | None:
    """Return what a provider says is missing for a model, ``provider:name``; None where it knows of nothing.

    Raises what the provider raises of ours, and ContractError for what no provider may do.
    """
    lacks = getattr(llm, "lacks", None)
    if lacks is None:
        return None
    try:
        told = await lacks(name_of(model))
    except FoxcastError:
        raise
    except Exception as error:
        message = f"{model}: its provider failed with {named(error)} when asked what is missing"
        raise ContractError(message) from error
    return None if told is None else str(told)
