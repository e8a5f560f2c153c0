"""Temperatures and water: departures from the season's norm, classes of months, levels of lakes."""

from bot.simulator.world.question_templates import EventKind, QuestionTemplate, WalkParameters
from bot.simulator.world.questions import AnswerKind

_DEPARTURE = WalkParameters(starts=(-0.8, 0.8), sigma=0.9, pull=0.15)
_LAKE = WalkParameters(starts=(180.0, 260.0), sigma=2.0, drift=0.05)
_MEASURE = "the departure of the temperature in {town1} from the norm of the season"

TEMPLATES = (
    QuestionTemplate(
        form=AnswerKind.BINARY,
        kind=EventKind.ABOVE,
        walk=_DEPARTURE,
        unit="degrees",
        measure=_MEASURE,
        title=(
            "[Will it be|Is it going to be|Will {town1} be] more than {level} {unit} above the norm [in {town1}|at "
            "the station of {town1}] on {date}?"
        ),
        background=(
            "The station of {town1} [has measured|measures] since long ago. [Departures fade within two weeks.|Warm "
            "spells rarely last.]"
        ),
        criteria="Resolves Yes if the departure on {date} is above {level} {unit}; below the norm counts as negative.",
        event_phrase="a departure above {level} degrees in {town1}",
    ),
    QuestionTemplate(
        form=AnswerKind.CHOICE,
        kind=EventKind.BANDS,
        walk=_DEPARTURE,
        shock=0.3,
        options=("colder than usual", "about as usual", "warmer than usual"),
        title="[How warm will {date} be|What will the weather of {date} be like] in {town1}?",
        background=(
            "The office of {town1} [puts each day|sorts days] into three classes. [The classes are those of its "
            "yearbook.|Each class has its own page in the yearbook.]"
        ),
        criteria="Resolves to the class that the office gives to {date}.",
        event_phrase="a class",
    ),
    QuestionTemplate(
        form=AnswerKind.NUMBER,
        kind=EventKind.LEVEL,
        walk=_DEPARTURE,
        digits=2,
        unit="degrees",
        measure=_MEASURE,
        title="How far from the norm will [the temperature|it] be in {town1} on {date}?",
        background="The station of {town1} [reports|tells] by how much each day departs from its season.",
        criteria="Resolves to the departure on {date}, in {unit}.",
        event_phrase="the departure of the temperature in {town1}",
    ),
    QuestionTemplate(
        form=AnswerKind.DATE,
        kind=EventKind.REACHED,
        walk=_LAKE,
        unit="centimetres",
        measure="the level of the lake at {town2}",
        title="When will the lake at {town2} [rise to|stand at] {level} {unit}?",
        background="[Snow melts above {town2}.|It has rained above {town2}.] The harbour closes at {level} {unit}.",
        criteria="Resolves to the day on which the gauge first shows {level} {unit}, if that is by {date}.",
        event_phrase="a level of {level} centimetres at {town2} by {date}",
    ),
    QuestionTemplate(
        form=AnswerKind.BINARY,
        kind=EventKind.REACHED,
        walk=_LAKE,
        unit="centimetres",
        heading="By when will the lake at {town3} [rise to|reach] {level} {unit}?",
        label="{date}",
        measure="the level of the lake at {town3}",
        title="Will the lake at {town3} [reach|rise to] {level} {unit} by {date}?",
        background=(
            "[Snow melts above {town3}.|It has rained above {town3}.] The quay is under water from {level} {unit}."
        ),
        criteria="Resolves Yes as soon as the gauge shows {level} {unit}, if that is by {date}.",
        event_phrase="a level of {level} centimetres at {town3} by {date}",
    ),
    QuestionTemplate(
        form=AnswerKind.DATES,
        kind=EventKind.ABOVE,
        walk=WalkParameters(starts=(6.0, 16.0), sigma=0.7, pull=0.06),
        digits=2,
        unit="degrees",
        measure="the temperature of the deep water off {town4}",
        title="Will the temperature of the deep water off {town4}",
        background="[A buoy off {town4} measures every day.|The deep water off {town4} is measured every day.]",
        criteria="Resolves by the published series.",
        event_phrase="a rise of the temperature of the water off {town4}",
    ),
)
