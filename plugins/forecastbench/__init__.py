"""The ForecastBench venue: question sets in, forecast sets out, resolution sets read back.

Facts of a question (all texts): ``due_date``; where published also ``freeze_value``, ``freeze_explanation``,
``freeze_at``, ``market_opens_at`` (moments in ISO 8601, UTC); where questions of the round could not be read also their
number, ``left_out_market`` and ``left_out_dataset``.
"""

from bot.api import SetupChoice, SetupValue, VenueSpec, hookimpl
from plugins.forecastbench.archive import ForecastBenchArchive
from plugins.forecastbench.file_format import VENUE
from plugins.forecastbench.reader import open_reader
from plugins.forecastbench.round_sources import archive_folder
from plugins.forecastbench.settings import ForecastBenchSettings
from plugins.forecastbench.writer import open_paper_forecasts, open_writer

SETUP = SetupChoice(
    name=VENUE,
    title="ForecastBench: rounds of questions; the sample that comes with the program is scored at once",
    values=(
        SetupValue(
            name="source",
            key="source",
            prompt="Rounds: sample, a folder, or an https address of the datasets",
            default="sample",
        ),
    ),
)


@hookimpl
def foxcast_venues() -> list[VenueSpec[ForecastBenchSettings]]:
    """Offer the one venue of this plugin."""
    return [
        VenueSpec(
            name=VENUE,
            summary="Fortnightly rounds of market and data-series questions, answered by one file per round",
            settings=ForecastBenchSettings,
            setup=(SETUP,),
            reader=open_reader,
            paper=open_paper_forecasts,
            writer=open_writer,
            archive=ForecastBenchArchive,
            archive_folder=archive_folder,
        )
    ]
