"""Elections: leads in the polls with the polls' error on the day, fields of candidates, turnout, resignations."""

from bot.simulator.world.question_templates import EventKind, QuestionTemplate, WalkParameters
from bot.simulator.world.questions import AnswerKind

_LEAD = WalkParameters(starts=(-4.0, 4.0), sigma=0.75)
_STANDING = WalkParameters(starts=(18.0, 26.0), sigma=1.1, pull=0.03)
_TURNOUT = WalkParameters(starts=(48.0, 74.0), sigma=0.7, pull=0.04)
_PRESSURE = WalkParameters(starts=(20.0, 35.0), sigma=2.2, drift=0.15)

TEMPLATES = (
    QuestionTemplate(
        form=AnswerKind.BINARY,
        kind=EventKind.ABOVE,
        walk=_LEAD,
        mark=0.0,
        shock=0.5,
        unit="points",
        measure="the lead of {person1} over {person2} in an average of polls",
        title=(
            "[Will {person1} win|Is {person1} going to win|Does {person1} win] the {office} of {land} [on|at the "
            "vote of] {date}?"
        ),
        background=(
            "{person1} and {person2} are [the only candidates|in the run-off] for the {office} of {land}. [Pollsters "
            "have been off by a few points before.|Polls in {land} err by some points either way.]"
        ),
        criteria=(
            "Resolves Yes if {person1} gets more votes than {person2} on {date}, [by the count of the electoral "
            "office|as the electoral office declares it]."
        ),
        event_phrase="[a victory for {person1}|a win by {person1}]",
    ),
    QuestionTemplate(
        form=AnswerKind.CHOICE,
        kind=EventKind.FIELD,
        walk=_STANDING,
        shock=0.5,
        options=("{person1}", "{person2}", "{person3}", "{person4}"),
        title="Who [will win|is going to win|wins] the {office} of {land} [on|in the vote on] {date}?",
        background=(
            "Four [candidates|names] are on the ballot in {land}: {person1}, {person2}, {person3} and {person4}. "
            "[Whoever has most votes wins at once.|There is one round only.]"
        ),
        criteria=(
            "Resolves to the candidate with [most|the highest number of] votes on {date}, by the electoral office of "
            "{land}."
        ),
        event_phrase="[a victory for {option}|a win by {option}]",
    ),
    QuestionTemplate(
        form=AnswerKind.NUMBER,
        kind=EventKind.LEVEL,
        walk=_TURNOUT,
        unit="%",
        measure="the share of people in {land} who say that they will vote",
        title=(
            "What [will be the turnout|share of voters will turn out|will turnout be] [on {date} in {land}|in the "
            "vote in {land} on {date}]?"
        ),
        background=(
            "{land} votes on {date}. [Turnout has followed what people say beforehand.|What people say beforehand "
            "has been a good guide.]"
        ),
        criteria="Resolves to the value of the [published|daily] share on {date}, in {unit}.",
        event_phrase="the turnout in {land}",
    ),
    QuestionTemplate(
        form=AnswerKind.DATE,
        kind=EventKind.REACHED,
        walk=_PRESSURE,
        mark=100.0,
        unit="signatures per thousand voters",
        measure="the tally of signatures for a recall of {person1}",
        title=(
            "When [will the petition to recall {person1} succeed|does {person1} face a recall] [in {land}|in the "
            "courts of {land}]?"
        ),
        background=(
            "A petition [asks for|demands] the recall of {person1}. It succeeds with {level} {unit}, and [signatures "
            "can be withdrawn|some withdraw theirs]."
        ),
        criteria="Resolves to the [day|date] on which the tally first reaches {level} {unit}, if that is by {date}.",
        event_phrase="a recall of {person1} by {date}",
    ),
    QuestionTemplate(
        form=AnswerKind.BINARY,
        kind=EventKind.ABOVE,
        walk=_TURNOUT,
        unit="%",
        heading="[How high will turnout be|Which turnout will be exceeded] in {land} on {date}?",
        label="More than {level} %",
        measure="the share of people in {land} who say that they will vote",
        title="Will turnout in {land} on {date} be above {level} {unit}?",
        background=(
            "{land} votes on {date}. [Turnout has followed what people say beforehand.|Rain is said to keep voters "
            "at home.]"
        ),
        criteria="Resolves Yes if the published share is above {level} {unit} on {date}.",
        event_phrase="a turnout above {level} % in {land}",
    ),
    QuestionTemplate(
        form=AnswerKind.DATES,
        kind=EventKind.ABOVE,
        walk=WalkParameters(starts=(30.0, 60.0), sigma=0.5, pull=0.01),
        digits=2,
        unit="%",
        measure="the approval of the government of {land}",
        title="Will the approval of the government of {land}",
        background="[A daily survey asks about the government of {land}.|Approval in {land} is asked for every day.]",
        criteria="Resolves by the published series.",
        event_phrase="a rise of the approval of the government of {land}",
    ),
)
