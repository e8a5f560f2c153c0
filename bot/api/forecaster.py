"""What the author of a forecaster uses. ``ForecasterSpec`` opens it once, and each trial is one stream of steps.

Called in this order: ``open``, ``steps``.

In more detail:

1. ``ForecasterSpec.members``, ``steps``, ``seconds`` and ``roles`` when a forecast is scheduled.
2. ``Forecaster.steps(question, context)`` for each trial. Before each turn ask ``context.is_final_answer_time``; ask
   models with ``open_session`` or ``run_loop``; yield a ``Step`` with a ``Belief`` that answers the whole question.
3. The engine checks and stores a step before it asks for the next one, then pools the trials and calibrates.
4. ``ForecasterSpec.transcript`` when a person reads a trial, and ``learner`` when outcomes are known.
"""

from bot.core.beliefs import (
    Belief,
    ConfidenceLevel,
    Evidence,
    ModelUsage,
    PriorSource,
    ShownSource,
    Step,
    StepAction,
    StepObservation,
    ToolResult,
    TrialPrior,
)
from bot.core.errors import TrialLimitReachedError
from bot.core.forecasts import (
    Forecast,
    TranscriptEntry,
    TranscriptFigure,
    Trial,
    TrialEnd,
    TrialLimits,
    TrialTranscript,
)
from bot.core.interfaces import Forecaster, HistoryLearner, ParameterLearner, TrialContext
from bot.core.language_models import ModelPerformance
from bot.core.learning import LESSON_ACTION, UNRESOLVED_NOTES_TOOL, FittedParameters, ResolvedForecast, TrainingExample
from bot.core.plugin_specs import MODEL_CALL_SECONDS, ForecasterSpec
from bot.forecasting.agent import parsing
from bot.forecasting.agent.answer_schema import (
    AnswerFields,
    AnswerFormat,
    AnswerSettings,
    ProbabilityMargin,
    TargetPredictions,
    create_answer_format,
    prediction_distance,
)
from bot.forecasting.agent.belief_state import (
    BELIEF_FIELD,
    BeliefState,
    StartingPoint,
    apply_belief_update,
    belief_schema,
    find_starting_point,
    format_belief_state,
    initial_belief_state,
    narrow_margins,
)
from bot.forecasting.agent.chat_session import ChatSession, StructuredAnswer, TurnResult, derive_seed, open_session
from bot.forecasting.agent.critic import CRITIC_PROMPT, CRITIC_ROLE, ForecastCritic
from bot.forecasting.agent.loop import SEARCH_TOOL, BeliefLoop, LoopSettings, LoopTurn, create_belief_loop, run_loop
from bot.forecasting.agent.parsing import ModelAction, UnreadableAnswer
from bot.forecasting.agent.prompt_texts import (
    SUBMIT,
    bounds_text,
    judging_name,
    judging_text,
    question_text,
    submit_tool,
    task_text,
)
from bot.forecasting.agent.tool_schemas import (
    answer_tool,
    object_schema,
    read_word,
    require_text,
    text_field,
    text_result,
    word_field,
)
from bot.forecasting.aggregation import (
    ELSEWHERE_MEMBER,
    PEER_FORECASTS,
    PoolingMethod,
    blend_predictions,
    pool_predictions,
    read_predictions,
)
from bot.forecasting.parameter_fitting import parse_fitted_parameters
from bot.forecasting.prompt_files import (
    check_prompt_folder,
    current_prompt_folder,
    fill_prompt,
    join_prompt_sources,
    load_template,
)
from bot.forecasting.untrusted_text import clean_unfenced_text, fence_text, show_to_person
from bot.stats.blending import BlendExample, BlendWeights, SourceKind, fit_blend_weights, is_stuck, source_kind
from bot.stats.ridge_regression import RegressionRow, RegressionTerm, fit_coefficients, sum_terms
from bot.stats.scoring_rules import prediction_loss

__all__ = [
    "BELIEF_FIELD",
    "CRITIC_PROMPT",
    "CRITIC_ROLE",
    "ELSEWHERE_MEMBER",
    "LESSON_ACTION",
    "MODEL_CALL_SECONDS",
    "PEER_FORECASTS",
    "SEARCH_TOOL",
    "SUBMIT",
    "UNRESOLVED_NOTES_TOOL",
    "AnswerFields",
    "AnswerFormat",
    "AnswerSettings",
    "Belief",
    "BeliefLoop",
    "BeliefState",
    "BlendExample",
    "BlendWeights",
    "ChatSession",
    "ConfidenceLevel",
    "Evidence",
    "FittedParameters",
    "Forecast",
    "ForecastCritic",
    "Forecaster",
    "ForecasterSpec",
    "HistoryLearner",
    "LoopSettings",
    "LoopTurn",
    "ModelAction",
    "ModelPerformance",
    "ModelUsage",
    "ParameterLearner",
    "PoolingMethod",
    "PriorSource",
    "ProbabilityMargin",
    "RegressionRow",
    "RegressionTerm",
    "ResolvedForecast",
    "ShownSource",
    "SourceKind",
    "StartingPoint",
    "Step",
    "StepAction",
    "StepObservation",
    "StructuredAnswer",
    "TargetPredictions",
    "ToolResult",
    "TrainingExample",
    "TranscriptEntry",
    "TranscriptFigure",
    "Trial",
    "TrialContext",
    "TrialEnd",
    "TrialLimitReachedError",
    "TrialLimits",
    "TrialPrior",
    "TrialTranscript",
    "TurnResult",
    "UnreadableAnswer",
    "answer_tool",
    "apply_belief_update",
    "belief_schema",
    "blend_predictions",
    "bounds_text",
    "check_prompt_folder",
    "clean_unfenced_text",
    "create_answer_format",
    "create_belief_loop",
    "current_prompt_folder",
    "derive_seed",
    "fence_text",
    "fill_prompt",
    "find_starting_point",
    "fit_blend_weights",
    "fit_coefficients",
    "format_belief_state",
    "initial_belief_state",
    "is_stuck",
    "join_prompt_sources",
    "judging_name",
    "judging_text",
    "load_template",
    "narrow_margins",
    "object_schema",
    "open_session",
    "parse_fitted_parameters",
    "parsing",
    "pool_predictions",
    "prediction_distance",
    "prediction_loss",
    "question_text",
    "read_predictions",
    "read_word",
    "require_text",
    "run_loop",
    "show_to_person",
    "source_kind",
    "submit_tool",
    "sum_terms",
    "task_text",
    "text_field",
    "text_result",
    "word_field",
]
