"""Which model plays which role, as configured; validated at the start, so that a misspelt provider is found early."""

from functools import lru_cache

from bot.config.schema import LlmSection, ModelSection, RoleSection
from bot.core.errors import ConfigError
from bot.core.language_models import ModelDialect, Prompt
from bot.core.light_dataclass import dataclass
from bot.core.plain_text import suggest_names

# The role that most forecasters ask.
MAIN_ROLE = "main"
DEFAULT_MODEL = ModelSection()


@lru_cache(maxsize=1024)
def provider_name(model: str) -> str:
    """Return the provider of a model, which is named ``provider:name``."""
    return model.partition(":")[0]


@lru_cache(maxsize=1024)
def bare_model_name(model: str) -> str:
    """Return the name of a model at its provider."""
    return model.partition(":")[2]


def configured_models(section: LlmSection) -> tuple[str, ...]:
    """Return all models that play a role or are a fallback, each once."""
    named = [model for role in section.roles.values() for model in (role.model, role.fallback)]
    return tuple(dict.fromkeys(model for model in named if model is not None))


@dataclass(frozen=True, slots=True)
class ModelRoles:
    """The roles of one run; raises ConfigError for a table that names a provider that does not exist."""

    section: LlmSection
    providers: frozenset[str]

    def __post_init__(self) -> None:
        """Check every provider that is named."""
        for role, table in self.section.roles.items():
            for key, model in (("model", table.model), ("fallback", table.fallback)):
                if model is not None and provider_name(model) not in self.providers:
                    raise ConfigError(
                        self._unknown_provider(f"[llm.roles.{role}] {key} = {model!r}", provider_name(model))
                    )
        for name in self.section.providers:
            # The limits of an unknown provider would never be applied.
            if name not in self.providers:
                raise ConfigError(self._unknown_provider(f"[llm.providers.{name}]", name))

    def role_section(self, name: str) -> RoleSection:
        """Return the table of a role; raises ConfigError with the table to add where there is none."""
        if table := self.section.roles.get(name):
            return table
        message = (
            f"no model plays the role {name!r} ({suggest_names(name, self.section.roles)}); add to config.toml: "
            f'[llm.roles.{name}] model = "PROVIDER:NAME"'
        )
        raise ConfigError(message)

    def models(self, name: str) -> tuple[str, ...]:
        """Return the model of a role and then its fallback, where it has one; raises ConfigError."""
        table = self.role_section(name)
        if table.fallback is None or table.fallback == table.model:
            return (table.model,)
        return (table.model, table.fallback)

    def fallback(self, role: str, model: str) -> str | None:
        """Return the model that replaces a model in a role, if there is one."""
        table = self.section.roles.get(role)
        if table is None or table.fallback == model or table.model != model:
            return None
        return table.fallback

    def dialect(self, model: str) -> ModelDialect:
        """Return the dialect of a model."""
        return self.section.models.get(model, DEFAULT_MODEL).dialect

    def accepts_prompt(self, model: str, prompt: Prompt) -> bool:
        """Return whether a model may be given a prompt that was made for another one."""
        return not prompt.tools or self.dialect(model) is ModelDialect.TOOLS

    def _unknown_provider(self, where: str, provider: str) -> str:
        return (
            f"{where}: no enabled plugin offers a provider {provider!r} ({suggest_names(provider, self.providers)}); "
            "correct the name, or name the plugin that offers it in plugins"
        )
