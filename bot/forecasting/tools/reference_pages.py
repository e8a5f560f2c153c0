"""Pages of a reference work as they were before the cutoff: first the headings, then a section at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.core.beliefs import ShownSource
from bot.core.errors import FoxcastError, StoreError
from bot.core.language_models import ToolDefinition
from bot.core.research import Passage
from bot.core.values import Json
from bot.forecasting.failures import run_with_timeout
from bot.forecasting.leak_guard.cutoff import is_revised_late
from bot.forecasting.leak_guard.filter_counts import FilterCounts
from bot.forecasting.services import ConfiguredPageSource
from bot.forecasting.tools.base import ToolContext, describe_failure
from bot.forecasting.tools.definitions import define_tool, text_schema
from bot.forecasting.tools.url_lookup import find_readable_links
from bot.forecasting.trial_memory import ToolCallNote
from bot.forecasting.trial_tools import ToolCallError, ToolCallTrace, ToolOutcome
from bot.store.serialization import JsonSerializer

PAGE_SOURCE_TIMEOUT_S = 30.0
_PASSAGE_SERIALIZER: JsonSerializer[Passage] = JsonSerializer("passage", Passage)
_HEADINGS_SERIALIZER: JsonSerializer[Sequence[str]] = JsonSerializer("list of headings", tuple[str, ...])
_PAGE_ARGUMENT = text_schema("title or address of the page", 500)


@dataclass(frozen=True, slots=True)
class PageHeadingsTool:
    """Reads the headings of a page."""

    context: ToolContext
    page_source: ConfiguredPageSource

    @property
    def tool(self) -> ToolDefinition:
        name = self.page_source.spec.name
        says = f"The headings of a page of {name} as it stood before the cutoff."
        return define_tool(f"fetch_{name}_toc", says, {"page": _PAGE_ARGUMENT}, required=("page",))

    async def run(self, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        page, before, source = str(arguments["page"]), self.context.data_before, self.page_source

        async def make() -> object:
            return _HEADINGS_SERIALIZER.plain(await source.source.page_headings(page, before=before))

        asked = {"shelf": source.spec.name, "page": page, "before": before.isoformat()}
        try:
            reply = await trace.replay_or_run(
                "contents", asked, lambda: run_with_timeout(PAGE_SOURCE_TIMEOUT_S, source.spec.name, make())
            )
        except StoreError:
            raise
        except FoxcastError as error:
            message = f"The page was not read: {describe_failure(error)}."
            raise ToolCallError(message) from error
        headings = "\n".join(str(heading) for heading in reply.value)
        if not headings:
            return ToolOutcome(text="The page has no headings; all of its text stands under the heading ''.")
        label = f"headings of a page of {source.spec.name}"
        text = self.context.fence(headings, label, self.context.section.page_chars)
        return ToolOutcome(text=text, sources=(ShownSource(name=label),))


@dataclass(frozen=True, slots=True)
class PageSectionTool:
    """Reads the text under a heading."""

    context: ToolContext
    page_source: ConfiguredPageSource

    @property
    def tool(self) -> ToolDefinition:
        name = self.page_source.spec.name
        return define_tool(
            f"fetch_{name}_section",
            f"The text under a heading of a page of {name} as it stood before the cutoff.",
            {
                "page": _PAGE_ARGUMENT,
                "heading": {
                    "type": "string",
                    "maxLength": 500,
                    "description": "the heading; '' for what stands before the first",
                },
            },
            required=("page", "heading"),
        )

    async def run(self, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        page, heading, before = str(arguments["page"]), str(arguments["heading"]), self.context.data_before
        source = self.page_source

        async def make() -> object:
            return _PASSAGE_SERIALIZER.plain(await source.source.section(page, heading, before=before))

        asked = {"shelf": source.spec.name, "page": page, "heading": heading, "before": before.isoformat()}
        try:
            reply = await trace.replay_or_run(
                "section", asked, lambda: run_with_timeout(PAGE_SOURCE_TIMEOUT_S, source.spec.name, make())
            )
        except StoreError:
            raise
        except FoxcastError as error:
            message = f"The section was not read: {describe_failure(error)}."
            raise ToolCallError(message) from error
        return self._outcome(_PASSAGE_SERIALIZER.value(reply.value))

    def _outcome(self, passage: Passage) -> ToolOutcome:
        if is_revised_late(passage, self.context.guards.cutoff):
            message = "The section was not read: what came is of a state after the cutoff."
            raise ToolCallError(message, caught=FilterCounts(clamped=1))
        head = f"{passage.page}\n{passage.heading}\n{passage.url} (as of {passage.revised_at.date().isoformat()})"
        limit = self.context.section.passage_chars
        text = self.context.clean(passage.text, limit)
        label = f"section of {self.page_source.spec.name}"
        return ToolOutcome(
            text=self.context.fence(f"{head}\n{text}", label, limit + 2_000),
            sources=(ShownSource(name=label, url=self.context.clean(passage.url, 500), text=text),),
            note=ToolCallNote(addresses=find_readable_links(text, self.context)),
        )
