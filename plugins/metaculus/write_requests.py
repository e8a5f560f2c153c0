"""Request bodies of predictions, their comparison with what the venue lists, and verdicts on responses to writes.

Pages of servers in front of the site are not JSON, so only their status counts. Source:
docs/facts/metaculus.md#forecasts, #withdrawals, #own-forecasts, #comments and #plugin-rules.
"""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from bot.api import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    HttpErrorResponse,
    HttpResponse,
    IntentState,
    MalformedDataError,
    Prediction,
    QuestionShape,
    RequestRejectedError,
    ResponsibleParty,
    WriteVerdict,
    detail_suffix,
    refusal_verdict,
    response_fields,
    verdict_by_status,
)
from plugins.metaculus.api_records import (
    MetaculusForecastRecord,
    MetaculusOwnForecasts,
    MetaculusQuestionRecord,
    parse_record,
)
from plugins.metaculus.cdf_rules import CDF_DIGITS, CdfRules
from plugins.metaculus.community_prediction import values_by_option

MIN_PROBABILITY, MAX_PROBABILITY = 0.001, 0.999


VALUE_TOLERANCE, END_TOLERANCE_S = 1e-9, 1.0


# A withdrawn forecast ends at once, by the clock of the site.
MAX_CLOCK_SKEW = timedelta(minutes=10)


YES_FIELD, OPTIONS_FIELD, CDF_FIELD = "probability_yes", "probability_yes_per_category", "continuous_cdf"


END_FIELD = "end_time"


_MAX_HALVINGS = 200


# The site accepts more; official bots cut here.
MAX_COMMENT_CHARS = 150_000


ForecastItem = Mapping[str, Any]


def build_forecast_item(question_id: int, prediction: Prediction, shape: QuestionShape) -> dict[str, Any]:
    """Return the request item for one question, moved into the venue's bounds by as little as possible.

    Raises RequestRejectedError for a prediction of another shape.
    """
    match prediction, shape:
        case BinaryPrediction(probability=probability), BinaryShape():
            return {"question": question_id, YES_FIELD: min(max(probability, MIN_PROBABILITY), MAX_PROBABILITY)}
        case ChoicePrediction(probabilities=given), ChoiceShape(options=options) if set(given) == set(options):
            return {
                "question": question_id,
                OPTIONS_FIELD: clamp_probabilities({option: given[option] for option in options}),
            }
        case CurvePrediction(cdf=cdf), CurveShape() if len(cdf) == len(shape.grid):
            rules = cdf_rules_for(shape)
            valid = cdf if not rules.violations(cdf) else rules.nearest_valid(cdf)
            if broken := rules.violations(valid):
                message = f"question {question_id}: no valid CDF was found: {'; '.join(broken)}"
                raise RequestRejectedError(message)
            return {"question": question_id, CDF_FIELD: [round(value, CDF_DIGITS) for value in valid]}
    message = f"question {question_id} is a {shape.kind} now, and the {prediction.kind} forecast does not answer it"
    raise RequestRejectedError(message)


def prediction_as_kept(prediction: Prediction, shape: QuestionShape) -> Prediction:
    """Return a prediction as the venue stores it; raises RequestRejectedError for one of another shape."""
    item = build_forecast_item(0, prediction, shape)
    if YES_FIELD in item:
        return BinaryPrediction(item[YES_FIELD])
    return ChoicePrediction(item[OPTIONS_FIELD]) if OPTIONS_FIELD in item else CurvePrediction(tuple(item[CDF_FIELD]))


def clean_comment(text: str) -> str:
    """Return a comment as the site stores it: stripped, cut to the limit, and encodable."""
    return text.encode(errors="replace").decode().strip()[:MAX_COMMENT_CHARS].strip()


def cdf_rules_for(shape: CurveShape) -> CdfRules:
    """Return the rules for CDFs of a shape."""
    return CdfRules(steps=len(shape.grid) - 1, open_lower=shape.open_lower, open_upper=shape.open_upper)


