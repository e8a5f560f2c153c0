"""The [llm] tables of config.toml: which model plays which role, what models cost, and what may be spent."""

from datetime import date

from pydantic import Field, model_validator

from bot.config.base_schema import ConfigName, ConfigSection, Hours, ModelName, Seconds
from bot.core.language_models import ModelDialect, ReasoningEffort


class RoleSection(ConfigSection):
    """Which model plays a role, and how."""

    model: ModelName
    """The model that plays the role, as `PROVIDER:NAME`; the provider as in `[models]`."""

    fallback: ModelName | None = None
    """The model that is asked where the first one fails or was replaced; unset: none."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    """Sampling temperature; unset: the model's own, which is usually best."""

    effort: ReasoningEffort | None = None
    """How much the model thinks; `none` switches thinking off. Unset: as its provider recommends."""

    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    """Tokens of one answer, thinking included; unset: as its provider recommends, else 16,000."""

    timeout_s: Seconds = 600.0
    """Seconds of one call with all its retries; time spent waiting for the budget does not count."""


class ModelSection(ConfigSection):
    """What is to be known of one model. A price that is set here is used instead of the provider's own."""

    dialect: ModelDialect = ModelDialect.TOOLS
    """`tools` for native tool calls; `json` for one object under a JSON schema, which small models need."""

    free: bool = False
    """The model costs nothing; a model without a price is asked only if it is free."""

    price_in: float | None = Field(default=None, ge=0)
    """US dollars per million input tokens; unset: the provider's list price."""

    price_cached: float | None = Field(default=None, ge=0)
    """US dollars per million tokens read from the provider's cache; unset: the list price."""

    price_written: float | None = Field(default=None, ge=0)
    """US dollars per million tokens written to the provider's cache; unset: the list price."""

    price_out: float | None = Field(default=None, ge=0)
    """US dollars per million output tokens; unset: the list price."""

    knowledge_cutoff: date | None = None
    """The last day of its training data; unset: as published. Backtests mark outcomes known by then."""


class ProviderSection(ConfigSection):
    """How much is asked of one provider at once, and what it may cost a day."""

    concurrency: int = Field(default=20, ge=1, le=10_000)
    """Requests at the same time."""

    per_minute: int | None = Field(default=None, ge=1)
    """Requests a minute; unset: no limit."""

    day_usd: float | None = Field(default=None, gt=0)
    """US dollars a day (UTC); unset: as in `[llm.budget]`."""

    attempts: int = Field(default=3, ge=1, le=10)
    """Requests of one call that may fail, each after a longer wait; a request to wait is no failure."""

    lost_retries: int = Field(default=1, ge=0, le=10)
    """How often a request whose reply was lost is sent again, although it may be billed twice."""

    break_after: int = Field(default=5, ge=1)
    """Failures in a row after which the provider is left alone."""

    break_s: Seconds = 30.0
    """Seconds that a failing provider is left alone."""


class BudgetSection(ConfigSection):
    """What may be spent on models. Calls in flight count at their worst case.

    ``question_usd`` has room for five trials that ask at once for 32,000 tokens each at 20 dollars per million (0.72
    with a long prompt, so 3.60), and for what such a forecast costs by then.
    """

    question_usd: float | None = Field(default=5.0, gt=0)
    """US dollars of one forecast of one question."""

    run_usd: float | None = Field(default=None, gt=0)
    """US dollars of one run; unset: no limit."""

    day_usd: float | None = Field(default=20.0, gt=0)
    """US dollars of one day (UTC)."""

    ask_above_usd: float = Field(default=5.0, ge=0)
    """US dollars of expected cost above which a run needs a person's confirmation (`--yes`)."""


class HealthSection(ConfigSection):
    """When a role's fallback replaces its model: what its latest trials in the role have to be like."""

    window: int = Field(default=30, ge=1)
    """How many of the latest trials in the role are looked at; half as many questions, however many trials each has."""

    min_trials: int = Field(default=10, ge=1)
    """No verdict on fewer trials than this."""

    submit_rate: float = Field(default=0.8, ge=0, le=1)
    """The least share of trials that end by submitting an answer."""

    unparsed: float = Field(default=0.3, ge=0, le=1)
    """The largest share of moves that could not be read."""

    unparsed_beliefs: float = Field(default=0.5, ge=0, le=1)
    """The largest share of belief updates that could not be read."""

    errors: float = Field(default=0.5, ge=0, le=1)
    """The largest share of trials in which a request failed for good."""

    even_answers: float = Field(default=0.5, ge=0, le=1)
    """The largest share of answers of exactly 0.5."""

    belief_gap: float = Field(default=0.1, ge=0, le=1)
    """The largest mean difference between the last belief and the submitted probability."""

    hours: Hours = 24.0
    """Hours that a replaced model stays replaced."""

    @model_validator(mode="after")
    def _require_reachable_minimum(self) -> "HealthSection":
        if self.min_trials > self.window:
            message = (
                f"min_trials = {self.min_trials} trials are never among the last window = {self.window}, so no model "
                "would ever be replaced; set min_trials to at most window"
            )
            raise ValueError(message)
        return self


class LlmSection(ConfigSection):
    """Which model plays which role, what models cost, and what may be spent."""

    roles: dict[ConfigName, RoleSection] = Field(default_factory=dict)
    """One table for each role, with the model that plays it."""

    models: dict[ModelName, ModelSection] = Field(default_factory=dict)
    """One table for each model that its provider does not describe, or describes wrongly."""

    providers: dict[ConfigName, ProviderSection] = Field(default_factory=dict)
    """One table for each provider whose limits differ from the defaults."""

    budget: BudgetSection = BudgetSection()
    """What may be spent on models."""

    health: HealthSection = HealthSection()
    """When a model is replaced by its role's fallback."""
