"""The transcript of a trial for people: its moves in order, and the figures at its end."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptEntry:
    """One move: ``title`` names the actor and the action, ``text`` is the content.

    ``detail`` is shown only where all is requested; ``remarks`` should not be missed. ``belief`` is the belief after
    it, and ``probability`` the same where it is one number from 0 to 1. Entries of one ``speaker`` look alike on a
    page.
    """

    title: str
    text: str = ""
    detail: str = ""
    speaker: str = ""
    remarks: tuple[str, ...] = ()
    belief: str = ""
    probability: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptFigure:
    """One figure at the end of a trial; one that ``is_probability`` lies between 0 and 1."""

    name: str
    value: float | str
    is_probability: bool = False

    @property
    def text(self) -> str:
        """The value in readable form."""
        return f"{self.value:.4g}" if isinstance(self.value, int | float) else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialTranscript:
    """One trial; ``report`` is its own summary at its end."""

    entries: tuple[TranscriptEntry, ...]
    figures: tuple[TranscriptFigure, ...] = ()
    report: str = ""
