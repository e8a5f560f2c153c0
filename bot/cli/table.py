"""Which commands there are: the module behind each name, and its line in ``foxcast --help``."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: its module, its summary (the first line of its own help), and its app's name in the module."""

    module: str
    summary: str
    app: str = "app"


COMMANDS: dict[str, Entry] = {
    "run": Entry("bot.cli.run", "Find questions, forecast, submit, resolve and score: for ever, or once."),
    "demo": Entry("bot.cli.demo", "Show everything at work in a simulated world: no keys, no network, nothing real."),
    "status": Entry("bot.cli.status", "Say how things stand: modes, heartbeat, failed trials, counts, last runs."),
    "questions": Entry("bot.cli.questions", "List questions, soonest close first."),
    "show": Entry("bot.cli.show", "Show one question: forecasts, every change of mind, decision, outcome, score."),
    "explain": Entry(
        "bot.cli.explain", "Explain one forecast: every step, what it rests on and costs, and the answer."
    ),
    "diff": Entry("bot.cli.diff", "Compare two forecasts of a question: what was known, believed, searched and paid."),
    "replay": Entry("bot.cli.replay", "Run a forecast again on what is on record, offline, and compare every step."),
    "costs": Entry("bot.cli.costs", "Add up what models cost, and say what is left of today's budgets."),
    "forecast": Entry("bot.cli.forecast", "Forecast one question now, and show every step."),
    "score": Entry("bot.cli.score", "Score what has resolved, or forecast files written by anyone."),
    "backtest": Entry("bot.cli.backtest", "Forecast past rounds with only what was known then, and score that."),
    "leaks": Entry("bot.cli.leaks", "Check everything that forecasts read for knowledge of the future."),
    "lab": Entry("bot.cli.lab", "Experiments that need no network and no key."),
    "fit": Entry("bot.cli.fit", "Let a forecaster learn from outcomes known before a date."),
    "lock": Entry("bot.cli.lock", "Leave a question alone: no forecast, no submission.", "locking"),
    "unlock": Entry("bot.cli.lock", "Take a lock off a question.", "unlocking"),
    "locks": Entry("bot.cli.lock", "List the locks that hold now, with their reasons.", "listing"),
    "portfolio": Entry(
        "bot.cli.portfolio", "Show what each account has and gained, on paper and live, per market and forecaster."
    ),
    "orders": Entry("bot.cli.orders", "List what was to leave, what became of it, and what was filled."),
    "close": Entry("bot.cli.close", "Sell what is held of a question, or everything, whatever the belief."),
    "withdraw": Entry("bot.cli.withdraw", "Take back the forecast of a question that stands at its venue."),
    "preflight": Entry("bot.cli.preflight", "Show what would leave to a venue now, and why all else would not."),
    "arm": Entry(
        "bot.cli.arm",
        "Give leave to submit to a venue, for a time and up to amounts; a change of what leaves ends it.",
        "arming",
    ),
    "disarm": Entry("bot.cli.arm", "Take back leave to submit to a venue.", "disarming"),
    "approvals": Entry("bot.cli.approvals", "List what waits for a person's approval, and why.", "listing"),
    "approve": Entry(
        "bot.cli.approvals",
        "Let a forecast leave that waits for it, up to the cost and price that were shown.",
        "approving",
    ),
    "reject": Entry("bot.cli.approvals", "Keep a forecast from leaving that waits for approval.", "rejecting"),
    "halt": Entry(
        "bot.cli.halt",
        "Let nothing leave any more, and take back the orders that rest at venues. Open to all.",
        "halting",
    ),
    "resume": Entry(
        "bot.cli.halt",
        "End what was halted by people or stopped itself; losses are counted anew from here on.",
        "resuming",
    ),
    "audit": Entry("bot.cli.audit", "Look at the record of what was let go, and verify it."),
    "principal": Entry("bot.cli.principal", "Say who may do what, and give them tokens."),
    "plugins": Entry("bot.cli.plugins", "List plugins: what they offer, which are enabled, and what is broken."),
    "config": Entry("bot.cli.config", "Look at the configuration."),
    "doctor": Entry("bot.cli.doctor", "Check this installation and say what to do."),
    "db": Entry("bot.cli.db", "Check, back up, restore or export the ledger."),
}
