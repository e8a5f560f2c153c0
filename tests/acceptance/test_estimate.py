"""What a forecast is expected to cost before any is on record, next to the cost of a scripted one."""

import json
import re
from pathlib import Path

from tests.acceptance.scripted_installation import CONFIG, PRICE, RAIN, SHELF, searching, serving

# Eight results of some six hundred characters a search, as engines give them.
FULL_SHELF = SHELF.replace(
    'return [SearchResult(url="https://almanac.example/rain", title="Rain", snippet=f"of {query}", published_at=at)]',
    "text = f'of {query}, and what was said of it. ' * 16\n"
    "        return [SearchResult(url=f'https://almanac.example/{n}/{len(query)}', title=f'Rain {n}', "
    "snippet=f'{n} {text}', published_at=at) for n in range(8)]",
)
ROLES = "".join(
    f'\n[llm.roles.{role}]\nmodel = "openai_compatible:here/scripted"\n'
    for role in ("main", "filter", "summariser", "auditor")
)
# Of English text.
CHARS_A_TOKEN = 4
# An answer of a model that thinks before it moves; nobody scripts that.
TOKENS_OUT = 700


async def test_the_first_estimate_is_near_what_a_trial_of_the_usual_length_takes(tmp_path: Path) -> None:
    """Seven searches and an answer, two trials: the published length of such trials (54,000 to 97,000 tokens read)."""
    config = CONFIG + ROLES + PRICE + "[llm.budget]\nask_above_usd = 0.0\n"
    async with serving(tmp_path, searching(7, probability=0.3), config) as context:
        assert FULL_SHELF != SHELF
        context.write("shelf.py", FULL_SHELF)
        name = context.write("rain.toml", RAIN)
        refused = await context("forecast", name)
        reported = re.search(r"expected to cost about ([0-9.]+) US dollars", refused.err)
        assert reported is not None
        assert (await context("forecast", name, "--yes")).code == 0
        asked = [asked.body for asked in context.server.requests]
    read = sum(len(json.dumps([body.get("messages"), body.get("tools")])) for body in asked) / CHARS_A_TOKEN
    assert 2 * 54_000 <= read <= 2 * 97_000
    # A dollar and two for a million tokens, see PRICE.
    took_usd = (read * 1.0 + len(asked) * TOKENS_OUT * 2.0) / 1e6
    assert took_usd <= float(reported.group(1)) <= 4 * took_usd
