"""How many calls are open, of each model and each question, and how many more the models would get at once."""

from collections.abc import Mapping, Sequence

from bot.llm.adaptive_limit import FIRST_LIMIT
from bot.llm.budget import SpendingBudget
from bot.llm.provider_client import ProviderClient
from bot.llm.roles import provider_name

# So much of a limit may wait for a slot: an answer is followed by the next request at once. With a quarter, a wave of
# answers that ended their questions left slots empty until others had begun.
WAITING_SHARE = 0.4


class RequestLoad:
    """The open calls of one process: from their reservation, or the wait for it, to their answer.

    ``usual_models`` are asked where nothing is asked now.
    """

    def __init__(
        self, clients: Mapping[str, ProviderClient], budget: SpendingBudget, *, usual_models: Sequence[str]
    ) -> None:
        """Start with none."""
        self._clients = clients
        self._budget = budget
        self._usual_models = usual_models
        self._by_model: dict[str, int] = {}
        self._by_scope: dict[str, int] = {}
        # Set by who begins questions: the models would get more calls, but this process has too much to do.
        self.is_process_busy = False
        # Set by the same: as many questions are under way as may be.
        self.is_question_limit_reached = False

    def begin_call(self, model: str, scope: str) -> None:
        """Count a call as open, until ``end_call``."""
        self._by_model[model] = self._by_model.get(model, 0) + 1
        self._by_scope[scope] = self._by_scope.get(scope, 0) + 1

    def end_call(self, model: str, scope: str) -> None:
        """Count a call as open no more."""
        self._by_model[model] -= 1
        self._by_scope[scope] -= 1
        if not self._by_scope[scope]:
            del self._by_scope[scope]

    def open_calls(self, scope: str) -> int:
        """Return how many calls of a question are open."""
        return self._by_scope.get(scope, 0)

    def room(self) -> int:
        """Return how many more calls the models in use would get soon; zero or less where calls wait already."""
        if self._budget.has_waiting_requests:
            return 0
        models = [model for model, calls in self._by_model.items() if calls] or self._usual_models
        return min(map(self._room_at, models), default=FIRST_LIMIT)

    def _room_at(self, model: str) -> int:
        limit = self._clients[provider_name(model)].permitted_requests(model)
        return limit + min(limit, max(1, int(WAITING_SHARE * limit))) - self._by_model.get(model, 0)