def clamp_probabilities(probabilities: Mapping[str, float]) -> dict[str, float]:
    """Return probabilities that sum to 1, each in [0.001, 0.999], in proportion to those given within the bounds.

    Raises RequestRejectedError for more options than fit.
    """
    if len(probabilities) * MIN_PROBABILITY > 1.0:
        message = f"{len(probabilities)} options cannot have {MIN_PROBABILITY} each"
        raise RequestRejectedError(message)

    def clamped(factor: float) -> dict[str, float]:
        return {
            option: min(max(factor * value, MIN_PROBABILITY), MAX_PROBABILITY)
            for option, value in probabilities.items()
        }

    # Those given sum to 1, so twice as much is enough.
    low, high = 0.0, 2.0
    for _ in range(_MAX_HALVINGS):
        middle = (low + high) / 2.0
        if math.fsum(clamped(middle).values()) < 1.0:
            low = middle
        else:
            high = middle
    found = {option: round(value, CDF_DIGITS) for option, value in clamped(high).items()}
    largest = max(found, key=found.__getitem__)
    rest = math.fsum(value for option, value in found.items() if option != largest)
    found[largest] = min(round(1.0 - rest, CDF_DIGITS), MAX_PROBABILITY)
    return found


def parse_own_forecasts(question: MetaculusQuestionRecord) -> MetaculusOwnForecasts:
    """Return our forecasts on a question, none if the key is missing; raises MalformedDataError for invalid ones."""
    if question.my_forecasts is None:
        return MetaculusOwnForecasts()
    return parse_record(MetaculusOwnForecasts, question.my_forecasts, f"question {question.id}, our forecasts")


def is_active_forecast(forecast: MetaculusForecastRecord | None, now: datetime) -> bool:
    """Return whether a forecast is active: a withdrawn one is still the latest, with an end in the past."""
    return forecast is not None and (forecast.end_time is None or forecast.end_time > now.timestamp())


def active_since(question: MetaculusQuestionRecord, item: ForecastItem, now: datetime) -> float | None:
    """Return since when the forecast of a request is active, None if it is not.

    While options change, the latest one begins in the future, and the last of the history has the new options' share in
    its last option.
    """
    mine = parse_own_forecasts(question)
    candidates = [mine.latest, *mine.history[-1:]]
    for forecast in candidates:
        if (
            forecast is not None
            and is_active_forecast(forecast, now)
            and _is_same_forecast(question, forecast.forecast_values, item)
            and _is_same_end(forecast, item)
        ):
            return forecast.start_time
    return None


def _is_same_end(forecast: MetaculusForecastRecord, item: ForecastItem) -> bool:
    """Return whether a forecast lapses when the request says so, if it does: an equal one before it lapses sooner."""
    if (end := item.get(END_FIELD)) is None:
        return True
    end_s = datetime.fromisoformat(end).timestamp()
    return forecast.end_time is not None and abs(forecast.end_time - end_s) <= END_TOLERANCE_S


def _is_same_forecast(question: MetaculusQuestionRecord, values: Sequence[float | None], item: ForecastItem) -> bool:
    if YES_FIELD in item:
        return len(values) == 2 and values[1] is not None and abs(values[1] - item[YES_FIELD]) <= VALUE_TOLERANCE
    if CDF_FIELD in item:
        return _are_close(values, item[CDF_FIELD])
    ever = question.all_options_ever or question.options or ()
    try:
        active = values_by_option(values, ever)
    except ValueError:
        return False
    return _is_same_choice(active, item[OPTIONS_FIELD], ever)


def _is_same_choice(active: Mapping[str, float], expected: Mapping[str, float], ever: Sequence[str]) -> bool:
    folded = dict(expected)
    if early := [option for option in expected if option not in active]:
        if not ever or ever[-1] not in folded or ever[-1] in early:
            return False
        folded[ever[-1]] += math.fsum(folded.pop(option) for option in early)
    return active.keys() == folded.keys() and _are_close(list(active.values()), [folded[option] for option in active])


