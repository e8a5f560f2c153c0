"""What the tests of the engines share: moments, and a reply as bytes."""

import json
from datetime import UTC, datetime

MIDNIGHT = datetime(2026, 3, 5, tzinfo=UTC)
SECOND_LATER = datetime(2026, 3, 5, 0, 0, 1, tzinfo=UTC)
NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
LEAP_DAY = datetime(2024, 3, 1, tzinfo=UTC)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()
