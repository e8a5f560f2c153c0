"""The interfaces of the engine, as Protocols: what venues, forecasters, models and other parts provide.

Readers and writers are different objects: code that holds a VenueReader cannot submit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime
    from decimal import Decimal
    from pathlib import Path

    import numpy as np

    from bot.core.alerts import NotificationMessage
    from bot.core.beliefs import Step, ToolResult
    from bot.core.forecasts import TrialLimits
    from bot.core.language_models import (
        ModelAnswer,
        ModelCompletion,
        ModelDialect,
        ModelPerformance,
        Prompt,
        SamplingSettings,
        TokenPrice,
        ToolDefinition,
    )
    from bot.core.learning import FittedParameters, ForecastFile, ResolvedForecast, Round, TrainingExample
    from bot.core.orders import Account, ClosingProposal, OrderPlan, Position, TradeProposal, UnpaidOutcome
    from bot.core.outcomes import ContestStanding, Outcome, Resolution
    from bot.core.questions import Question, QuestionRef, Quote
    from bot.core.research import FetchedPage, Passage, SearchResult, SourcePolicy, TimeSeries
    from bot.core.submissions import ListedWrite, SealedRequest, SubmissionBatch, WriteReceipt
    from bot.core.values import Json
    from bot.core.venue_http import HttpRequest, HttpResponse


class Clock(Protocol):
    """Wall time, monotonic time and waiting; the simulated one runs weeks in seconds."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return the seconds of a clock that is never set back, from an arbitrary start."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for that many seconds."""
        ...


class RandomStreams(Protocol):
    """Reproducible random numbers: the same labels give the same stream within one seed."""

    def stream(self, *labels: str) -> np.random.Generator:
        """Return a generator that depends only on the seed and the labels."""
        ...

    def draw_seed(self, *labels: str) -> int:
        """Return a number of 31 bits that depends only on the seed and the labels."""
        ...


class HttpClient(Protocol):
    """Bounded reading over HTTP; every failure is raised as an error of ``bot.core.errors``.

    Headers may hold keys: they appear in no error and no log.
    """

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        """Return the decoded body of a 200 response of at most ``max_bytes`` bytes; with retries."""
        ...

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        """Send JSON once, as a query, and return the decoded body of a 200 response of at most ``max_bytes`` bytes.

        Only for queries: a change at a venue goes through a VenueSubmitter. ``deadline_s`` is for answers that take
        longer than reading a page.
        """
        ...


class PageFetcher(Protocol):
    """Fetches pages of the open web; it never connects to this machine or a private network."""

    async def fetch(self, url: str, *, refusal: Callable[[str], str | None]) -> FetchedPage:
        """Return the content of the address, bounded in bytes and time.

        ``refusal`` is called before each request, also after each redirect, and returns why an address must not be
        read, or None. Raises RequestRejectedError with that reason and for a private address; ServiceUnavailableError,
        NotFoundError and MalformedDataError as HttpClient does.
        """
        ...


class VenueReader(Protocol):
    """The reading half of a venue."""

    def questions(self) -> AsyncIterator[Question]:
        """Yield the questions to forecast, in their present state; each reference once."""
        ...

    def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        """Yield all outcomes of the given questions that are known now, including those yielded before.

        A corrected outcome replaces the earlier one; an outcome that is missing while others of its batch are present
        was withdrawn.
        """
        ...


@runtime_checkable
class QuestionReader(VenueReader, Protocol):
    """A reader that can read one question by its name."""

    async def find_question(self, name: str) -> Question:
        """Return a question as it is now, by the key of its reference or by its address.

        A question that ``questions`` no longer yields is found so before it is forecast: it may have closed early.
        Raises NotFoundError for a name that the venue does not have, and RequestRejectedError with the reason for a
        question that cannot be forecast.
        """
        ...


@runtime_checkable
class ContestReader(VenueReader, Protocol):
    """A reader of a venue that ranks accounts; the scores of single questions are in their resolutions."""

    async def contest_standings(self) -> Sequence[ContestStanding]:
        """Return the standing of the account in each configured contest that ranks it."""
        ...


class RoundArchive(Protocol):
    """Past rounds of a venue, for learning and testing; reads files, never a network."""

    def round_keys(self) -> Sequence[str]:
        """Return the keys of all rounds that have questions, oldest first."""
        ...

    def read_round(self, key: str) -> Round:
        """Return one round; raises NotFoundError for an unknown key."""
        ...

    def examples(self, before: datetime) -> Iterable[TrainingExample]:
        """Yield every target whose outcome was known before the moment."""
        ...

    def read_forecast_file(self, path: Path) -> ForecastFile:
        """Read a file of forecasts; raises MalformedDataError for one that the documented rules refuse completely."""
        ...


class VenueSubmitter(Protocol):
    """The writing half: a venue's writer, or its paper book. Only the outbox holds one."""

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Write the batch once, without retries; return one receipt per intent, unknown if there is no proof."""
        ...

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Read back the state at the venue: acked if it is there as intended, absent if it is provably not."""
        ...


