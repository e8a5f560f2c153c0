"""What a member remembers, and how sub-goals are shared out and settled."""

from bot.core.beliefs import ShownSource
from plugins.team.members import GoalBoard, MemberFact, MemberMemory, use_key
from plugins.team.settings import DEFAULT_GOALS, SubGoal
from tests.plugins.team.cases import results

NAMES = [goal.name for goal in DEFAULT_GOALS]


def fact(goal: str, who: str = "Ada", source: str = "search_1_result_1") -> MemberFact:
    return MemberFact(text=f"settles {goal}", source=source, member=who, goal=goal)


def test_a_search_is_remembered_by_what_it_found() -> None:
    memory = MemberMemory()
    memory.add_result("web_search", results(3, "The ship is out", "The ship is in"), "status")
    assert [(found.label, found.source.title, found.source.url, found.goal) for found in memory.unread] == [
        ("search_3_result_1", "The ship is out", "https://news.example/3/1", "status"),
        ("search_3_result_2", "The ship is in", "https://news.example/3/2", "status"),
    ]
    memory.add_result("web_search", results(3, "The ship is out", "The ship is in"), "status")
    assert len(memory.unread) == 2


def test_a_source_is_known_once_it_was_shown() -> None:
    memory = MemberMemory()
    assert not memory.knows_source("search_1_result_1")
    memory.add_result("web_search", results(1, "Out"), "status")
    memory.add_result("series_history", (ShownSource(name="series from almanac", text="1,2"),), "")
    memory.add_result(
        "lookup_url",
        (ShownSource(name="page_12345678", text="see https://far.example/9"),),
        "",
        url="https://news.example/3",
    )
    memory.add_result(
        "fetch_almanac_section", (ShownSource(name="section", url="https://almanac.example/s", text="Ships"),), ""
    )
    for source in (
        "search_1_result_1",
        "[search_1_result_1]",
        "search_1_result_1 (News)",
        "https://news.example/1/1",
        "web_search",
        "series_history",
        "page_12345678",
        "https://news.example/3",
        "https://almanac.example/s",
    ):
        assert memory.knows_source(source), source
    for source in (
        "",
        "my own knowledge",
        "search_1_result_2",
        "https://news.example/1/2",
        "question",
        "https://far.example/9",
    ):
        assert not memory.knows_source(source), source


def test_what_a_program_prints_makes_no_result_and_no_source() -> None:
    memory = MemberMemory()
    memory.add_result("calculate", results(9, "Forged"), "status")
    assert memory.unread == []
    assert memory.sources == {"calculate"}
    memory.add_result("lookup_url", results(9, "Forged"), "status")
    assert memory.unread == []


def test_sub_goals_are_dealt_in_turn() -> None:
    board = GoalBoard(goals=DEFAULT_GOALS)
    board.share_out(["Ada", "Boris"])
    assert [board.owner[name] for name in NAMES] == ["Ada", "Boris"] * 3
    alone = GoalBoard(goals=DEFAULT_GOALS)
    alone.share_out(["Ada"])
    assert set(alone.owner.values()) == {"Ada"}


def test_the_open_sub_goals_of_one_who_left_go_to_those_who_have_least() -> None:
    board = GoalBoard(goals=DEFAULT_GOALS)
    board.share_out(["Ada", "Boris", "Chen"])
    board.settle(fact(NAMES[0]))
    board.share_out(["Ada", "Boris"])
    # Ada has one left, Boris two; of the two of Chen's Ada gets the first.
    assert [board.owner[name] for name in NAMES] == ["Ada", "Boris", "Ada", "Ada", "Boris", "Boris"]


def test_a_sub_goal_is_settled_once_and_only_by_a_fact_with_a_source() -> None:
    board = GoalBoard(goals=DEFAULT_GOALS)
    assert not board.settle(fact("status", source=""))
    assert not board.settle(fact("weather"))
    assert not board.settle(fact(""))
    assert board.efficiency == 0.0
    assert board.settle(fact("status", who="Ada"))
    assert not board.settle(fact("status", who="Boris"))
    assert board.settled["status"].member == "Ada"
    assert board.efficiency == 1 / 6
    assert [goal.name for goal in board.open_goals()] == [name for name in NAMES if name != "status"]


def test_the_share_of_settled_sub_goals_reaches_one() -> None:
    board = GoalBoard(goals=(SubGoal(name="a", ask="?"), SubGoal(name="b", ask="?")))
    for name in ("a", "b"):
        board.settle(fact(name))
    assert board.efficiency == 1.0
    assert board.open_goals() == []


def test_uses_that_differ_in_case_and_signs_alone_are_the_same() -> None:
    assert use_key("web_search", {"query": "The ship!"}) == use_key("web_search", {"query": "the  ship"})
    assert use_key("web_search", {"query": "the ship"}) != use_key("web_search", {"query": "the ships"})
    assert use_key("web_search", {"query": "x"}) != use_key("lookup_url", {"query": "x"})
