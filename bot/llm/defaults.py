"""What a provider recommends for a model where a role's table says nothing: room for the answer, and effort.

The port does not demand it. A provider that knows its models offers a method ``defaults(model)`` beside those of
``bot.ports.Llm``: a ``ModelDefaults``. It sends nothing.
"""

from typing import cast

from bot.config.llm_schema import RoleSection
from bot.domain.prompt import ModelDefaults, Sampling
from bot.errors import ContractError, FoxcastError
from bot.llm.faults import named
from bot.llm.roles import name_of
from bot.ports import Llm

# Roles of the desk that do small work, and how much a model thinks in them unless config says so.
HELPERS = frozenset({"filter", "summariser"})
HELPER_EFFORT = "low"
# Enough to think and to answer at moderate effort; a limit below 4,000 comes back empty from models that think.
UNKNOWN_MODEL = ModelDefaults(max_tokens=16_000)


def defaults_of(llm: Llm, model: str) -> ModelDefaults:
    """Return what a provider recommends for a model, ``provider:name``; 16,000 tokens and no effort where it is silent.

    Raises what the provider raises of ours, and ContractError for what no provider may do.
    """
    defaults = getattr(llm, "defaults", None)
    if defaults is None:
        return UNKNOWN_MODEL
    try:
        found = defaults(name_of(model))
        usable = isinstance(found, ModelDefaults) and found.max_tokens > 0
    except FoxcastError:
        raise
    except Exception as error:
        message = f"{model}: its provider failed with {named(error)} when asked for its defaults"
        raise ContractError(message) from error
    if not usable:
        message = f"{model}: its provider's defaults are {type(found).__name__}, or have no limit of tokens above 0"
        raise ContractError(message)
    return cast("ModelDefaults", found)


def sampling_of(role: str, table: RoleSection, recommended: ModelDefaults, *, seed: int | None = None) -> Sampling:
    """Return how a model is sampled in a role: as the role's table says, and where that is silent as recommended.

    In the desk's helper roles, which read much and decide little, a model that thinks does so at low effort.
    """
    effort: str | None = table.effort
    if effort is None and recommended.effort is not None:
        effort = HELPER_EFFORT if role in HELPERS else recommended.effort
    return Sampling(
        max_tokens=recommended.max_tokens if table.max_tokens is None else table.max_tokens,
        temperature=table.temperature,
        effort=effort,
        seed=seed,
    )
