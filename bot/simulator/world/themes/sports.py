"""Sports: matches with draws, champions of four, points, records that fall, tallies over a season."""

from bot.simulator.world.question_templates import EventKind, QuestionTemplate, WalkParameters
from bot.simulator.world.questions import AnswerKind

_FORM = WalkParameters(starts=(-1.0, 1.0), sigma=0.22, pull=0.04)
_STRENGTH = WalkParameters(starts=(49.0, 51.0), sigma=1.3, pull=0.03)
_POINTS = WalkParameters(starts=(60.0, 110.0), sigma=1.4, pull=0.03)

TEMPLATES = (
    QuestionTemplate(
        form=AnswerKind.BINARY,
        kind=EventKind.ABOVE,
        walk=_FORM,
        mark=0.0,
        digits=2,
        shock=1.0,
        unit="goals",
        measure="the rating of the {team1} less that of the {team2}",
        title="[Will the {team1} beat|Do the {team1} beat|Can the {team1} beat] the {team2} on {date}?",
        background=(
            "The {team1} [meet|play] the {team2} in the {league} on {date}. [Ties go to overtime.|There is overtime "
            "if needed.] [Ratings say much, not all.|The favourite loses often enough.]"
        ),
        criteria="Resolves Yes if the {team1} win on {date}, [overtime included|after overtime where there is one].",
        event_phrase="[a win for the {team1}|a victory of the {team1}]",
    ),
    QuestionTemplate(
        form=AnswerKind.CHOICE,
        kind=EventKind.BANDS,
        walk=_FORM,
        shock=0.8,
        options=("a win of the {team2}", "a draw", "a win of the {team1}"),
        title="[How does {team1} against {team2} end|What is the result of {team1} against {team2}] on {date}?",
        background="The {team1} [receive|host] the {team2} in the {league}. [There is no overtime.|A draw stands.]",
        criteria="Resolves to the result after regular time on {date}.",
        event_phrase="a result",
    ),
    QuestionTemplate(
        form=AnswerKind.CHOICE,
        kind=EventKind.FIELD,
        walk=_STRENGTH,
        shock=0.4,
        options=("{team1}", "{team2}", "{team3}", "{team4}"),
        title="Who [will win|wins|is champion of] the {league} [final round|cup] on {date}?",
        background=(
            "{team1}, {team2}, {team3} and {team4} [are left|have qualified] in the {league}. "
            "[All play on one weekend.|The best of the weekend wins.]"
        ),
        criteria="Resolves to the team that the {league} declares the winner on {date}.",
        event_phrase="[a title for {option}|a win of {option}]",
    ),
    QuestionTemplate(
        form=AnswerKind.NUMBER,
        kind=EventKind.LEVEL,
        walk=_POINTS,
        unit="points",
        measure="the number of points of the {team3} in an average of ten games",
        title="What [average of points|average] will the {team3} have on {date}?",
        background="The {team3} play in the {league} [nearly every day|four times a week].",
        criteria="Resolves to the average of the last ten games on {date}, in {unit}.",
        event_phrase="the average of the {team3}",
    ),
    QuestionTemplate(
        form=AnswerKind.DATE,
        kind=EventKind.REACHED,
        walk=WalkParameters(starts=(300.0, 380.0), sigma=3.0, drift=0.3),
        mark=500.0,
        digits=0,
        unit="points",
        measure="the balance of {person1} in the {league}",
        title="When will {person1} [break the record|have {level} {unit}] in the {league}?",
        background=(
            "{person1} of the {team1} [nears|is close to] the record of {level} {unit}. [Fines are taken "
            "off.|Penalties are taken off.]"
        ),
        criteria="Resolves to the day on which {person1} first has {level} {unit}, if that is by {date}.",
        event_phrase="a record by {person1} by {date}",
    ),
    QuestionTemplate(
        form=AnswerKind.BINARY,
        kind=EventKind.ABOVE,
        walk=_POINTS,
        unit="points",
        heading="How high will the average of the {team4} be on {date}?",
        label="Above {level}",
        measure="the number of points of the {team4} in an average of ten games",
        title="Will the average of the {team4} be above {level} {unit} on {date}?",
        background="The {team4} play in the {league} [nearly every day|four times a week].",
        criteria="Resolves Yes if the average of the last ten games is above {level} {unit} on {date}.",
        event_phrase="an average of the {team4} above {level} points",
    ),
    QuestionTemplate(
        form=AnswerKind.DATES,
        kind=EventKind.ABOVE,
        walk=WalkParameters(starts=(900.0, 1600.0), sigma=0.012, geometric=True),
        digits=1,
        unit="points",
        measure="the rating of the {team2} in the {league}",
        title="Will the rating of the {team2} in the {league}",
        background="[Ratings are computed every night.|The {league} computes ratings every night.]",
        criteria="Resolves by the published series.",
        event_phrase="a rise of the rating of the {team2}",
    ),
)
