"""What other forecasters said, as the data of a tool tells it; light, since every plugin imports it."""

from collections.abc import Mapping

from bot.domain.prediction import Prediction
from bot.domain.step import Json
from bot.store.codec import PREDICTIONS

PEERS = "peer_forecasts"


def predictions_of(plain: Json) -> Mapping[str, Prediction]:
    """Return the predictions in the data of a tool; raises ContractError for what are none."""
    return PREDICTIONS.value(plain)
