"""The typed sockets of the engine: what it consumes, as Protocols, and nothing else.

Readers and writers are different objects: code that holds a ``Venue`` cannot submit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime
    from pathlib import Path

    import numpy as np

    from bot.domain.conduct import Conduct
    from bot.domain.forecast import Limits
    from bot.domain.learning import Fitted, Hindsight, Round, Sheet
    from bot.domain.order import Account, ClosingWish, Instead, Plan, Position, Wish
    from bot.domain.prompt import Answer, Completion, Dialect, Price, Prompt, Sampling, Tool
    from bot.domain.question import Question, QuestionRef
    from bot.domain.research import Fetched, Hit, Notice, Passage, Quote, Series, SourcePolicy
    from bot.domain.resolution import Example, Outcome, Resolution
    from bot.domain.score import ContestStanding
    from bot.domain.step import Json, Step, ToolResult
    from bot.domain.submission import Batch, Receipt, Sealed
    from bot.domain.wire import Reply, Request


class Clock(Protocol):
    """Wall time, monotonic time and waiting; the simulated one runs weeks in seconds."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never run backwards, from an arbitrary start."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for that many seconds."""
        ...


class Random(Protocol):
    """Reproducible chance: the same labels give the same stream within one seed."""

    def stream(self, *labels: str) -> np.random.Generator:
        """Return a generator that belongs to the labels alone."""
        ...


class Http(Protocol):
    """Bounded reading over HTTP; whatever goes wrong comes as an error of ``bot.errors``.

    Headers may hold keys: they appear in no error and no log.
    """

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        """Return the decoded body of a 200 answer of at most ``max_bytes`` bytes; tried again where that may help."""
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
        """Ask a question by sending JSON, once, and return the decoded body of a 200 answer, bounded as above.

        For asking only: what changes anything at the other side goes through a Submitter. ``deadline_s`` is for what
        takes longer than reading a page.
        """
        ...


class Fetcher(Protocol):
    """Fetches pages of the open web: no address inside this machine or its network is ever connected to."""

    async def fetch(self, url: str, *, refusal: Callable[[str], str | None]) -> Fetched:
        """Return what the address holds, bounded in bytes and time.

        ``refusal`` is asked before each request, also after each redirect, and says why an address must not be
        read, or None. Raises Rejected with that reason, and for an address inside; Unavailable, NotFound and
        ContractError as reading over Http does.
        """
        ...


class Venue(Protocol):
    """The reading half of a venue."""

    def questions(self) -> AsyncIterator[Question]:
        """Yield the questions to forecast, in their present state; each reference once."""
        ...

    def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        """Yield all outcomes known now of the given questions, also those yielded before.

        A corrected outcome replaces the one yielded before; one that is missing beside others of its batch was
        withdrawn.
        """
        ...


@runtime_checkable
class Finder(Venue, Protocol):
    """A reader that can read one question by its name."""

    async def find(self, name: str) -> Question:
        """Return a question as it stands now, by the key of its reference or by its address.

        Raises NotFound for a name that is none of the venue's, Rejected for one that cannot be forecast, with why.
        """
        ...


@runtime_checkable
class ContestReader(Venue, Protocol):
    """A reader of a venue that ranks accounts. The scores of single questions come with their resolutions."""

    async def contest_standings(self) -> Sequence[ContestStanding]:
        """Return how the account stands in each contest that is in use and has a ranking with it."""
        ...


class Archive(Protocol):
    """Past rounds of a venue, to learn from and to be tested on; reads files, never a network."""

    def rounds(self) -> Sequence[str]:
        """Return the keys of all rounds that have questions, oldest first."""
        ...

    def round(self, key: str) -> Round:
        """Return one round; raises NotFound for an unknown key."""
        ...

    def examples(self, before: datetime) -> Iterable[Example]:
        """Yield every target whose outcome was known strictly before the moment."""
        ...

    def sheet(self, path: Path) -> Sheet:
        """Read a file of forecasts; raises ContractError for one that the documented rules refuse whole."""
        ...


class Submitter(Protocol):
    """The writing half: a venue's writer, or its paper book. Only the outbox holds one."""

    async def submit(self, batch: Batch) -> Sequence[Receipt]:
        """Write the batch once, without retries; one receipt per intent, unknown where there is no proof."""
        ...

    async def standing(self, batch: Batch) -> Sequence[Receipt]:
        """Read back what stands: acked for what is there as intended, absent for what is provably not."""
        ...


