"""Mistakes that authors of a venue make, planted one by one into what `foxcast new venue` writes: its kits name each.

They are those of people who know Kalshi, PredictIt, Smarkets or Betfair: units, sides, fees, states, cursors. One
process of pytest runs, for each, the one check that must fail.
"""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest

from bot.cli.new import PluginKind, render_package, write_package

ROOT = Path(__file__).resolve().parents[2]
LISTED, PRICES, DETAILS, OUTCOMES = (
    f"test_reading.py::TestList::test_{name}"
    for name in (
        "all_expected_questions_are_listed_and_no_others",
        "prices_are_those_of_the_page",
        "details_are_those_of_the_page",
        "outcomes_are_those_of_the_page",
    )
)
PLANNER, PAPER, WRITER = (f"test_trading.py::Test{name}::test_" for name in ("Planner", "PaperBook", "Writer"))
FILLS = "each_trade_is_filled_at_its_price_for_its_fee"
ACCOUNT = "each_trade_moves_the_cash_and_shares_of_the_account"
POSITIONS = "positions_show_what_they_cost_and_what_they_would_bring"
UNMET = "a_limit_that_nobody_meets_trades_nothing"
FEES, STEPS = "fees_are_those_of_the_venue", "prices_and_shares_are_those_that_the_venue_takes"
UNTRADABLE = "what_cannot_be_traded_is_not_ordered"


class PlantedMistake(NamedTuple):
    """A text of a module that is replaced, the check that fails, and words of its message."""

    name: str
    module: str
    before: str
    after: str
    check: str
    words: str