def _are_close(values: Sequence[float | None], expected: Sequence[float]) -> bool:
    return len(values) == len(expected) and all(
        value is not None and abs(value - target) <= VALUE_TOLERANCE
        for value, target in zip(values, expected, strict=True)
    )


def is_withdrawn(question: MetaculusQuestionRecord, now: datetime) -> bool:
    """Return whether none of our forecasts is active, now or soon: the clock of the site may be ahead of ours."""
    return not is_active_forecast(parse_own_forecasts(question).latest, now + MAX_CLOCK_SKEW)


def read_forecast_item(body: object) -> ForecastItem:
    """Return the one item of a sealed request; raises MalformedDataError for another form."""
    if (
        isinstance(body, list)
        and len(body) == 1
        and isinstance(body[0], dict)
        and {YES_FIELD, OPTIONS_FIELD, CDF_FIELD} & set(body[0])
    ):
        item: ForecastItem = body[0]
        return item
    message = "a sealed forecast is a list of one item"
    raise MalformedDataError(message)


CREATED_STATUS = 201


_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _NOT_ALLOWED = 401, 403, 404, 405


# Codes and texts of the framework that refuse the account, not only one post.
_ACCOUNT_ERROR_CODES = ("token_not_valid", "api_forecasting_not_enabled", "not_authenticated", "authentication_failed")


_TOKEN_ERROR_WORDS = ("invalid token", "authentication credentials", "user inactive", "token not valid")


def write_verdict(reply: HttpResponse) -> WriteVerdict:
    """Return the verdict on the response to a write."""
    if 300 <= reply.status < 400:
        # Redirects are not followed: the address was wrong, and nothing was done.
        return _refusal_verdict_by_status(reply.status, response_fields(reply))
    return verdict_by_status(reply, taken=CREATED_STATUS) or _refusal_verdict_by_status(
        reply.status, response_fields(reply)
    )


def _refusal_verdict_by_status(status: int, fields: Mapping[str, object]) -> WriteVerdict:
    if status == _FORBIDDEN and not fields:
        why = "403 by a server in front of the site, which may block this address; nothing was done"
        return WriteVerdict(state=IntentState.ABSENT, detail=why, responsible=ResponsibleParty.OPERATOR)
    if status == _FORBIDDEN:
        return refusal_verdict(f"403{_refusal_suffix(fields)}", _responsible_party(fields))
    if status == _NOT_FOUND:
        return refusal_verdict(f"404: no longer visible{_refusal_suffix(fields)}")
    if status == _NOT_ALLOWED and "error" in fields:
        return refusal_verdict(f"405{_refusal_suffix(fields)}")
    return refusal_verdict(f"{status}, an error of this program{_refusal_suffix(fields)}", ResponsibleParty.DEVELOPER)


def is_account_refusal(refusal: HttpErrorResponse) -> bool:
    """Return whether a response refuses the account, not only one post: a wrong token is a 403 here."""
    if refusal.status != _FORBIDDEN:
        return refusal.status == _UNAUTHORIZED
    try:
        fields = json.loads(refusal.body)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, Mapping) and _responsible_party(fields) is ResponsibleParty.OPERATOR


def _responsible_party(fields: Mapping[str, object]) -> ResponsibleParty:
    detail = str(fields.get("detail", "")).lower()
    account = fields.get("code") in _ACCOUNT_ERROR_CODES or any(words in detail for words in _TOKEN_ERROR_WORDS)
    return ResponsibleParty.OPERATOR if account else ResponsibleParty.OPERATOR_IF_ALL


def _refusal_suffix(fields: Mapping[str, object]) -> str:
    return detail_suffix(fields.get("detail") or fields.get("error") or (json.dumps(fields) if fields else ""))
