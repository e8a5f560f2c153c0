"""Google's Gemini models, and the rules that a single request to generateContent can break."""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from bot.core.ids import derive_id
from bot.core.light_dataclass import dataclass
from bot.simulator.providers.chat_requests import ChatRequest, RequestRefusal, ServedModelProfile, opaque_text
from bot.simulator.providers.request_checks import walk_schema

GeminiPart: TypeAlias = Mapping[str, Any]
GeminiContent: TypeAlias = Mapping[str, Any]

SENTINEL = "skip_thought_signature_validator"
# Below these keys names are the user's own, and may be any.
_USER_NAMED_FIELDS = frozenset(
    {"args", "response", "parametersJsonSchema", "responseJsonSchema", "labels", "default", "example"}
)
_FIELDS = (
    "contents systemInstruction tools toolConfig safetySettings generationConfig cachedContent labels serviceTier store"
)
_PART_FIELDS = "text thought thoughtSignature functionCall functionResponse inlineData fileData executableCode"
_CONFIG_FIELDS = (
    "temperature topP topK candidateCount maxOutputTokens stopSequences presencePenalty frequencyPenalty seed logprobs "
    "responseLogprobs responseMimeType responseSchema responseJsonSchema responseModalities thinkingConfig "
    "mediaResolution speechConfig"
)
_KEYWORDS = (
    "type format title description nullable enum items minItems maxItems properties required minProperties "
    "maxProperties minLength maxLength pattern minimum maximum anyOf propertyOrdering default example"
)
_DECLARATION_FIELDS = "name description behavior parameters parametersJsonSchema response responseJsonSchema"
_MODES = frozenset({"AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED"})
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiProfile(ServedModelProfile):
    """A Gemini model. ``levels`` are its thinking levels, ``budget`` the bounds of its thinking budget in tokens.

    ``requires_signatures``: whether calls must be sent back with their signature. ``has_call_ids``: whether a call has
    an id (None: the field is refused). ``cache_minimum`` is in tokens.
    """

    window: int = 1_048_576
    levels: tuple[str, ...] = ("LOW", "MEDIUM", "HIGH")
    budget: tuple[int, int] | None = None
    requires_signatures: bool = True
    has_call_ids: bool | None = False
    cache_minimum: int = 4096


_ALL_LEVELS = ("MINIMAL", "LOW", "MEDIUM", "HIGH")
GEMINI_MODELS: Mapping[str, GeminiProfile] = {
    "gemini-2.5-pro": GeminiProfile(
        levels=(), budget=(128, 32_768), requires_signatures=False, has_call_ids=None, cache_minimum=2048
    ),
    "gemini-2.5-flash": GeminiProfile(
        levels=(), budget=(0, 24_576), requires_signatures=False, has_call_ids=None, cache_minimum=2048
    ),
    "gemini-3-flash-preview": GeminiProfile(levels=_ALL_LEVELS),
    "gemini-3-pro-preview": GeminiProfile(),
    "gemini-3.1-pro-preview": GeminiProfile(),
    "gemini-3.5-flash": GeminiProfile(levels=_ALL_LEVELS, has_call_ids=True),
    "gemini-3.5-pro": GeminiProfile(has_call_ids=True),
    "gemini-3.7-flash": GeminiProfile(has_call_ids=True),
    "gemini-3.8-flash": GeminiProfile(levels=_ALL_LEVELS, has_call_ids=True),
    "gemini-4-argon": GeminiProfile(has_call_ids=True),
}


def refuse_request(rule: str, message: str) -> NoReturn:
    """Refuse a request."""
    raise RequestRefusal(rule=rule, message=message)


