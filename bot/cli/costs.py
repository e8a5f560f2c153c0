"""``foxcast costs``: what models cost, by question, model, day, venue, forecaster or role, and what is left today."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Annotated

import typer

from bot.app import LAB_FOLDER, LEDGER_FILE, Records
from bot.cli.options import day, spread
from bot.cli.output.console import emit, stdout
from bot.cli.output.costs import Bill, Left, Today, as_plain, print_bill
from bot.cli.records import read
from bot.cli.session import configured
from bot.clock import SystemClock
from bot.config.model import Config
from bot.errors import NotFound
from bot.store.calls import CostBy, Spent
from bot.store.ledger import read_ledger
from bot.store.losses import losses

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is added up, from when on."""

    by: Annotated[CostBy, typer.Option("--by", help="What the lines are.")] = CostBy.MODEL
    since: Annotated[
        date | None, typer.Option(parser=day, metavar="DATE", help="Only calls of this day (UTC) and later ones.")
    ] = None
    lab: Annotated[bool, typer.Option("--lab", help="Of backtests, which have a ledger and budgets of their own.")] = (
        False
    )
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


@app.command()
@spread(Options)
def costs(ctx: typer.Context, options: Options) -> None:
    """Add up what models cost, and say what is left of today's budgets."""
    now, config = SystemClock().now(), configured(ctx)
    if options.lab:
        bill = asyncio.run(bill_of_lab(config, options.by, options.since, now))
    else:
        bill = read(config, lambda records: bill_of(records, options.by, options.since, now))
    if options.as_json:
        emit(as_plain(bill))
    else:
        print_bill(stdout(), bill)


async def bill_of_lab(config: Config, by: CostBy, since: date | None, now: datetime) -> Bill:
    """Gather what backtests spent; raises NotFound where none of them asked a model yet."""
    folder = config.state / LAB_FOLDER
    if not (folder / LEDGER_FILE).exists():
        message = f"there is no ledger at {folder / LEDGER_FILE} yet; no backtest asked a model"
        raise NotFound(message)
    async with read_ledger(folder / LEDGER_FILE) as ledger:
        return await bill_of(Records(config=config, folder=folder, ledger=ledger), by, since, now)


async def bill_of(records: Records, by: CostBy, since: date | None, now: datetime) -> Bill:
    """Gather what was spent from a day on, and how things stand today."""
    ledger = records.ledger
    start = None if since is None else midnight(since)
    # A forecast may use several models on two days, but it is of one question: there each is counted once.
    rows = await ledger.calls.costs(by, since=start)
    return Bill(
        by=by,
        since=since,
        rows=tuple(rows),
        forecasts=sum(row.forecasts for row in await ledger.calls.costs(CostBy.QUESTION, since=start)),
        today=await today_of(records, now),
        losses=await losses(ledger.calls, since=start),
    )


async def today_of(records: Records, now: datetime) -> Today:
    """Gather what is left of today's budgets, and which models are not asked now."""
    spent = await records.ledger.calls.spent(since=midnight(now.astimezone(UTC).date()))
    return Today(
        left=tuple(budgets_left(records.config, spent)),
        demoted=tuple(await records.ledger.conducts.demotions(now=now)),
    )


def budgets_left(config: Config, spent: Sequence[Spent]) -> list[Left]:
    """Return today's budgets: that of all models, and those of providers that have one, with what was spent."""
    total = Left(what="all models", limit_usd=config.llm.budget.day_usd, spent_usd=sum(one.cost_usd for one in spent))
    providers = [
        Left(what=name, limit_usd=section.day_usd, spent_usd=sum(o.cost_usd for o in spent if o.provider == name))
        for name, section in sorted(config.llm.providers.items())
        if section.day_usd is not None
    ]
    return [total, *providers]


def midnight(on: date) -> datetime:
    """Return when a day begins in UTC."""
    return datetime.combine(on, time(), UTC)
