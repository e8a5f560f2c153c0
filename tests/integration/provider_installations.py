"""Installations whose models are served by strict provider doubles."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bot.app.app import FoxcastApp, open_app
from bot.config.loader import load_config
from bot.core.clock import SystemClock
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.forecasting.forecast_run import REQUESTED_REASON, begin_forecast
from bot.plugin_system.registry import load_registry
from bot.simulator.providers.anthropic import AnthropicDouble
from bot.simulator.providers.chat_vendors import (
    DeepSeekDouble,
    GlmDouble,
    GrokDouble,
    KimiDouble,
    MistralDouble,
    QwenDouble,
)
from bot.simulator.providers.gemini import GeminiDouble
from bot.simulator.providers.local_servers import LlamaCppDouble, LmStudioDouble, OllamaDouble, VllmDouble
from bot.simulator.providers.model_gateways import GeminiCompatDouble, OpenRouterDouble
from bot.simulator.providers.openai import OpenAiDouble
from bot.simulator.providers.provider_double import ProviderDouble
from bot.store.forecasts import ForecastTrace
from bot.testing.model_server import ReplyScript
from tests.acceptance.scripted_installation import SHELF

KEY = "sk-canary-77ab01"
MINDS = ("blf", "court", "team", "solo", "orchestra")
PLUGINS = '["blf", "society", "team", "solo", "orchestra", "litellm", "openai_compatible", "shelf"]'


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model, the double that serves it, and what config says of its endpoint."""

    model: str
    double: Callable[[ReplyScript], ProviderDouble]
    endpoint: str = ""

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables that hold its key."""
        provider, _, name = self.model.partition(":")
        vendor = name.partition("/")[0].upper()
        return {f"FOXCAST_MODELS__LITELLM__SETTINGS__KEYS__{vendor}": KEY} if provider == "litellm" else {}

    def config(self, base_url: str) -> str:
        """Return the tables of config that name the model and its address."""
        provider, _, name = self.model.partition(":")
        server = name.partition("/")[0]
        if provider == "litellm":
            table = f'[models.litellm.settings.base_urls]\n{server} = "{base_url}"'
        else:
            table = f'[models.openai_compatible.settings.endpoints.{server}]\nbase_url = "{base_url}"\n{self.endpoint}'
        return f'{table}\n[llm.roles.main]\nmodel = "{self.model}"\n[llm.models."{self.model}"]\nfree = true\n'


FAMILIES: Mapping[str, ServedModel] = {
    "openai": ServedModel(model="litellm:openai/gpt-6-astra", double=OpenAiDouble),
    "anthropic": ServedModel(model="litellm:anthropic/claude-opus-5-5", double=AnthropicDouble),
    "anthropic budget": ServedModel(model="litellm:anthropic/claude-sonnet-4-5", double=AnthropicDouble),
    "gemini": ServedModel(model="litellm:gemini/gemini-3.1-pro-preview", double=GeminiDouble),
    "gemini unknown": ServedModel(model="litellm:gemini/gemini-4-argon", double=GeminiDouble),
    "xai": ServedModel(model="litellm:xai/grok-4.5", double=GrokDouble),
    "deepseek": ServedModel(model="litellm:deepseek/deepseek-v4-pro", double=DeepSeekDouble),
    "moonshot": ServedModel(model="litellm:moonshot/kimi-k3", double=KimiDouble),
    "qwen": ServedModel(model="litellm:dashscope/qwen4-max", double=QwenDouble),
    "glm": ServedModel(model="litellm:zai/glm-5.3", double=GlmDouble),
    "mistral": ServedModel(model="litellm:mistral/mistral-medium-3-5", double=MistralDouble),
    "openrouter": ServedModel(
        model="litellm:openrouter/google/gemini-3.1-pro-preview",
        double=OpenRouterDouble,
    ),
    "openrouter compatible": ServedModel(
        model="openai_compatible:openrouter/anthropic/claude-opus-5.5",
        double=OpenRouterDouble,
        endpoint='effort_field = "reasoning"',
    ),
    "gemini compatible": ServedModel(
        model="openai_compatible:google/gemini-3.1-pro-preview", double=GeminiCompatDouble
    ),
    "deepseek compatible": ServedModel(model="openai_compatible:deepseek/deepseek-v4", double=DeepSeekDouble),
    "vllm": ServedModel(model="openai_compatible:vllm/local", double=VllmDouble),
    "llama.cpp": ServedModel(
        model="openai_compatible:llamacpp/local", double=lambda script: LlamaCppDouble(script, window=131_072)
    ),
    "ollama": ServedModel(
        model="openai_compatible:ollama/local", double=lambda script: OllamaDouble(script, window=131_072)
    ),
    "lm studio": ServedModel(model="openai_compatible:lmstudio/local", double=LmStudioDouble),
}


@dataclass(frozen=True, slots=True)
class ServedInstallation:
    """An open Foxcast and the double of its provider."""

    app: FoxcastApp
    double: ProviderDouble

    async def forecast(self, name: str, question: Question) -> ForecastTrace:
        """Forecast a question with one forecaster and return all that is on record of it; raises NoAnswer."""
        ledger, clock = self.app.ledger, self.app.clock
        await ledger.questions.record([question], seen_at=clock.now())
        run = await begin_forecast(self.app.forecast_context, self.app.forecasters[name], question, REQUESTED_REASON)
        return await ledger.forecasts.trace((await run.run()).id)

    def spoken_of(self) -> str:
        """Return what the double refused, for the message of a failed test."""
        return "; ".join(f"{one.rule} {one.message}" for one in self.double.refusals)


@asynccontextmanager
async def served(
    folder: Path, family: ServedModel, script: ReplyScript, *, trials: int = 1
) -> AsyncIterator[ServedInstallation]:
    """Open Foxcast in a folder, its one model behind the strict double of the family."""
    async with family.double(script) as double:
        (folder / "shelf.py").write_text(SHELF)
        config = f'plugins = {PLUGINS}\nplugin_files = ["shelf.py"]\n{family.config(double.base_url)}\n'
        config += f"[forecasters.blf]\ntrials = {trials}\n"
        (folder / "config.toml").write_text(config)
        loaded = load_config(folder / "config.toml", family.environment)
        async with open_app(loaded, load_registry(loaded), clock=SystemClock(), only=MINDS) as app:
            yield ServedInstallation(app, double)


def rain_question(key: str = "rain") -> Question:
    """Return a live question with a crowd's price."""
    now = SystemClock().now()
    return Question(
        ref=QuestionRef("file", key),
        title="Will it rain in Paris on the last day of the month?",
        shape=BinaryShape(),
        targets=(Target(resolves_at=now + timedelta(days=20)),),
        closes_at=now + timedelta(days=20),
        criteria="As measured at Orly.",
        crowd=CrowdForecast(prediction=BinaryPrediction(0.4), at=now - timedelta(hours=1)),
        family="market",
        source="file",
    )