def to_camel_case(value: Any, *, named: bool = False) -> Any:  # noqa: ANN401 - any JSON
    """Return a request with its fields in camel case, without nulls, and signatures in one alphabet.

    The service accepts both cases and both alphabets of base64. ``named``: the keys of this object are the user's own
    names.
    """
    if isinstance(value, list):
        return [to_camel_case(one) for one in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for key, part in value.items():
        name = key if named else re.sub(r"_([a-z])", lambda found: found[1].upper(), key)
        if part is None:
            continue
        if name == "thoughtSignature" and (seal := decode_signature(part)) is not None:
            made[name] = base64.b64encode(seal).decode()
        else:
            made[name] = (
                part
                if name in _USER_NAMED_FIELDS and not named
                else to_camel_case(part, named=name == "properties" and not named)
            )
    return made


def decode_signature(signature: Any) -> bytes | None:  # noqa: ANN401 - any JSON
    """Return the bytes of a signature in either alphabet, None for text that is not base64."""
    text = str(signature).replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return None


def sign_thought(model: str, seed: str) -> str:
    """Return a thought signature that is valid for one model; some are thousands of characters long."""
    size = 1 + 8 * (int(seed[:2], 16) % 4)
    text = seed + "".join(opaque_text("signature", derive_id("model", model, seed), part) for part in range(size))
    return base64.b64encode(text.encode()).decode()


def is_sentinel(signature: str | None) -> bool:
    """Return whether a signature is the placeholder that skips the check; it is sent plain, or in base64."""
    return signature is not None and decode_signature(signature) in {decode_signature(SENTINEL), SENTINEL.encode()}


def content_calls(content: GeminiContent) -> list[GeminiPart]:
    """Return the parts of a content that are function calls."""
    return [one for one in content.get("parts") or () if "functionCall" in one]


def content_results(content: GeminiContent) -> list[Mapping[str, Any]]:
    """Return the function responses of a content."""
    return [one["functionResponse"] for one in content.get("parts") or () if "functionResponse" in one]


def check_request(chat: ChatRequest, body: Mapping[str, Any], profile: GeminiProfile) -> None:
    """Check all rules that need no memory: P-1, P-3 to P-5, and P-27 to P-33. ``body`` is in camel case."""
    contents = body["contents"]
    _check_fields(body)
    _check_turns(contents)
    if profile.requires_signatures:
        _check_signatures(chat.model, contents)
    _check_ids(contents, profile)
    _check_config(body.get("generationConfig") or {}, profile)
    functions = [one for tool in body.get("tools") or () for one in tool.get("functionDeclarations") or ()]
    for at, one in enumerate(functions):
        _check_function(one, f"tools[0].function_declarations[{at}]")
    _check_choice((body.get("toolConfig") or {}).get("functionCallingConfig") or {})
    built_in = any(tool.keys() - {"functionDeclarations"} for tool in body.get("tools") or ())
    allowed = profile.requires_signatures and (body.get("toolConfig") or {}).get("includeServerSideToolInvocations")
    if built_in and functions and not allowed:
        refuse_request("P-33", "Tool use with function calling is unsupported")


def _check_fields(body: Mapping[str, Any]) -> None:
    _check_names(body, _FIELDS, "")
    _check_names(body.get("generationConfig") or {}, _CONFIG_FIELDS, " at 'generation_config'")
    for at, content in enumerate(body["contents"]):
        if content.get("role", "user") not in {"user", "model", "function"}:
            refuse_request("P-5", "Please use a valid role: user, model.")
        if not content.get("parts"):
            refuse_request("P-5", f"* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty.")
        for number, part in enumerate(content["parts"]):
            place = f"contents[{at}].parts[{number}]"
            _check_names(part, _PART_FIELDS, f" at '{place}'")
            if not part.keys() - {"thought", "thoughtSignature"}:
                refuse_request("P-5", f"* {place}.data: required oneof field 'data' must have one initialized field")
            if not isinstance(part.get("functionResponse", {}).get("response", {}), dict):
                refuse_request("P-5", f"Invalid value at '{place}.function_response.response' (google.protobuf.Struct)")


def _check_names(value: Mapping[str, Any], fields: str, place: str, rule: str = "P-5") -> None:
    if odd := sorted(value.keys() - set(fields.split())):
        refuse_request(rule, f'Invalid JSON payload received. Unknown name "{odd[0]}"{place}: Cannot find field.')


def _check_turns(contents: Sequence[GeminiContent]) -> None:
    for at, content in enumerate(contents):
        before = contents[at - 1] if at else {}
        asked, answered = content_calls(before), content_results(content)
        if answered and not asked:
            rule = "P-32" if any(content_calls(one) for one in contents[:at]) else "P-1"
            refuse_request(
                rule, "Please ensure that function response turn comes immediately after a function call turn."
            )
        if asked and not answered:
            refuse_request(
                "P-1", "Please ensure that function call turn is followed immediately by a function response turn."
            )
        if len(asked) != len(answered):
            number = "the number of function response parts is equal to the number of function call parts"
            refuse_request("P-32", f"Please ensure that {number} of the function call turn.")
        if content_calls(content) and before.get("role", "user" if at else "model") == "model":
            after = "comes immediately after a user turn or after a function response turn."
            refuse_request("P-32", f"Please ensure that function call turn {after}")
    if contents and content_calls(contents[-1]):
        refuse_request(
            "P-1", "Please ensure that function call turn is followed immediately by a function response turn."
        )


def _check_signatures(model: str, contents: Sequence[GeminiContent]) -> None:
    turn = max(
        (at for at, one in enumerate(contents) if one.get("role") != "model" and not content_results(one)), default=0
    )
    for at, content in enumerate(contents):
        for number, part in enumerate(content_calls(content)):
            signature = part.get("thoughtSignature")
            if signature is None and number == 0 and at > turn:
                refuse_request("P-27", _missing_signature(part["functionCall"].get("name"), at + 1))
            if signature is not None and not is_sentinel(signature) and not _is_signed(model, signature):
                refuse_request("P-28", "Corrupted thought signature.")


def _missing_signature(name: str, position: int) -> str:
    return (
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
        "correctly, and missing thought_signature may lead to degraded model performance. Additional data, function "
        f"call `default_api:{name}`, position {position}. Please refer to "
        "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
    )


def _is_signed(model: str, signature: str) -> bool:
    seal = decode_signature(signature) or b""
    seed = seal[:24].decode(errors="replace")
    return re.fullmatch("[0-9a-f]{24}", seed) is not None and decode_signature(sign_thought(model, seed)) == seal


def _check_ids(contents: Sequence[GeminiContent], profile: GeminiProfile) -> None:
    for at, content in enumerate(contents):
        calls, results = content_calls(content), content_results(content)
        ids = [one["functionCall"].get("id") for one in calls]
        if profile.has_call_ids is None and any([*ids, *(one.get("id") for one in results)]):
            refuse_request(
                "P-29",
                f"Invalid JSON payload received. Unknown name \"id\" at 'contents[{at}].parts': Cannot find field.",
            )
        if not profile.has_call_ids:
            continue
        own = calls and not is_sentinel(calls[0].get("thoughtSignature"))
        if own and None in ids:
            refuse_request("P-29", f"contents[{at}]: function_call.id is missing.")
        asked = {one["functionCall"].get("id") for one in content_calls(contents[at - 1])} if at else set()
        if odd := [one for one in results if one.get("id") not in asked]:
            refuse_request(
                "P-29", f"contents[{at}]: function_response.id {odd[0].get('id')} does not match a function call."
            )


def _check_config(config: Mapping[str, Any], profile: GeminiProfile) -> None:
    thinking = config.get("thinkingConfig") or {}
    level, budget = thinking.get("thinkingLevel"), thinking.get("thinkingBudget")
    if level is not None and budget is not None:
        refuse_request("P-30", "You can only set one of thinking_budget and thinking_level.")
    if level is not None and str(level).upper() not in profile.levels:
        refuse_request("P-30", f"Thinking level {str(level).upper()} is not supported for this model.")
    low, high = profile.budget or (0, 65_536)
    if budget is not None and budget != -1 and not low <= budget <= high:
        refuse_request(
            "P-30", f"The thinking budget {budget} is invalid. Please choose a value between {low} and {high}."
        )
    if profile.requires_signatures and {"presencePenalty", "frequencyPenalty"} & config.keys():
        refuse_request("P-30", "Penalty is not enabled for this model.")
    _check_pair(config, "responseSchema", "responseJsonSchema", "generation_config")


def _check_function(function: Mapping[str, Any], place: str) -> None:
    _check_names(function, _DECLARATION_FIELDS, f" at '{place}'")
    if not _NAME.fullmatch(str(function.get("name"))):
        refuse_request("P-3", f"Invalid function name at '{place}'. Must start with a letter or an underscore.")
    _check_pair(function, "parameters", "parametersJsonSchema", place)


def _check_pair(value: Mapping[str, Any], subset: str, free: str, place: str) -> None:
    if subset in value and free in value:
        refuse_request("P-31", f"{place}: only one of {subset} and {free} may be set.")
    for inner, one in walk_schema(value.get(subset) or {}):
        _check_schema(one, ".".join((place, subset, *inner)))


def _check_schema(schema: Mapping[str, Any], place: str) -> None:
    _check_names(schema, _KEYWORDS, f" at '{place}'", "P-31")
    kind = schema.get("type")
    if kind is not None and not isinstance(kind, str):
        refuse_request("P-31", f"Invalid value at '{place}.type': Proto field is not repeating, cannot start list.")
    named = str(kind).upper()
    if "enum" in schema and (named != "STRING" or not all(isinstance(one, str) and one for one in schema["enum"])):
        refuse_request("P-31", f"* {place}.enum: only allowed for STRING type, with values that are not empty")
    if named == "OBJECT" and not schema.get("properties"):
        refuse_request("P-31", f"* {place}.properties: should be non-empty for OBJECT type")
    if named == "ARRAY" and not schema.get("items"):
        refuse_request("P-31", f"* {place}.items: missing field.")


def _check_choice(choice: Mapping[str, Any]) -> None:
    mode = str(choice.get("mode", "AUTO")).upper()
    if mode not in _MODES:
        refuse_request("P-4", f"Invalid value at 'tool_config.function_calling_config.mode' ({mode}).")
    if choice.get("allowedFunctionNames") and mode not in {"ANY", "VALIDATED"}:
        refuse_request("P-4", "allowed_function_names should be set only when the mode is ANY or VALIDATED.")


def content_text(parts: Iterable[GeminiPart]) -> str:
    """Return the text of a content, without thoughts."""
    return "".join(str(one.get("text", "")) for one in parts if not one.get("thought"))