@runtime_checkable
class Sealer(Submitter, Protocol):
    """A submitter whose requests are made before they are written, so that they can be found again, or sent again."""

    async def seal(self, batch: Batch) -> Sequence[Sealed]:
        """Return the request of each intent, complete: tag, signature, expiry. Nothing is sent.

        One that is missing is refused without touching the wire; raises Rejected where that holds for all.
        """
        ...


@runtime_checkable
class Trader(Sealer, Protocol):
    """The submitter of a venue where forecasts become orders: a paper book, or a real account."""

    async def account(self) -> Account:
        """Return what the account has now, positions marked at the price they could be sold at."""
        ...

    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        """Cancel resting orders, all of them for None; return the ids of those that rest no more."""
        ...

    def pays(self, position: Position, outcome: Outcome, state: str) -> float | Instead:
        """Return what a share pays, in [0, 1]; ``state`` is the market on which its order was planned, "" unknown."""
        ...


@runtime_checkable
class PaperTrader(Trader, Protocol):
    """A paper book where forecasts become orders: it needs to be told what time and outcomes bring."""

    async def settle(self, resolutions: Sequence[Resolution]) -> int:
        """Pay out, or take back, what these outcomes say of positions; saying them again changes nothing.

        Returns how many positions were settled.
        """
        ...

    async def advance(self) -> int:
        """Let resting orders expire or be filled by what happened since; return how many changed."""
        ...


class Planner(Protocol):
    """Turns beliefs into orders: policy in code, with no model near it."""

    async def plan(self, wish: Wish) -> Plan:
        """Return what to do, on the market as it is read now.

        Raises Unavailable where it cannot be read, and Rejected for a question that is not traded.
        """
        ...


@runtime_checkable
class ClosingPlanner(Planner, Protocol):
    """A planner that can also sell a position whatever the belief."""

    async def plan_closing(self, wish: ClosingWish) -> Plan:
        """Return the sale of the whole position, or of what can be sold of it now, or why nothing can.

        The limit is the worst price that the market, as it is read now, makes the seller take. Raises as ``plan``.
        """
        ...


class Wire(Protocol):
    """HTTP as writers need it: one request, one answer of whatever status, nothing retried or followed."""

    async def send(self, request: Request, *, max_bytes: int, deadline_s: float) -> Reply:
        """Send once, when the venue's rates allow it.

        Raises Rejected where nothing left this machine (no connection was made), Unavailable where it may have arrived
        and no whole answer came, ContractError for an answer of more than ``max_bytes``.
        """
        ...


class Socket(Protocol):
    """An open WebSocket that speaks text."""

    async def send(self, text: str) -> None:
        """Send a message; raises Unavailable where the connection is gone."""
        ...

    async def receive(self, *, within_s: float) -> str:
        """Return the next message; raises Unavailable where none came in time or the connection is gone."""
        ...


class Sockets(Protocol):
    """Opens WebSockets of known services."""

    def connect(self, url: str, *, max_bytes: int) -> AbstractAsyncContextManager[Socket]:
        """Connect; messages of more than ``max_bytes`` end the connection. Raises Unavailable, Unauthorized."""
        ...


