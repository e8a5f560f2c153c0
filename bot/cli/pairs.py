"""`foxcast pairs`: questions of different venues that may ask the same, with their prices; confirm or refuse them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from bot.cli.command_setup import load_command_config, load_config_and_plugins
from bot.cli.daemon_requests import TokenFileOption, submit_request
from bot.cli.output.console import (
    ColumnKind,
    TableColumn,
    make_table,
    print_heading,
    print_indented,
    print_json,
    stdout_console,
)
from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.core.light_dataclass import dataclass
from bot.core.operator_requests import DecidePair
from bot.core.predictions import BinaryPrediction
from bot.core.questions import Question
from bot.evaluation.lookup import query_ledger
from bot.evaluation.value_text import NO_VALUE, format_age, format_minute, format_prediction
from bot.store.ledger import ReadOnlyState
from bot.store.question_pairs import PairState, PairUse, QuestionPair, pair_texts
from bot.store.serialization import PREDICTION, format_timestamp

app = typer.Typer(
    add_completion=False,
    help="List questions of different venues that may ask the same, and confirm or refuse them.",
    invoke_without_command=True,
)

COLUMNS = (
    TableColumn("pair"),
    TableColumn("state"),
    TableColumn("question", ColumnKind.TITLE),
    TableColumn("venues", ColumnKind.TEXT),
    TableColumn("prices"),
    TableColumn("difference", ColumnKind.NUMBER),
    TableColumn("price changed"),
    TableColumn("spread"),
    TableColumn("liquidity"),
    TableColumn("used"),
)
SHOWN_ID_CHARS = 8
OPEN_STATES = (PairState.CONFIRMED, PairState.SAME, PairState.PROPOSED)
PAIR_HELP = "The id of a pair, or how it begins."

PairArgument = Annotated[str, typer.Argument(metavar="ID", help=PAIR_HELP)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPair:
    """A pair with both questions as they are now; ``is_current``: neither text changed since they were compared."""

    pair: QuestionPair
    first: Question
    second: Question
    is_current: bool

    @property
    def difference(self) -> float | None:
        """The price of the first question minus that of the second one, for yes-or-no questions with prices."""
        prices = [None if one.crowd is None else one.crowd.prediction for one in (self.first, self.second)]
        left, right = (one.probability if isinstance(one, BinaryPrediction) else None for one in prices)
        return None if left is None or right is None else left - right

    def is_used(self, use: PairUse) -> bool:
        """Return whether forecasters get its prices."""
        return self.is_current and self.pair.is_accepted(use)


@app.callback()
def pairs(
    ctx: typer.Context,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also pairs that are refused or judged different.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many pairs.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List questions of different venues that may ask the same, and confirm or refuse them."""
    if ctx.invoked_subcommand is not None:
        return
    config = load_command_config(ctx)
    states = tuple(PairState) if everything else OPEN_STATES

    async def read(records: ReadOnlyState) -> list[ShownPair]:
        found = await records.ledger.question_pairs.rows(states, limit=limit)
        return [await _read_pair(records, one) for one in found]

    shown, use, now = query_ledger(config, read), PairUse(config.pairs.use), SystemClock().now()
    if as_json:
        print_json([_pair_to_json(one, use) for one in shown])
        return
    console = stdout_console()
    if not shown:
        console.print(
            "no pair is proposed or confirmed (--all lists the others too); the daemon looks for them where two venues "
            "are in use and [pairs] enabled is true"
        )
        return
    console.print(make_table(COLUMNS, [_pair_cells(one, use, now) for one in shown]))
    waiting = sum(one.pair.state is PairState.PROPOSED for one in shown)
    if waiting:
        console.print(f"{waiting} proposed; compare with: foxcast pairs show ID, then: foxcast pairs confirm|refuse ID")


@app.command()
def show(ctx: typer.Context, name: PairArgument) -> None:
    """Show both questions of a pair with their criteria, prices, and what was said of them."""
    config = load_command_config(ctx)
    shown, console = _find_pair(config, name), stdout_console()
    pair, now = shown.pair, SystemClock().now()
    console.print(f"pair {pair.id}: {_describe_state(shown)}")
    for label, text in (("reason", pair.reason), ("differences", pair.differences)):
        if text:
            console.print(f"{label}: {text}")
    for question in (shown.first, shown.second):
        print_heading(console, f"{question.ref}: {question.title}")
        console.print(f"closes {format_minute(question.closes_at)}; {_describe_price(question, now)}")
        for text in (question.criteria, question.background):
            print_indented(console, text)


