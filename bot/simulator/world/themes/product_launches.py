"""Product launches: milestones on the way, who is first in the shops, orders placed, days on which things ship."""

from bot.simulator.world.question_templates import EventKind, QuestionTemplate, WalkParameters
from bot.simulator.world.questions import AnswerKind

_MILESTONES = WalkParameters(starts=(30.0, 60.0), sigma=1.6, drift=0.25)
_DEMAND = WalkParameters(starts=(20.0, 90.0), sigma=0.03, geometric=True)
_RACE = WalkParameters(starts=(40.0, 44.0), sigma=1.2, pull=0.03)

TEMPLATES = (
    QuestionTemplate(
        form=AnswerKind.BINARY,
        kind=EventKind.REACHED,
        walk=_MILESTONES,
        mark=100.0,
        unit="%",
        measure="the share of milestones of {product} that {firm1} reports as done",
        title=(
            "[Will {firm1} ship|Will {firm1} begin to ship|Does {firm1} ship] the {product} {thing} [by|no later "
            "than] {date}?"
        ),
        background=(
            "{firm1} has [announced|promised] a {thing} called {product}. It ships when {level} {unit} of its "
            "milestones are done; [some are undone by tests|a failed test undoes some]."
        ),
        criteria="Resolves Yes as soon as {firm1} reports {level} {unit} of milestones, if that is by {date}.",
        event_phrase="[a launch of {product} by {date}|shipment of {product} by {date}]",
    ),
    QuestionTemplate(
        form=AnswerKind.DATE,
        kind=EventKind.REACHED,
        walk=_MILESTONES,
        mark=100.0,
        unit="%",
        measure="the share of milestones of {product} that {firm2} reports as done",
        title="When will [{firm2} ship the {product} {thing}|the {product} {thing} by {firm2} be in the shops]?",
        background=(
            "{firm2} [works on|is building] {product}, a {thing}. It ships with {level} {unit} of its milestones done."
        ),
        criteria="Resolves to the day on which {firm2} first reports {level} {unit}, if that is by {date}.",
        event_phrase="a launch of {product} by {date}",
    ),
    QuestionTemplate(
        form=AnswerKind.CHOICE,
        kind=EventKind.FIELD,
        walk=_RACE,
        shock=0.4,
        options=("{firm1}", "{firm2}", "{firm3}", "{firm4}"),
        title="Which firm [will sell|sells] the most {thing}s in {land} [in the week to|by the count of] {date}?",
        background=(
            "{firm1}, {firm2}, {firm3} and {firm4} [share the market for {thing}s|make nearly all {thing}s] in "
            "{land}. [The order changes often.|None has led for long.]"
        ),
        criteria="Resolves to the firm with the highest share in the trade register of {land} on {date}.",
        event_phrase="[the lead of {option}|a first place for {option}]",
    ),
    QuestionTemplate(
        form=AnswerKind.NUMBER,
        kind=EventKind.LEVEL,
        walk=_DEMAND,
        unit="thousand",
        measure="the number of open orders of {product}",
        title="How many [open orders|orders] of {product} will {firm1} [report on|count on] {date}?",
        background=(
            "{firm1} takes orders for {product}, [a {thing}|its new {thing}], and [they may be cancelled|lets buyers "
            "cancel] at any time."
        ),
        criteria="Resolves to the number of open orders on {date}, in {unit}.",
        event_phrase="the number of open orders of {product}",
    ),
    QuestionTemplate(
        form=AnswerKind.BINARY,
        kind=EventKind.REACHED,
        walk=_MILESTONES,
        mark=100.0,
        unit="%",
        heading="By when will {firm3} [ship|launch] {product}?",
        label="{date}",
        measure="the share of milestones of {product} that {firm3} reports as done",
        title="Will {firm3} [launch|ship] {product} by {date}?",
        background=(
            "{firm3} [works on|is building] {product}, a {thing}. It ships with {level} {unit} of its milestones done."
        ),
        criteria="Resolves Yes as soon as {firm3} reports {level} {unit} of milestones, if that is by {date}.",
        event_phrase="a launch of {product} by {date}",
    ),
    QuestionTemplate(
        form=AnswerKind.DATES,
        kind=EventKind.ABOVE,
        walk=_DEMAND,
        digits=2,
        unit="thousand",
        measure="the number of {thing}s in use in {land}",
        title="Will the number of {thing}s in use in {land}",
        background="[A register counts {thing}s in {land}.|Each {thing} in {land} is registered.]",
        criteria="Resolves by the published series.",
        event_phrase="a rise of the number of {thing}s in {land}",
    ),
)