class PriceFeed(Protocol):
    """Prices as they move."""

    def quotes(self, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        """Yield quotes of the given questions until closed; a silent feed raises Unavailable."""
        ...


class SearchEngine(Protocol):
    """A search engine. Dates are in the signature: one that cannot bound them is asked for live questions only."""

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[Hit]:
        """Return at most ``limit`` hits, published before the moment where one is given."""
        ...


class DataSource(Protocol):
    """A source of time series, as they were known at a moment."""

    def names(self, question: Question) -> Sequence[str]:
        """Return the names, in this source, of the series that the question is about, if it is about any."""
        ...

    async def series(self, name: str, *, before: datetime) -> Series:
        """Return the series with nothing published at or after the moment; raises NotFound."""
        ...


class PageSource(Protocol):
    """A reference work whose pages can be read as they stood at a moment."""

    async def contents(self, page: str, *, before: datetime) -> Sequence[str]:
        """Return the headings of a page, by title or address, as it stood before the moment; raises NotFound."""
        ...

    async def section(self, page: str, heading: str, *, before: datetime) -> Passage:
        """Return the text under a heading ("" is what stands before the first), as above; raises NotFound."""
        ...


class Llm(Protocol):
    """A provider of language models. It decides nothing: budgets, retries, deadlines and records are above it."""

    async def price(self, model: str) -> Price | None:
        """Return what the model costs, or None where that is not known, which never means free."""
        ...

    async def complete(self, model: str, prompt: Prompt, sampling: Sampling) -> Completion:
        """Ask once, without retries; cancelling ends the request.

        Raises Unauthorized or QuotaExhausted, Unavailable (``retry_after_s`` if named) or ServerUnreachable, Rejected
        or ContextExceeded for what it never takes, and ContractError for an answer not of its documented form.
        """
        ...


class Desk(Protocol):
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
    def fitted(self) -> Fitted | None:
        """What this forecaster learned strictly before the cutoff, if it learns at all."""
        ...

    def stream(self, *labels: str) -> np.random.Generator:
        """Return chance that belongs to this forecast, trial and labels alone."""
        ...

    @property
    def limits(self) -> Limits:
        """Where the engine stops this trial."""
        ...

    def is_late(self, place: str) -> bool:
        """Say whether there is only time for the final answer left (``Limits.final_seconds``) at a place of the trial.

        Ask it before each turn, with a name for that turn alone. What it says is on record, so a trial that is resumed
        or replayed is late at the same places.
        """
        ...

    @property
    def policy(self) -> SourcePolicy:
        """How questions of this source are best worked on."""
        ...

    @property
    def tools(self) -> Sequence[Tool]:
        """What may be used now; a forecaster may offer less of it, never more."""
        ...

    @property
    def all_tools(self) -> Sequence[Tool]:
        """All tools that this trial may be offered at any time, the same objects throughout; ``tools`` is a part."""
        ...

    async def use(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        """Use a tool. What goes wrong comes as a failed result, not as an error: its text says so to the model.

        Whatever is returned is on record first; the same use after a crash returns the same and costs nothing.
        """
        ...

    def dialect(self, role: str) -> Dialect:
        """Return how the model in that role is to be asked for a move; raises ConfigError for a role without one."""
        ...

    async def ask(self, role: str, prompt: Prompt, *, seed: int | None = None) -> Answer:
        """Ask the model in a role, within budget and limits; on record first, as above.

        Without a seed the same question may be answered from the record of another trial. Raises Unavailable when
        nobody answered in time, LimitReached when the trial is over, Rejected for what no model takes or the budget
        does not allow, Unauthorized, ContractError, and ConfigError for a role without a model.
        """
        ...

    async def keep(self, text: str) -> str:
        """Put a text (a prompt in use, say) on record and return its digest, for the documents of a step."""
        ...

    async def grade(self, conduct: Conduct) -> None:
        """Tell how the model in a role did in this trial; one that does badly is replaced for later trials."""
        ...


class Forecaster(Protocol):
    """Any design of forecaster, as a stream of steps."""

    def steps(self, question: Question, desk: Desk) -> AsyncGenerator[Step, None]:
        """Yield steps, each with a complete belief; the engine stops by closing the generator."""
        ...


class Learner(Protocol):
    """The learning half of a forecaster: a pure function of examples."""

    def fit(self, examples: Sequence[Example], *, before: datetime) -> Mapping[str, Json]:
        """Return parameters as a JSON object; raises LeakError for an example not known before the moment."""
        ...


@runtime_checkable
class Historian(Learner, Protocol):
    """A learner that also looks at what it, and the ``others`` that it names, said of what has resolved."""

    @property
    def others(self) -> Collection[str]: ...
    def recall(self, pasts: Sequence[Hindsight], *, before: datetime) -> Mapping[str, Json]:
        """Return parameters to add to those of ``fit``, from pasts in the order in which they became known."""


class Notifier(Protocol):
    """A channel to a person."""

    async def notify(self, notice: Notice) -> None:
        """Deliver the notice or raise Unavailable."""
        ...