@runtime_checkable
class SealingSubmitter(VenueSubmitter, Protocol):
    """A submitter that makes its requests before it writes them, so that they can be found or sent again."""

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        """Return the request of each intent, complete: tag, signature, expiry. Nothing is sent.

        An intent without a request is refused without contacting the venue; raises RequestRejectedError if all intents
        are refused.
        """
        ...


@runtime_checkable
class WriteListingSubmitter(VenueSubmitter, Protocol):
    """A submitter of a venue that lists what its account wrote, whichever program or person wrote it."""

    async def list_writes(self, since: datetime) -> Sequence[ListedWrite]:
        """Return the writes of the account since a moment; raises the errors of reading if any may be missing."""
        ...


@runtime_checkable
class TradingSubmitter(SealingSubmitter, Protocol):
    """The submitter of a venue with orders: a paper book, or a real account."""

    async def account(self) -> Account:
        """Return the account now, with positions marked at the price at which they could be sold."""
        ...

    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        """Cancel open orders, all of them for None; return the ids of those that are not open any more."""
        ...

    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        """Return the payout of a share, in [0, 1]; ``state`` is the market state of its order, "" if unknown."""
        ...


@runtime_checkable
class PaperTradingSubmitter(TradingSubmitter, Protocol):
    """A paper book of a venue with orders; the engine tells it about outcomes and the passing of time."""

    async def settle(self, resolutions: Sequence[Resolution]) -> int:
        """Pay out positions by these outcomes, or take payouts back; repeating them changes nothing.

        Returns how many positions were settled.
        """
        ...

    async def advance(self) -> int:
        """Expire open orders, or fill them by trades since the last call; return how many changed."""
        ...


class FeeSchedule(Protocol):
    """The fees of a taker; ``bot.execution.order_book.ShareFees`` implements it for a formula."""

    @property
    def is_free(self) -> bool:
        """Whether nothing is ever charged."""
        ...

    @property
    def rounding(self) -> Decimal:
        """By how much at most the fee of one fill exceeds that of its shares because it is rounded."""
        ...

    def per_share(self, price: Decimal) -> Decimal:
        """Return what a share costs a taker in addition to its price, not rounded."""
        ...

    def fee_for(self, price: Decimal, shares: Decimal) -> Decimal:
        """Return the fee of one fill, rounded as the venue does."""
        ...

    def max_cost_per_share(self, limit: Decimal) -> Decimal:
        """Return the maximum of price plus fee of a share that is bought within a limit."""
        ...


class OrderPlanner(Protocol):
    """Turns beliefs into orders: policy in code, without a model."""

    async def plan_order(self, proposal: TradeProposal) -> OrderPlan:
        """Return the order plan for the market as it is now.

        Raises ServiceUnavailableError if it cannot be read, and RequestRejectedError for a question that is not traded.
        """
        ...


@runtime_checkable
class ClosingPlanner(OrderPlanner, Protocol):
    """A planner that can also sell a position regardless of the forecast."""

    async def plan_closing(self, proposal: ClosingProposal) -> OrderPlan:
        """Return the sale of the position, or of the part that can be sold now, or why nothing can.

        The limit is the worst price that a seller must accept on the present market. Raises as ``plan_order``.
        """
        ...


class WriteClient(Protocol):
    """HTTP for writers: one request, one response of any status, no retries, no redirects."""

    async def send(self, request: HttpRequest, *, max_bytes: int, deadline_s: float) -> HttpResponse:
        """Send once, when the venue's rate limits allow it.

        Raises RequestRejectedError if nothing was sent (no connection was made), ServiceUnavailableError if it may have
        arrived and no complete response came, MalformedDataError for a response of more than ``max_bytes``.
        """
        ...


class WebSocketConnection(Protocol):
    """An open WebSocket that speaks text."""

    async def send(self, text: str) -> None:
        """Send a message; raises ServiceUnavailableError if the connection is closed."""
        ...

    async def receive(self, *, within_s: float) -> str:
        """Return the next message; raises ServiceUnavailableError if none came in time or the connection is closed."""
        ...