@app.command()
def confirm(ctx: typer.Context, name: PairArgument, *, token_file: TokenFileOption = None) -> None:
    """State that both questions of a pair ask the same."""
    _decide(ctx, name, token_file, confirmed=True)


@app.command()
def refuse(ctx: typer.Context, name: PairArgument, *, token_file: TokenFileOption = None) -> None:
    """State that the questions of a pair are different."""
    _decide(ctx, name, token_file, confirmed=False)


def _decide(ctx: typer.Context, name: str, token_file: Any, *, confirmed: bool) -> None:  # noqa: ANN401 - the option of Typer
    config, registry = load_config_and_plugins(ctx)
    shown = _find_pair(config, name)

    def make_request(by: str, at: datetime) -> DecidePair:
        return DecidePair(by=by, asked_at=at, pair=shown.pair.id, texts=shown.pair.texts, confirmed=confirmed)

    stdout_console().print(submit_request(config, registry, make_request, token_file=token_file))


def _find_pair(config: Config, name: str) -> ShownPair:
    async def read(records: ReadOnlyState) -> ShownPair:
        return await _read_pair(records, await records.ledger.question_pairs.get(name))

    return query_ledger(config, read)


async def _read_pair(records: ReadOnlyState, pair: QuestionPair) -> ShownPair:
    first, second = [await records.ledger.questions.get(ref) for ref in (pair.first, pair.second)]
    return ShownPair(pair=pair, first=first, second=second, is_current=pair_texts(first, second) == pair.texts)


def _describe_state(shown: ShownPair) -> str:
    pair = shown.pair
    found = "the same by all checks of titles and dates" if pair.is_exact else "similar titles"
    parts = [pair.state.value + (f" by {pair.by}" if pair.by else ""), f"{found}, cosine {pair.similarity:.2f}"]
    return ", ".join(parts if shown.is_current else [*parts, "a text changed since"])


def _describe_price(question: Question, now: datetime) -> str:
    crowd = question.crowd
    if crowd is None:
        return "no price"
    parts = [f"price {format_prediction(crowd.prediction)}, changed {format_age(_age(crowd.at, now))}"]
    parts += [f"spread {crowd.spread:.3f}"] if crowd.spread is not None else []
    parts += [f"liquidity {crowd.liquidity:,.0f}"] if crowd.liquidity is not None else []
    return ", ".join(parts)


def _age(at: datetime, now: datetime) -> timedelta:
    return max(timedelta(0), now - at)


def _pair_cells(shown: ShownPair, use: PairUse, now: datetime) -> Sequence[str]:
    crowds = [one.crowd for one in (shown.first, shown.second)]
    prices = [NO_VALUE if one is None else format_prediction(one.prediction) for one in crowds]
    ages = [NO_VALUE if one is None else format_age(_age(one.at, now)) for one in crowds]
    spreads = [NO_VALUE if one is None or one.spread is None else f"{one.spread:.3f}" for one in crowds]
    liquid = [NO_VALUE if one is None or one.liquidity is None else f"{one.liquidity:,.0f}" for one in crowds]
    return (
        shown.pair.id[:SHOWN_ID_CHARS],
        shown.pair.state.value,
        shown.first.title,
        f"{shown.pair.first.venue} / {shown.pair.second.venue}",
        " / ".join(prices),
        NO_VALUE if shown.difference is None else f"{shown.difference:+.3f}",
        " / ".join(ages),
        " / ".join(spreads),
        " / ".join(liquid),
        "yes" if shown.is_used(use) else "no",
    )


def _pair_to_json(shown: ShownPair, use: PairUse) -> dict[str, Any]:
    pair = shown.pair
    return {
        "id": pair.id,
        "state": pair.state.value,
        "used": shown.is_used(use),
        "exact": pair.is_exact,
        "similarity": pair.similarity,
        "difference": shown.difference,
        "by": pair.by or None,
        "reason": pair.reason or None,
        "differences": pair.differences or None,
        "answer": pair.answer or None,
        "found_at": format_timestamp(pair.found_at),
        "changed_at": format_timestamp(pair.changed_at),
        "questions": [_question_to_json(one) for one in (shown.first, shown.second)],
    }


def _question_to_json(question: Question) -> dict[str, Any]:
    crowd = question.crowd
    return {
        "ref": str(question.ref),
        "title": question.title,
        "closes_at": format_timestamp(question.closes_at),
        "price": None if crowd is None else PREDICTION.plain(crowd.prediction),
        "at": None if crowd is None else format_timestamp(crowd.at),
        "spread": None if crowd is None else crowd.spread,
        "liquidity": None if crowd is None else crowd.liquidity,
    }
