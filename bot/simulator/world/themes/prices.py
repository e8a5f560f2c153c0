"""Prices: closes above a level, levels touched, ranges, values, and several levels at once."""

from bot.simulator.world.question_templates import EventKind, QuestionTemplate, WalkParameters
from bot.simulator.world.questions import AnswerKind

_PRICE = WalkParameters(starts=(15.0, 400.0), sigma=0.022, geometric=True)
_MEASURE = "the closing price of {good} in {town1}"
_SETTING = (
    "[{good} is traded in {town1}|{town1} has a market in {good}] [every day|seven days a week]. [Stocks are "
    "low.|Harvests differ.|Buyers have been hesitant.]"
)

TEMPLATES = (
    QuestionTemplate(
        form=AnswerKind.BINARY,
        kind=EventKind.ABOVE,
        walk=_PRICE,
        unit="crowns",
        measure=_MEASURE,
        title=(
            "[Will {good} close|Does {good} close|Is {good} going to close] above {level} {unit} in {town1} on {date}?"
        ),
        background=_SETTING,
        criteria="Resolves Yes if the closing price on {date} is above {level} {unit} [per sack|per crate].",
        event_phrase="a close of {good} above {level} crowns",
    ),
    QuestionTemplate(
        form=AnswerKind.BINARY,
        kind=EventKind.REACHED,
        walk=_PRICE,
        unit="crowns",
        measure=_MEASURE,
        title="Will the price of {good} in {town1} [touch|reach|hit] {level} {unit} [by|before the end of] {date}?",
        background=_SETTING,
        criteria="Resolves Yes as soon as {good} [trades at|costs] {level} {unit} or more, if that is by {date}.",
        event_phrase="a price of {level} crowns for {good} by {date}",
    ),
    QuestionTemplate(
        form=AnswerKind.CHOICE,
        kind=EventKind.BANDS,
        walk=_PRICE,
        unit="crowns",
        measure=_MEASURE,
        title="[In which range|Where] will {good} close in {town1} on {date}?",
        background=_SETTING,
        criteria=(
            "Resolves to the range of the closing price on {date}, in {unit}; [a limit belongs|limits belong] to the "
            "range below."
        ),
        event_phrase="a close of {good}",
    ),
    QuestionTemplate(
        form=AnswerKind.NUMBER,
        kind=EventKind.LEVEL,
        walk=_PRICE,
        unit="crowns",
        measure=_MEASURE,
        title=(
            "[At what price will {good} close|What will {good} cost|What is the close of {good}] in {town1} on {date}?"
        ),
        background=_SETTING,
        criteria="Resolves to the closing price on {date}, in {unit}.",
        event_phrase="the price of {good} in {town1}",
    ),
    QuestionTemplate(
        form=AnswerKind.BINARY,
        kind=EventKind.ABOVE,
        walk=_PRICE,
        unit="crowns",
        heading="[Which prices will {good} exceed|How high will {good} stand] in {town1} on {date}?",
        label="Above {level}",
        measure=_MEASURE,
        title="Will {good} close above {level} {unit} in {town1} on {date}?",
        background=_SETTING,
        criteria="Resolves Yes if the closing price on {date} is above {level} {unit}.",
        event_phrase="a close of {good} above {level} crowns",
    ),
    QuestionTemplate(
        form=AnswerKind.DATE,
        kind=EventKind.REACHED,
        walk=_PRICE,
        unit="crowns",
        measure=_MEASURE,
        title="When will {good} [first cost|reach] {level} {unit} in {town1}?",
        background=_SETTING,
        criteria="Resolves to the day on which {good} first trades at {level} {unit}, if that is by {date}.",
        event_phrase="a price of {level} crowns for {good} by {date}",
    ),
    QuestionTemplate(
        form=AnswerKind.DATES,
        kind=EventKind.ABOVE,
        walk=_PRICE,
        digits=3,
        unit="crowns",
        measure="the closing price of {good} in {land}",
        title="Will the closing price of {good} in {land}",
        background="[{good} is traded every day.|There is a daily close of {good}.]",
        criteria="Resolves by the published series.",
        event_phrase="a rise of the price of {good} in {land}",
    ),
)