class WebSocketClient(Protocol):
    """Opens WebSockets of known services."""

    def connect(
        self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[WebSocketConnection]:
        """Connect with these headers; messages of more than ``max_bytes`` end the connection.

        Raises ServiceUnavailableError, AuthenticationError.
        """
        ...


class PriceFeed(Protocol):
    """Prices as they move."""

    def quotes(self, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        """Yield quotes of the given questions until closed; a silent feed raises ServiceUnavailableError."""
        ...


class SearchEngine(Protocol):
    """A search engine; one that cannot limit results to a time is used for live questions only."""

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        """Return at most ``limit`` results, published before the moment if one is given."""
        ...


class DataSource(Protocol):
    """A source of time series, as they were known at a moment."""

    def series_names(self, question: Question) -> Sequence[str]:
        """Return the names in this source of the series that the question is about, if any."""
        ...

    async def series(self, name: str, *, before: datetime) -> TimeSeries:
        """Return the series with nothing published at or after the moment; raises NotFoundError."""
        ...


class PageSource(Protocol):
    """A reference work whose pages can be read in the version of a moment."""

    async def page_headings(self, page: str, *, before: datetime) -> Sequence[str]:
        """Return the headings of a page, by title or address, as it was before the moment; raises NotFoundError."""
        ...

    async def section(self, page: str, heading: str, *, before: datetime) -> Passage:
        """Return the text under a heading ("" is the text before the first), as above; raises NotFoundError."""
        ...


class ModelProvider(Protocol):
    """A provider of language models.

    It decides nothing: the gateway handles budgets, retries, deadlines and records.
    """

    async def price(self, model: str) -> TokenPrice | None:
        """Return the price of the model, or None if it is unknown, which never means free."""
        ...

    async def complete(self, model: str, prompt: Prompt, sampling: SamplingSettings) -> ModelCompletion:
        """Send one request, without retries; cancelling ends the request.

        Raises AuthenticationError or QuotaExhaustedError, ServiceUnavailableError (``retry_after_s`` if named) or
        ServerUnreachableError, RequestRejectedError or ContextLengthExceededError for a request that it never accepts,
        and MalformedDataError for an answer that does not have its documented form.
        """
        ...


class TrialContext(Protocol):
    """All that a forecaster may use on one question in one trial."""

    @property
    def cutoff(self) -> datetime:
        """The moment after which nothing may inform the forecast."""
        ...

    @property
    def trial(self) -> int:
        """The number of this trial, from 1."""
        ...

    @property
    def fitted(self) -> FittedParameters | None:
        """What this forecaster learned from outcomes before the cutoff, if it learns at all."""
        ...

    def stream(self, *labels: str) -> np.random.Generator:
        """Return random numbers that depend only on this forecast, trial and labels."""
        ...

    def draw_seed(self, *labels: str) -> int:
        """Return a number of 31 bits that depends only on this forecast, trial and labels."""
        ...

    @property
    def limits(self) -> TrialLimits:
        """The limits of this trial."""
        ...

    def is_final_answer_time(self, place: str) -> bool:
        """Return whether only the time for the final answer is left at a place of the trial.

        That time is ``TrialLimits.final_seconds``. Call it before each turn, with a name for that turn alone. The
        answer is recorded, so a trial that is resumed or replayed is late at the same places.
        """
        ...

    @property
    def policy(self) -> SourcePolicy:
        """How questions of this source are best researched."""
        ...

    @property
    def tools(self) -> Sequence[ToolDefinition]:
        """The tools that may be used now; a forecaster may offer fewer of them, never more."""
        ...

    @property
    def all_tools(self) -> Sequence[ToolDefinition]:
        """All tools that this trial may be offered at any time, the same objects throughout.

        ``tools`` is a part of them.
        """
        ...

    async def use_tool(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        """Use a tool. A failure is not raised but returned as a failed result with a text for the model.

        Every result is recorded first; the same use after a crash returns the same result and costs nothing.
        """
        ...

    def dialect(self, role: str) -> ModelDialect:
        """Return the dialect of the model in that role; raises ConfigError for a role without one."""
        ...

    async def ask_model(self, role: str, prompt: Prompt, *, seed: int | None = None) -> ModelAnswer:
        """Ask the model in a role, within budget and limits; recorded first, as above.

        Without a seed the same prompt may be answered from the record of another trial. Raises ServiceUnavailableError
        if no model answered in time, TrialLimitReachedError if the trial is over, RequestRejectedError for a request
        that no model accepts or the budget does not allow, AuthenticationError, MalformedDataError, and ConfigError for
        a role without a model.
        """
        ...

    async def store_text(self, text: str) -> str:
        """Record a text (a prompt in use, say) and return its digest, for the documents of a step."""
        ...

    async def report_performance(self, performance: ModelPerformance) -> None:
        """Report how the model in a role did in this trial; one that does badly is replaced for later trials."""
        ...


class Forecaster(Protocol):
    """A forecaster of any design, as a stream of steps."""

    def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        """Yield steps, each with a complete belief; the engine stops by closing the generator."""
        ...


class ParameterLearner(Protocol):
    """The learning half of a forecaster: a pure function of examples."""

    def fit(self, examples: Sequence[TrainingExample], *, before: datetime) -> Mapping[str, Json]:
        """Return parameters as a JSON object; raises LeakError for an example not known before the moment."""
        ...


@runtime_checkable
class HistoryLearner(ParameterLearner, Protocol):
    """A learner that also uses the resolved forecasts of itself and of the ``other_forecasters`` that it names."""

    @property
    def other_forecasters(self) -> Collection[str]: ...
    def fit_history(self, history: Sequence[ResolvedForecast], *, before: datetime) -> Mapping[str, Json]:
        """Return parameters to add to those of ``fit``, from forecasts in the order of their resolution."""


@runtime_checkable
class MergingLearner(ParameterLearner, Protocol):
    """A learner whose parameters have parts that can come from different fits."""

    def merge(self, fits: Sequence[FittedParameters]) -> Mapping[str, Json]:
        """Return each part of the parameters from the fit that saw most of its kind of evidence."""


class NotificationChannel(Protocol):
    """A channel to a person."""

    async def notify(self, message: NotificationMessage) -> None:
        """Deliver the message, or raise an error; it is delivered again later, with the same id."""
        ...
