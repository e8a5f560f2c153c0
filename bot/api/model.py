"""What the author of a provider of language models uses; messages and prompts are also those of forecasters.

Called in this order: ``open``, ``price``, ``complete``.

``ModelSpec.open`` is entered once. Before a call the gateway asks ``price`` and, where it exists, ``defaults``; then
``complete`` asks the model once. What that raises says what the call cost and whether it is repeated.
``foxcast doctor`` calls the optional ``lacks`` and ``check_access``.
"""

from bot.core.errors import ContextLengthExceededError
from bot.core.interfaces import ModelProvider
from bot.core.language_models import (
    FinishReason,
    Message,
    MessageRole,
    ModelAnswer,
    ModelCompletion,
    ModelDefaults,
    ModelDialect,
    NativeMessage,
    Prompt,
    ReasoningEffort,
    SamplingSettings,
    TokenPrice,
    ToolCall,
    ToolDefinition,
)
from bot.core.plugin_specs import ModelSpec

__all__ = [
    "ContextLengthExceededError",
    "FinishReason",
    "Message",
    "MessageRole",
    "ModelAnswer",
    "ModelCompletion",
    "ModelDefaults",
    "ModelDialect",
    "ModelProvider",
    "ModelSpec",
    "NativeMessage",
    "Prompt",
    "ReasoningEffort",
    "SamplingSettings",
    "TokenPrice",
    "ToolCall",
    "ToolDefinition",
]
