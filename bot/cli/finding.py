"""What one check of ``foxcast doctor`` found."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found, and what to do unless all is well."""

    verdict: Verdict
    check: str
    found: str
    remedy: str = ""
