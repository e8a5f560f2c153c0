"""A venue in memory: what it lists and what came true is whatever the test says."""

from collections.abc import AsyncIterator, Collection, Iterable

from bot.domain.question import Question, QuestionRef
from bot.domain.resolution import Resolution


class MemoryVenue:
    """Implements the port Venue; questions are yielded in the order in which they were first listed."""

    def __init__(self, questions: Iterable[Question] = (), resolutions: Iterable[Resolution] = ()) -> None:
        self._questions: dict[QuestionRef, Question] = {}
        self._resolutions: dict[tuple[QuestionRef, str], Resolution] = {}
        self._fault: Exception | None = None
        self._sound_items = 0
        self.offer(*questions)
        self.resolve(*resolutions)

    def offer(self, *questions: Question) -> None:
        """Open the questions, or replace what is listed under the same references."""
        self._questions.update((question.ref, question) for question in questions)

    def close(self, *refs: QuestionRef) -> None:
        """List the questions no longer; their outcomes can still be read."""
        for ref in refs:
            del self._questions[ref]

    def resolve(self, *resolutions: Resolution) -> None:
        """Publish the outcomes, or correct those of the same targets."""
        self._resolutions.update(((resolution.ref, resolution.target), resolution) for resolution in resolutions)

    def fail_with(self, error: Exception, *, after: int = 0) -> None:
        """From now on raise the error in every reading, after that many items."""
        self._fault, self._sound_items = error, after

    def recover(self) -> None:
        """Answer in full again."""
        self._fault = None

    async def questions(self) -> AsyncIterator[Question]:
        for number, question in enumerate([*self._questions.values()]):
            self._stumble(number)
            yield question
        self._stumble(len(self._questions))

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        known = [resolution for (ref, _), resolution in self._resolutions.items() if ref in pending]
        for number, resolution in enumerate(known):
            self._stumble(number)
            yield resolution
        self._stumble(len(known))

    def _stumble(self, items: int) -> None:
        if self._fault is not None and items >= self._sound_items:
            raise self._fault
