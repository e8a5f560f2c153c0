"""Rule changes: votes counted for a law, which draft is taken, rates that are set, days on which laws pass."""

from bot.simulator.world.question_templates import EventKind, QuestionTemplate, WalkParameters
from bot.simulator.world.questions import AnswerKind

_SUPPORT = WalkParameters(starts=(25.0, 40.0), sigma=1.5, drift=0.12)
_DRAFTS = WalkParameters(starts=(30.0, 33.0), sigma=1.1, pull=0.03)
_RATE = WalkParameters(starts=(1.5, 7.5), sigma=0.09, pull=0.01)
_TALLY = "the count of members of {body} of {land} who back the {law}"

TEMPLATES = (
    QuestionTemplate(
        form=AnswerKind.BINARY,
        kind=EventKind.REACHED,
        walk=_SUPPORT,
        mark=51.0,
        digits=0,
        unit="members",
        measure=_TALLY,
        title="[Will {body} of {land} pass|Does {body} of {land} pass] the {law} [by|before the end of] {date}?",
        background=(
            "The {law} [is before|lies with] {body} of {land}. It passes at once when {level} {unit} back it; "
            "[members change their minds|whips keep counting]."
        ),
        criteria="Resolves Yes as soon as {level} {unit} back the {law}, if that is by {date}.",
        event_phrase="passage of the {law} by {date}",
    ),
    QuestionTemplate(
        form=AnswerKind.CHOICE,
        kind=EventKind.FIELD,
        walk=_DRAFTS,
        shock=0.5,
        options=("the draft of {person1}", "the draft of {person2}", "the draft of {person3}"),
        title="Which draft of the {law} [will {body} of {land} adopt|is adopted by {body} of {land}] on {date}?",
        background=(
            "{person1}, {person2} and {person3} have each [tabled|written] a draft of the {law}. [One of them is to "
            "be adopted.|The strongest one is adopted.]"
        ),
        criteria="Resolves to the draft with most votes on {date}.",
        event_phrase="[adoption of {option}|a majority for {option}]",
    ),
    QuestionTemplate(
        form=AnswerKind.NUMBER,
        kind=EventKind.LEVEL,
        walk=_RATE,
        digits=2,
        unit="%",
        measure="the bank rate of {land}",
        title="What will the bank rate of {land} be on {date}?",
        background=(
            "The bank of {land} sets its rate [every day|each morning]. [Prices have been rising.|Prices have been "
            "falling.|Prices have been steady.]"
        ),
        criteria="Resolves to the rate on {date}, in {unit}.",
        event_phrase="the bank rate of {land}",
    ),
    QuestionTemplate(
        form=AnswerKind.BINARY,
        kind=EventKind.ABOVE,
        walk=_RATE,
        digits=2,
        unit="%",
        measure="the bank rate of {land}",
        title="Will the bank rate of {land} [be|stand] above {level} {unit} on {date}?",
        background=(
            "The bank of {land} sets its rate [every day|each morning]. [Its next head is unknown.|Its head has said "
            "little.]"
        ),
        criteria="Resolves Yes if the rate on {date} is above {level} {unit}.",
        event_phrase="a bank rate above {level} % in {land}",
    ),
    QuestionTemplate(
        form=AnswerKind.DATE,
        kind=EventKind.REACHED,
        walk=_SUPPORT,
        mark=51.0,
        digits=0,
        unit="members",
        measure=_TALLY,
        title="When will {body} of {land} [pass|adopt] the {law}?",
        background="The {law} [is before|lies with] {body} of {land}. It passes at once when {level} {unit} back it.",
        criteria="Resolves to the day on which {level} {unit} back the {law}, if that is by {date}.",
        event_phrase="passage of the {law} by {date}",
    ),
    QuestionTemplate(
        form=AnswerKind.BINARY,
        kind=EventKind.REACHED,
        walk=_SUPPORT,
        mark=51.0,
        digits=0,
        unit="members",
        heading="By when will {body} of {land} pass the {law}?",
        label="{date}",
        measure=_TALLY,
        title="Will {body} of {land} pass the {law} by {date}?",
        background="The {law} [is before|lies with] {body} of {land}. It passes at once when {level} {unit} back it.",
        criteria="Resolves Yes as soon as {level} {unit} back the {law}, if that is by {date}.",
        event_phrase="passage of the {law} by {date}",
    ),
    QuestionTemplate(
        form=AnswerKind.DATES,
        kind=EventKind.ABOVE,
        walk=_RATE,
        digits=3,
        unit="%",
        measure="the interbank rate of {land}",
        title="Will the interbank rate of {land}",
        background="[Banks of {land} lend to each other every day.|The rate between banks is found every day.]",
        criteria="Resolves by the published series.",
        event_phrase="a rise of the interbank rate of {land}",
    ),
)
