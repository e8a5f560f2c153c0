"""The requests and responses of the JSON API, and the OpenAPI document that is made from them."""

from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, field_validator
from pydantic.json_schema import models_json_schema

from bot.core.plain_text import strip_invisible

API_PREFIX = "/api/v1"
OPENAPI_VERSION = "3.1.0"
MAX_OPTIONS, MAX_SOURCES = 100, 30
_REF_TEMPLATE = "#/components/schemas/{model}"

ShortText = Annotated[str, StringConstraints(min_length=1, max_length=500, strip_whitespace=True)]


class ApiModel(BaseModel):
    """A table of the API: unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class AskedSource(ApiModel):
    """A source that the caller gives with its question; it is read as text of a stranger."""

    title: str = Field(default="", max_length=500)
    url: str = Field(default="", max_length=2000)
    text: str = Field(default="", max_length=20_000)


class ForecastRequest(ApiModel):
    """A question to forecast: yes or no, or one of the options."""

    title: Annotated[str, StringConstraints(min_length=1, max_length=1000, strip_whitespace=True)]
    description: str = Field(default="", max_length=20_000, description="What decides the question.")
    options: tuple[ShortText, ...] = Field(
        default=(), max_length=MAX_OPTIONS, description="Two or more that exclude each other; none: yes or no."
    )
    closes_at: AwareDatetime | None = None
    sources: tuple[AskedSource, ...] = Field(default=(), max_length=MAX_SOURCES)
    probabilities: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(
        default_factory=dict, description='Prices of a market, if any, by option, or for "yes".'
    )
    deadline_s: Annotated[float, Field(ge=0, le=600)] | None = Field(
        default=None, description="Seconds to wait; later there is status 202 and an address to poll."
    )

    @field_validator("title")
    @classmethod
    def _require_visible(cls, title: str) -> str:
        visible = " ".join(strip_invisible(title).split())
        if not visible:
            message = "has no visible character"
            raise ValueError(message)
        return visible

    @field_validator("options")
    @classmethod
    def _require_different(cls, options: tuple[str, ...]) -> tuple[str, ...]:
        if len(options) == 1 or len(set(options)) < len(options):
            message = "should be two or more, each once"
            raise ValueError(message)
        return options


class ForecastAnswer(ApiModel):
    """The state of an asked forecast; ``probabilities`` are by option, or for "yes" and "no"."""

    id: str
    status: Literal["running", "done", "failed"]
    question: str
    forecaster: str
    probabilities: dict[str, float] | None = None
    rationale: str = ""
    forecast: str | None = Field(default=None, description="The id of the forecast in the ledger.")
    made_at: datetime | None = None
    error: str = ""
    poll: str = Field(default="", description="Where to ask again while it runs.")


class QuestionSummary(ApiModel):
    """A question in a list."""

    ref: str
    title: str
    state: str
    source: str
    closes_at: datetime | None
    crowd: float | None
    targets: int
    resolved: int


class ForecastSummary(ApiModel):
    """A forecast on record; ``predictions`` are by target."""

    id: str
    question: str
    forecaster: str
    revision: int
    made_at: datetime
    cutoff: datetime
    why: str
    predictions: dict[str, Any]


class BeliefRecord(ApiModel):
    """What one trial believed after one step."""

    trial: int
    step: int
    action: str
    reason: str
    predictions: dict[str, Any]


class ScoreSummary(ApiModel):
    """The mean of one scoring rule over the resolved predictions of one forecaster for one kind of question."""

    forecaster: str
    family: str
    predictions: int
    brier: float
    brier_crowd: float | None = Field(description="Of the crowd, on the predictions that have one.")


class HealthAnswer(ApiModel):
    """Whether everything works, as `/healthz` says it."""

    status: str
    problems: list[dict[str, str]]


class ErrorAnswer(ApiModel):
    """What was wrong, in one sentence."""

    error: str


_MODELS = (
    *(ForecastRequest, ForecastAnswer, QuestionSummary, ForecastSummary, BeliefRecord, ScoreSummary),
    *(HealthAnswer, ErrorAnswer),
)
_ERRORS = {
    "400": "The request is not valid.",
    "401": "The token is missing or unknown.",
    "404": "There is no such thing.",
    "429": "Too many requests, forecasts at once, or dollars of today.",
}


def build_openapi() -> dict[str, Any]:
    """Return the document that describes the API."""
    _, definitions = models_json_schema([(model, "serialization") for model in _MODELS], ref_template=_REF_TEMPLATE)
    answers = {
        "200": _json_response("The forecast.", ForecastAnswer.__name__),
        "202": _json_response("It still runs: ask again at `poll`.", ForecastAnswer.__name__),
        "502": _json_response("No forecast could be made.", ForecastAnswer.__name__),
    }
    ask = {
        "operationId": "askForecast",
        "summary": "Ask for a forecast; asking the same again continues the same forecast. Nothing is submitted.",
        "requestBody": {"required": True, "content": _json_content(ForecastRequest.__name__)},
        "responses": {**answers, **_error_responses("400", "401", "429", "503")},
    }
    paths = {
        "/forecasts": {"post": ask},
        "/forecasts/{id}": {
            "get": _operation("readForecast", "An asked forecast, or any forecast on record.", ForecastAnswer, "id")
        },
        "/forecasts/{id}/beliefs": {
            "get": _operation("listBeliefs", "What its trials believed, step by step.", BeliefRecord, "id", many=True)
        },
        "/questions": {"get": _list_operation()},
        "/questions/{ref}": {"get": _operation("readQuestion", "One question.", QuestionSummary, "ref")},
        "/questions/{ref}/forecasts": {
            "get": _operation(
                "listForecasts", "All forecasts of a question, newest first.", ForecastSummary, "ref", many=True
            )
        },
        "/scores": {
            "get": _operation("listScores", "Scores of resolved yes-or-no forecasts.", ScoreSummary, many=True)
        },
        "/health": {"get": _operation("readHealth", "Whether everything works.", HealthAnswer)},
    }
    return {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "Foxcast",
            "version": version("foxcast"),
            "description": "Ask for forecasts, and read questions, forecasts, beliefs, scores and health.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": API_PREFIX}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _json_content(model: str, *, many: bool = False) -> dict[str, Any]:
    one = {"$ref": _REF_TEMPLATE.format(model=model)}
    return {"application/json": {"schema": {"type": "array", "items": one} if many else one}}


def _json_response(text: str, model: str, *, many: bool = False) -> dict[str, Any]:
    return {"description": text, "content": _json_content(model, many=many)}


def _error_responses(*codes: str) -> dict[str, Any]:
    return {code: _json_response(_ERRORS.get(code, "Not offered here."), ErrorAnswer.__name__) for code in codes}


def _operation(
    name: str, text: str, model: type[ApiModel], parameter: str = "", *, many: bool = False
) -> dict[str, Any]:
    errors = ("401", "404", "429") if parameter else ("401", "429")
    found: dict[str, Any] = {
        "operationId": name,
        "summary": text,
        "responses": {"200": _json_response(text, model.__name__, many=many), **_error_responses(*errors)},
    }
    if parameter:
        schema = {"type": "string"}
        found["parameters"] = [{"name": parameter, "in": "path", "required": True, "schema": schema}]
    return found


def _list_operation() -> Mapping[str, Any]:
    parameters = [
        {"name": "venue", "in": "query", "schema": {"type": "string"}},
        {"name": "state", "in": "query", "schema": {"type": "string", "enum": ["open", "closed", "resolved"]}},
        {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}},
    ]
    listed = _operation("listQuestions", "Questions, soonest close first.", QuestionSummary, many=True)
    return {**listed, "parameters": parameters, "responses": {**listed["responses"], **_error_responses("400")}}
