"""OpenAI's models, and the rules that its two endpoints share: efforts, sampling, strict schemas, lengths of ids.

Source: OpenAI's API reference, its deployment checklist, and its guides to reasoning and structured outputs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from bot.testing.providers.chat_form import SAMPLING
from bot.testing.providers.exchange import ModelProfile, RequestRefusal
from bot.testing.providers.strict_schema import StrictSubset

_REFUSED = (
    "minLength maxLength patternProperties unevaluatedProperties propertyNames minProperties maxProperties contains "
    "unevaluatedItems minContains maxContains uniqueItems oneOf allOf not if then else dependentRequired "
    "dependentSchemas default"
)
_FORMATS = "date-time time date duration email hostname ipv4 ipv6 uuid"
STRICT = StrictSubset(refused=frozenset(_REFUSED.split()), formats=frozenset(_FORMATS.split()))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiProfile(ModelProfile):
    """A model of OpenAI: its efforts and the one it has where nothing is said ("" where it never reasons).

    ``chat_tools``: does it take function tools on chat completions while it reasons? ``parallel``: does it take
    ``parallel_tool_calls``? ``response_efforts`` are further efforts that only Responses takes.
    """

    effort: str = ""
    efforts: frozenset[str] = frozenset()
    chat_tools: bool = True
    parallel: bool = True
    response_efforts: frozenset[str] = frozenset()


def _reasoning(effort: str, efforts: str, **more: Any) -> OpenAiProfile:  # noqa: ANN401 - fields of the profile
    return OpenAiProfile(effort=effort, efforts=frozenset(efforts.split()), **more)


def _profiles() -> Iterator[tuple[str, OpenAiProfile]]:
    plain = OpenAiProfile(window=1_000_000, thinks=False)
    yield from ((name, plain) for name in ("gpt-4.1", "gpt-4.1-mini", "gpt-4o", "gpt-4o-mini"))
    o_series = _reasoning("medium", "low medium high", window=200_000, parallel=False)
    yield from ((name, o_series) for name in ("o3", "o3-mini", "o4-mini"))
    first = _reasoning("medium", "minimal low medium high")
    yield from ((name, first) for name in ("gpt-5", "gpt-5-mini", "gpt-5-nano"))
    second = _reasoning("none", "none low medium high xhigh")
    yield from ((name, second) for name in ("gpt-5.1", "gpt-5.2", "gpt-5.3"))
    fourth = replace(second, chat_tools=False, window=1_000_000)
    yield from ((name, fourth) for name in ("gpt-5.4", "gpt-5.4-mini", "gpt-5.4-nano"))
    fifth = replace(fourth, effort="medium")
    sixth = ("gpt-6-sol", "gpt-6-luna")
    yield from ((name, fifth) for name in ("gpt-5.5", "gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna", *sixth))
    always = _reasoning("medium", "low medium high xhigh", chat_tools=False, window=1_000_000)
    yield from ((name, always) for name in ("gpt-5.4-pro", "gpt-5.5-pro", "o3-pro", "gpt-6-astra"))
    yield "gpt-6.1-sol", replace(always, response_efforts=frozenset({"max"}))


OPENAI_MODELS: Mapping[str, OpenAiProfile] = dict(_profiles())


def refuse_value(rule: str, param: str, value: object, said: str = "") -> NoReturn:
    """Refuse a value that the model does not take."""
    told = f"Unsupported value: '{param}' does not support {value!r} with this model.{said}"
    raise RequestRefusal(rule=rule, message=told, param=param, code="unsupported_value")


def refuse_parameter(rule: str, param: str, said: str = "") -> NoReturn:
    """Refuse a parameter that the model does not take."""
    told = f"Unsupported parameter: '{param}' is not supported with this model.{said}"
    raise RequestRefusal(rule=rule, message=told, param=param, code="unsupported_parameter")


def refuse_length(param: str, most: int, length: int) -> NoReturn:
    """Refuse an id beyond the limit (P-10)."""
    told = f"Expected a string with maximum length {most}, but got a string with length {length} instead."
    message = f"Invalid '{param}': string too long. {told}"
    raise RequestRefusal(rule="P-10", message=message, param=param, code="string_above_max_length")


def check_effort(profile: OpenAiProfile, effort: str | None, param: str, more: frozenset[str] = frozenset()) -> str:
    """Return the effort that a request has; refuse one that the model does not know (P-13)."""
    if effort is None:
        return profile.effort
    if not profile.efforts:
        refuse_parameter("P-13", param)
    if effort not in profile.efforts | more:
        known = ", ".join(sorted(profile.efforts | more))
        refuse_value("P-13", param, effort, f" Supported values are: {known}.")
    return effort


def check_sampling(body: Mapping[str, Any]) -> None:
    """Refuse sampling parameters of a request on which the model reasons (P-8)."""
    if body.get("temperature", 1) != 1:
        refuse_value("P-8", "temperature", body["temperature"], " Only the default (1) value is supported.")
    if odd := next((name for name in SAMPLING if name in body), None):
        refuse_parameter("P-8", odd)


def check_parallel(profile: OpenAiProfile, body: Mapping[str, Any]) -> None:
    """Refuse ``parallel_tool_calls`` where the model does not take it (P-14)."""
    if not profile.parallel and "parallel_tool_calls" in body:
        refuse_parameter("P-14", "parallel_tool_calls")


def check_strict(name: str, schema: Mapping[str, Any], param: str, code: str) -> None:
    """Refuse a strict schema beyond the subset (P-12)."""
    if (fault := STRICT.fault_in(schema)) is not None:
        message = f"Invalid schema for {name}: {fault}"
        raise RequestRefusal(rule="P-12", message=message, param=param, code=code)