MISTAKES = [
    PlantedMistake(
        "the price that sellers ask is the probability",
        "reader",
        "(record.bid + record.ask) / 200",
        "record.ask / 100",
        PRICES,
        "the crowd's price is 0.62, expected 0.6",
    ),
    PlantedMistake(
        "a market that is wide apart has a price",
        "reader",
        " or record.ask - record.bid > 100 * max_spread",
        "",
        PRICES,
        "expected None. Is its price read, and only where there is one?",
    ),
    PlantedMistake(
        "the rules are left out", "reader", "criteria=record.rules", 'criteria=""', DETAILS, "into Question.criteria"
    ),
    PlantedMistake(
        "every market is an event of its own",
        "reader",
        "event=record.event",
        "event=record.id",
        "test_reading.py::TestList::test_events_are_named_so_that_their_cap_binds",
        "the cap of an event never binds",
    ),
    PlantedMistake(
        "the category is left out",
        "reader",
        "            category=record.category,\n",
        "",
        DETAILS,
        "the cap of that name never binds",
    ),
    PlantedMistake(
        "times of New York are read as UTC",
        "reader",
        "            closes_at=record.closes_at,\n",
        "            closes_at=record.closes_at.replace(hour=5),\n",
        "test_reading.py::TestList::test_closing_times_are_those_of_the_page",
        "+5 hours off",
    ),
    PlantedMistake(
        "an outcome is known when trading was to end",
        "reader",
        "record.resolved_at or self._clock.now()",
        "record.closes_at",
        OUTCOMES,
        "since when the outcome is known",
    ),
    PlantedMistake(
        "a provisional result is final",
        "reader",
        'case "resolved", "yes":',
        'case "resolved" | "closed", "yes":',
        OUTCOMES,
        "Is an open question taken for resolved?",
    ),
    PlantedMistake(
        "what is over but not closed yet is listed",
        "reader",
        'if record.status == "open" and record.closes_at > self._clock.now():',
        'if record.status == "open":',
        LISTED,
        "Leave out questions that are closed",
    ),
    PlantedMistake(
        "the cursor counts pages, and the venue counts records",
        "client",
        "            cursor = page.next\n",
        "            cursor = str(int(page.next) + self._settings.page_size)\n",
        LISTED,
        "with the cursor of the last one",
    ),
    PlantedMistake(
        "the title is the key",
        "reader",
        "ref=QuestionRef(VENUE, record.id)",
        "ref=QuestionRef(VENUE, record.title)",
        LISTED,
        "the venue's own id of the question",
    ),
    PlantedMistake(
        "an outage is no outcome",
        "reader",
        "except (NotFoundError, MalformedDataError) as error:",
        "except Exception as error:",
        "test_reading.py::TestList::test_an_outage_is_not_taken_for_open_questions",
        "an outage looks as if nothing were resolved",
    ),
    PlantedMistake(
        "the fee is one of the gain",
        "order_book",
        'price * Decimal("0.01")',
        'price * (1 - price) * Decimal("0.01")',
        PLANNER + FEES,
        "look at its rate, and at what it is a share of",
    ),
    PlantedMistake(
        "the book is one of NO",
        "order_book",
        """        bids=[(cents * CENT, Decimal(shares)) for cents, shares in reply.bids],
        asks=[(cents * CENT, Decimal(shares)) for cents, shares in reply.asks],
""",
        """        bids=[(1 - cents * CENT, Decimal(shares)) for cents, shares in reply.asks],
        asks=[(1 - cents * CENT, Decimal(shares)) for cents, shares in reply.bids],
""",
        PLANNER + "the_expected_price_is_one_that_others_ask",
        "a buyer of YES pays what others ask",
    ),
    PlantedMistake(
        "fractions of a share are ordered",
        "planner",
        "lot=ONE_SHARE",
        'lot=Decimal("0.01")',
        PLANNER + STEPS,
        "not a multiple of 1: the venue refuses it",
    ),
    PlantedMistake(
        "a closed market is traded",
        "planner",
        'objection="" if is_open else "the market is not open"',
        'objection=""',
        PLANNER + UNTRADABLE,
        "look at the state of the market",
    ),
    PlantedMistake(
        "the largest spread is in percent",
        "planner",
        "Decimal(str(settings.max_spread))",
        "Decimal(str(100 * settings.max_spread))",
        PLANNER + UNTRADABLE,
        "dust-mon: it is among `refused_proposals`",
    ),
    PlantedMistake(
        "the paper book redeems pairs, and the venue does not",
        "paper",
        "PaperBookTerms(currency=CURRENCY)",
        "PaperBookTerms(currency=CURRENCY, redeems=True)",
        PAPER + ACCOUNT,
        "pays 1 at once only where the venue redeems",
    ),
    PlantedMistake(
        "on paper a loser is paid",
        "paper",
        "OrderBookPaperMarket(read, context.clock)",
        "OrderBookPaperMarket(read, context.clock, payout=lambda position, outcome: 1.0)",
        PAPER + "the_side_that_came_true_is_paid",
        "is the wrong side paid?",
    ),
    PlantedMistake(
        "buying NO sells YES",
        "writer",
        '(OrderSide.BUY, ContractSide.NO): {"action": "buy", "outcome": "no"}',
        '(OrderSide.BUY, ContractSide.NO): {"action": "sell", "outcome": "yes"}',
        WRITER + FILLS,
        "the venue accepts buy 20 no of rain-fri at 0.42, but submit says refused: status 400: not enough shares",
    ),
    PlantedMistake(
        "NO is ordered at the price of YES",
        "writer",
        "round(100 * order.limit)",
        "round(100 * (order.limit if order.leg is ContractSide.YES else 1 - order.limit))",
        WRITER + UNMET,
        "whether it is the price of the other side",
    ),
    PlantedMistake(
        "money is ordered, and not shares",
        "writer",
        '"shares": round(order.shares)',
        '"shares": round(order.cost)',
        WRITER + FILLS,
        "that is the money in whole units, and not the shares",
    ),
    PlantedMistake(
        "orders allow for slippage",
        "writer",
        "round(100 * order.limit)",
        "round(100 * order.limit) + (3 if order.side is OrderSide.BUY else -3)",
        WRITER + UNMET,
        "its request names another limit",
    ),
    PlantedMistake(
        "a sale takes cash",
        "writer",
        'sign = -1 if record.action == "buy" else 1',
        "sign = -1",
        WRITER + FILLS,
        "it moved the wrong way",
    ),
    PlantedMistake(
        "the fee is added to the cash", "writer", "/ 100 - one.fee", "/ 100 + one.fee", WRITER + FILLS, "fee was added"
    ),
    PlantedMistake(
        "the fee of a fill is not reported",
        "writer",
        "            fee=one.fee,\n",
        "",
        WRITER + FILLS,
        "the fee is forgotten",
    ),
    PlantedMistake(
        "prices of fills are in cents",
        "writer",
        "price=one.cents / 100",
        "price=one.cents",
        WRITER + FILLS,
        "it is in cents",
    ),
    PlantedMistake(
        "the cash of the account was divided by 100 twice",
        "writer",
        "cash=found.cash",
        "cash=found.cash / 100",
        WRITER + ACCOUNT,
        "it was divided by 100 twice",
    ),
    PlantedMistake(
        "every position is one of YES",
        "writer",
        "leg = ContractSide(one.outcome)",
        "leg = ContractSide.YES",
        WRITER + ACCOUNT,
        "the account shows +10 of yes of rain-fri, expected +20 of no",
    ),
    PlantedMistake(
        "a position shows the cost of one share",
        "writer",
        "paid=one.paid",
        "paid=one.paid / one.shares",
        WRITER + POSITIONS,
        "paid is of all shares",
    ),
    PlantedMistake(
        "NO is marked at the bid for YES",
        "writer",
        "sale_price(leg, one.shares)",
        "sale_price(ContractSide.YES, one.shares)",
        WRITER + POSITIONS,
        "Position.mark is 0.58, expected 0.38",
    ),
    PlantedMistake(
        "an error of a gateway is a refusal",
        "writer",
        """    if (verdict := verdict_by_status(reply, taken=201)) is not None:
        return verdict
""",
        """    if reply.status == 201:
        return WriteVerdict(state=IntentState.ACKED, detail="")
""",
        WRITER + "an_error_of_a_server_in_between_is_a_doubt",
        "an order that took effect would be made again",
    ),
    PlantedMistake(
        "orders are looked for on the first page",
        "client",
        "            if not page.next:\n                return tuple",
        "            if page.orders or not page.next:\n                return tuple",
        WRITER + "what_was_acknowledged_is_found_by_its_request_after_a_restart",
        "on all pages, and not in memory",
    ),
    PlantedMistake(
        "the fence is before the end of the order",
        "writer",
        "fence=expires_at + SETTLEMENT_DELAY",
        "fence=expires_at - timedelta(seconds=50)",
        WRITER + "past_its_fence_a_request_has_no_effect",
        "after its fence",
    ),
    PlantedMistake(
        "the question is shown as it was",
        "writer",
        "reading = await self._reader.find_question(question.ref.key)",
        "reading = question",
        WRITER + "a_question_that_was_edited_is_shown_as_it_is_now",
        "as it was before the edit",
    ),
    PlantedMistake(
        "half is paid for what was cancelled",
        "writer",
        "return pay_winning_side(position, outcome)",
        'return 0.5 if hasattr(outcome, "reason") else pay_winning_side(position, outcome)',
        WRITER + "what_the_venue_cancelled_wins_for_no_side",
        "is void, and payout_per_share pays 0.5",
    ),
]

