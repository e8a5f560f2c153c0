"""``foxcast backtest``: what a forecaster would have scored on past rounds."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Annotated

import typer

from bot.app import Bay, archive_of, open_bay, school_of
from bot.cli.agree import agree
from bot.cli.interrupt import interruptible
from bot.cli.options import ROUNDS_HELP, VENUE_HELP, day, spread
from bot.cli.output.console import progress, stdout
from bot.cli.output.deliver import STDOUT, deliver
from bot.cli.output.report import print_report
from bot.cli.session import equipped
from bot.clock import SeededRandom, SystemClock
from bot.config.model import Config
from bot.domain.learning import Fitted, Round
from bot.errors import NotFound
from bot.jobs.learn import best_known
from bot.lab.backtest import Subject, Window
from bot.lab.backtest import backtest as tested
from bot.lab.report import report_of
from bot.lab.rows import Row
from bot.ports import Archive
from bot.registry import Registry

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is tested on what."""

    forecaster: Annotated[str, typer.Option(metavar="NAME", help="The forecaster, with its settings of config.toml.")]
    rounds: Annotated[Path, typer.Option(metavar="DIR", help=ROUNDS_HELP)]
    first: Annotated[
        date | None, typer.Option("--from", parser=day, metavar="DATE", help="Leave out earlier rounds.")
    ] = None
    last: Annotated[date | None, typer.Option("--to", parser=day, metavar="DATE", help="Leave out later rounds.")] = (
        None
    )
    venue: Annotated[str | None, typer.Option(metavar="NAME", help=VENUE_HELP)] = None
    run: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The experiment, for forecasters that ask models: the same name goes on where it was; "
            "a new one asks anew what no model has answered word for word.",
        ),
    ] = ""
    yes: Annotated[bool, typer.Option("--yes", help="Agree to what it is expected to cost.")] = False
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as JSON; - is stdout.")] = None


@app.command()
@spread(Options)
def backtest(ctx: typer.Context, options: Options) -> None:
    """Forecast past rounds with only what was known then, and score that."""
    config, registry = equipped(ctx)
    venue, archive = archive_of(config, registry, options.venue, options.rounds)
    random = SeededRandom(config.seed)
    with interruptible():
        rows = asyncio.run(_rows(_Test(config, registry, archive, random), options))
    if not rows:
        message = f"{options.rounds} has no round with outcomes in that window"
        raise NotFound(message)
    report = report_of(rows, rng=random.stream("report"))
    if options.json is not None:
        deliver({"forecaster": options.forecaster, "venue": venue, **report.to_json()}, options.json)
    if options.json != STDOUT:
        print_report(stdout(), report, title=f"{options.forecaster} on {len(report.by_round)} rounds of {venue}")


@dataclass(frozen=True, slots=True)
class _Test:
    config: Config
    registry: Registry
    archive: Archive
    random: SeededRandom

    def subject(self, bay: Bay, run: str) -> Subject:
        return Subject(
            seat=bay.seat,
            learn=self._learner(bay.seat.name),
            benches=bay.workshop,
            places=self.config.daemon.concurrency if bay.seat.asks else 1,
            run=run,
        )

    def _learner(self, name: str) -> Callable[[Round], Fitted | None]:
        school = school_of(self.config, self.registry, name)
        known: dict[datetime, Fitted | None] = {}

        def learn(a_round: Round) -> Fitted | None:
            if a_round.as_of not in known:
                known[a_round.as_of] = best_known(name, school, [self.archive], before=a_round.as_of)
            return known[a_round.as_of]

        return learn


def _size(archive: Archive, window: Window) -> int:
    return sum(len(a_round.questions) for a_round in map(archive.round, archive.rounds()) if window.holds(a_round))


async def _rows(test: _Test, options: Options) -> list[Row]:
    window = Window(first=options.first, last=options.last)
    keys = test.archive.rounds()
    async with open_bay(test.config, test.registry, options.forecaster, clock=SystemClock()) as bay:
        await agree(
            bay,
            _size(test.archive, window) if bay.seat.asks else 0,
            yes=options.yes,
            above_usd=test.config.llm.budget.ask_above_usd,
        )
        with progress() as bars:
            task = bars.add_task("rounds", total=len(keys))
            return await tested(
                test.archive,
                test.subject(bay, options.run),
                window,
                random=test.random,
                progress=lambda key: bars.update(task, completed=keys.index(key) + 1, description=f"round {key}"),
            )
