"""The [llm] tables of config.toml: which model plays which role, what models cost, and what may be spent."""

from datetime import date

from pydantic import Field, model_validator

from bot.config.base_schema import ConfigName, ConfigSection, Hours, ModelName, Seconds
from bot.domain.prompt import Dialect, ReasoningEffort


class RoleSection(ConfigSection):
    """Which model plays a role and how; models are named ``provider:name``, the provider as in ``[models]``.

    ``effort`` and ``max_tokens`` are None where the provider's recommendation for the model counts (without one:
    16,000 tokens and no effort); ``effort = "none"`` switches thinking off. ``timeout_s`` bounds one call with all its
    retries: models that think take minutes for an answer.
    """

    model: ModelName
    fallback: ModelName | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    effort: ReasoningEffort | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    timeout_s: Seconds = 600.0


class ModelSection(ConfigSection):
    """What is to be known of one model; prices in US dollars per million tokens.

    A price that is set here is used instead of the provider's own. A model without any price is not asked, unless it
    is declared free. ``knowledge_cutoff`` is the last day that its training data reach, instead of the published one:
    a backtest marks outcomes that were known by then.
    """

    dialect: Dialect = Dialect.TOOLS
    free: bool = False
    price_in: float | None = Field(default=None, ge=0)
    price_cached: float | None = Field(default=None, ge=0)
    price_written: float | None = Field(default=None, ge=0)
    price_out: float | None = Field(default=None, ge=0)
    knowledge_cutoff: date | None = None


class ProviderSection(ConfigSection):
    """How much is asked of one provider at once and a minute, and what it may cost a day in US dollars."""

    concurrency: int = Field(default=20, ge=1, le=10_000)
    per_minute: int | None = Field(default=None, ge=1)
    day_usd: float | None = Field(default=None, gt=0)
    attempts: int = Field(default=3, ge=1, le=10)
    lost_again: int = Field(default=1, ge=0, le=10)
    break_after: int = Field(default=5, ge=1)
    break_s: Seconds = 30.0


class BudgetSection(ConfigSection):
    """What may be spent, in US dollars, calls in flight counted at their worst case; None is no limit.

    ``ask_above_usd``: a run that is expected to cost more is not begun before a person said yes.

    ``question_usd`` has room for five trials that ask at once for 32,000 tokens each at 20 dollars per million (0.72
    with a long prompt, so 3.60), and for what such a forecast costs by then.
    """

    question_usd: float | None = Field(default=5.0, gt=0)
    run_usd: float | None = Field(default=None, gt=0)
    day_usd: float | None = Field(default=20.0, gt=0)
    ask_above_usd: float = Field(default=5.0, ge=0)


class HealthSection(ConfigSection):
    """When a role's fallback replaces its model: over the last ``window`` trials in it, once there are ``least``.

    Shares: ``submit_rate`` of trials that ended by submitting, ``unparsed`` of moves and ``unparsed_beliefs`` of
    updates of a belief that could not be read, ``errors`` of trials in which a request failed for good.
    """

    window: int = Field(default=30, ge=1)
    least: int = Field(default=10, ge=1)
    submit_rate: float = Field(default=0.8, ge=0, le=1)
    unparsed: float = Field(default=0.3, ge=0, le=1)
    unparsed_beliefs: float = Field(default=0.5, ge=0, le=1)
    errors: float = Field(default=0.5, ge=0, le=1)
    half: float = Field(default=0.5, ge=0, le=1)
    gap: float = Field(default=0.1, ge=0, le=1)
    hours: Hours = 24.0

    @model_validator(mode="after")
    def _require_reachable_minimum(self) -> "HealthSection":
        if self.least > self.window:
            message = (
                f"least = {self.least} trials are never among the last window = {self.window}, so no model would ever "
                "be replaced; set least to at most window"
            )
            raise ValueError(message)
        return self


class LlmSection(ConfigSection):
    """Who plays which role, what models cost, and what may be spent."""

    roles: dict[ConfigName, RoleSection] = Field(default_factory=dict)
    models: dict[ModelName, ModelSection] = Field(default_factory=dict)
    providers: dict[ConfigName, ProviderSection] = Field(default_factory=dict)
    budget: BudgetSection = BudgetSection()
    health: HealthSection = HealthSection()
