"""What every kind of plugin uses: specs and settings, questions and predictions, errors, and texts.

A plugin is imported once. Then its hooks (``@hookimpl``) are called and return specs. Where config names one of its
specs, its settings are checked, and each factory of the spec is entered with them and a ``PluginContext``, in whose
``folder`` it may write. On the way out the factories are left in reverse order. An error says who must act.
"""

from bot.config.key_lines import MAX_KEY_PARTS, KeyPath, find_deep_key_line, find_line, map_json_lines, map_toml_lines
from bot.config.sources import read_text_file
from bot.core.concurrency import gather_all
from bot.core.distributions import curve_from_quantiles, curve_quantiles, flat_prediction
from bot.core.errors import (
    AuthenticationError,
    ConfigError,
    FoxcastError,
    HttpErrorResponse,
    LeakError,
    MalformedDataError,
    NotFoundError,
    PluginError,
    QuotaExhaustedError,
    RequestRejectedError,
    ServerUnreachableError,
    ServiceUnavailableError,
)
from bot.core.interfaces import Clock, HttpClient, RandomStreams
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, NumericOutcome, Outcome, Resolution, VoidOutcome
from bot.core.plain_text import nearest_names, parse_date, plain_snippet, replace_invisible, suggest_names
from bot.core.plugin_specs import API_VERSION, LocalPath, PluginContext, PluginSettings
from bot.core.predictions import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
    QuestionShape,
)
from bot.core.questions import SINGLE_TARGET, CrowdForecast, Question, QuestionRef, Target
from bot.core.redaction import register_secrets as keep_secret
from bot.core.setup_choices import SetupChoice, SetupValue
from bot.core.values import Json
from bot.core.venue_http import RateLimit
from bot.net.urls import CacheBuster
from bot.plugin_system.hook_specs import hookimpl

__all__ = [
    "API_VERSION",
    "MAX_KEY_PARTS",
    "SINGLE_TARGET",
    "AuthenticationError",
    "BinaryOutcome",
    "BinaryPrediction",
    "BinaryShape",
    "CacheBuster",
    "ChoiceOutcome",
    "ChoicePrediction",
    "ChoiceShape",
    "Clock",
    "ConfigError",
    "CrowdForecast",
    "CurvePrediction",
    "CurveShape",
    "FoxcastError",
    "HttpClient",
    "HttpErrorResponse",
    "Json",
    "KeyPath",
    "LeakError",
    "LocalPath",
    "MalformedDataError",
    "NotFoundError",
    "NumericOutcome",
    "Outcome",
    "PluginContext",
    "PluginError",
    "PluginSettings",
    "Prediction",
    "Question",
    "QuestionRef",
    "QuestionShape",
    "QuotaExhaustedError",
    "RandomStreams",
    "RateLimit",
    "RequestRejectedError",
    "Resolution",
    "ServerUnreachableError",
    "ServiceUnavailableError",
    "SetupChoice",
    "SetupValue",
    "Target",
    "VoidOutcome",
    "curve_from_quantiles",
    "curve_quantiles",
    "find_deep_key_line",
    "find_line",
    "flat_prediction",
    "gather_all",
    "hookimpl",
    "keep_secret",
    "map_json_lines",
    "map_toml_lines",
    "nearest_names",
    "parse_date",
    "plain_snippet",
    "read_text_file",
    "replace_invisible",
    "suggest_names",
]
