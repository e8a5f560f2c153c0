"""Prices: closes above a level, levels touched, ranges, values, and several levels at once."""

from bot.testing.world.ask import Form
from bot.testing.world.plots import Kind, Motion, Plot

_PRICE = Motion(starts=(15.0, 400.0), sigma=0.022, geometric=True)
_MEASURE = "the closing price of {good} in {town1}"
_SETTING = (
    "[{good} is traded in {town1}|{town1} has a market in {good}] [every day|seven days a week]. [Stocks are "
    "low.|Harvests differ.|Buyers have been hesitant.]"
)

PLOTS = (
    Plot(
        form=Form.BINARY,
        kind=Kind.ABOVE,
        motion=_PRICE,
        unit="crowns",
        measure=_MEASURE,
        title=(
            "[Will {good} close|Does {good} close|Is {good} going to close] above {level} {unit} in {town1} on {date}?"
        ),
        background=_SETTING,
        criteria="Resolves Yes if the closing price on {date} is above {level} {unit} [per sack|per crate].",
        happening="a close of {good} above {level} crowns",
    ),
    Plot(
        form=Form.BINARY,
        kind=Kind.REACHED,
        motion=_PRICE,
        unit="crowns",
        measure=_MEASURE,
        title="Will the price of {good} in {town1} [touch|reach|hit] {level} {unit} [by|before the end of] {date}?",
        background=_SETTING,
        criteria="Resolves Yes as soon as {good} [trades at|costs] {level} {unit} or more, if that is by {date}.",
        happening="a price of {level} crowns for {good} by {date}",
    ),
    Plot(
        form=Form.CHOICE,
        kind=Kind.BANDS,
        motion=_PRICE,
        unit="crowns",
        measure=_MEASURE,
        title="[In which range|Where] will {good} close in {town1} on {date}?",
        background=_SETTING,
        criteria=(
            "Resolves to the range of the closing price on {date}, in {unit}; [a limit belongs|limits belong] to the "
            "range below."
        ),
        happening="a close of {good}",
    ),
    Plot(
        form=Form.NUMBER,
        kind=Kind.LEVEL,
        motion=_PRICE,
        unit="crowns",
        measure=_MEASURE,
        title=(
            "[At what price will {good} close|What will {good} cost|What is the close of {good}] in {town1} on {date}?"
        ),
        background=_SETTING,
        criteria="Resolves to the closing price on {date}, in {unit}.",
        happening="the price of {good} in {town1}",
    ),
    Plot(
        form=Form.BINARY,
        kind=Kind.ABOVE,
        motion=_PRICE,
        unit="crowns",
        heading="[Which prices will {good} exceed|How high will {good} stand] in {town1} on {date}?",
        label="Above {level}",
        measure=_MEASURE,
        title="Will {good} close above {level} {unit} in {town1} on {date}?",
        background=_SETTING,
        criteria="Resolves Yes if the closing price on {date} is above {level} {unit}.",
        happening="a close of {good} above {level} crowns",
    ),
    Plot(
        form=Form.DATE,
        kind=Kind.REACHED,
        motion=_PRICE,
        unit="crowns",
        measure=_MEASURE,
        title="When will {good} [first cost|reach] {level} {unit} in {town1}?",
        background=_SETTING,
        criteria="Resolves to the day on which {good} first trades at {level} {unit}, if that is by {date}.",
        happening="a price of {level} crowns for {good} by {date}",
    ),
    Plot(
        form=Form.DATES,
        kind=Kind.ABOVE,
        motion=_PRICE,
        digits=3,
        unit="crowns",
        measure="the closing price of {good} in {land}",
        title="Will the closing price of {good} in {land}",
        background="[{good} is traded every day.|There is a daily close of {good}.]",
        criteria="Resolves by the published series.",
        happening="a rise of the price of {good} in {land}",
    ),
)