pytestmark = [pytest.mark.xdist_group("new packages"), pytest.mark.timeout(180)]


def plant_mistake(mistake: PlantedMistake, folder: Path, name: str) -> None:
    """Write a package that has the mistake."""
    write_package(render_package(PluginKind.VENUE, name), folder)
    path = folder / "src" / f"foxcast_{name}" / f"{mistake.module}.py"
    text = path.read_text()
    assert text.count(mistake.before) == 1, f"{mistake.name}: {mistake.module}.py has not once {mistake.before!r}"
    path.write_text(text.replace(mistake.before, mistake.after))


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The failure of each mistake, "" where its check passed."""
    folder = tmp_path_factory.mktemp("planted")
    names = [f"kelp{number}" for number in range(len(MISTAKES))]
    for mistake, name in zip(MISTAKES, names, strict=True):
        plant_mistake(mistake, folder / name, name)
    report = folder / "report.xml"
    sources = [str(folder / name / "src") for name in names]
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--import-mode=importlib"),
            *("-o", "asyncio_mode=auto", f"--junitxml={report}", "--rootdir", folder),
            *(folder / name / "tests" / mistake.check for mistake, name in zip(MISTAKES, names, strict=True)),
        ],
        cwd=folder,
        # The mock venue does not depend on the name of the package.
        env={"PYTHONPATH": ":".join([str(ROOT), str(folder / names[0] / "tests"), *sources]), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    cases = list(ET.parse(report).iter("testcase"))  # noqa: S314 - written by pytest here
    found = {case.get("classname", "").split(".")[0]: case.find("failure") for case in cases}
    assert found.keys() == set(names), done.stdout
    failures = [found[name] for name in names]
    return ["" if failure is None else failure.get("message", "") for failure in failures]


@pytest.mark.parametrize("number", range(len(MISTAKES)), ids=[mistake.name for mistake in MISTAKES])
def test_a_planted_mistake_is_named(messages: list[str], number: int) -> None:
    assert MISTAKES[number].words in " ".join(messages[number].split())
