"""The signer's own environment: what is installed next to the key is pinned, and no library for models is in it."""

from packaging.requirements import Requirement

from tests.architecture.source import ROOT
from tests.architecture.test_locks import PINNED, PROJECT, TOOLS, entries, pins, unmet

SIGNER = (ROOT / "install" / "signer.lock").read_text()


def test_every_line_is_a_version_with_hashes() -> None:
    assert [entry for entry in entries(SIGNER) if not PINNED.match(entry)] == []


def test_it_holds_what_the_extra_asks_for_and_what_the_tests_run_on() -> None:
    wishes = [Requirement(text) for text in PROJECT["project"]["optional-dependencies"]["polymarket"]]
    assert unmet(wishes, SIGNER) == []
    held = pins(TOOLS)
    assert {name: held.get(name) for name in pins(SIGNER)} == pins(SIGNER)


def test_nothing_is_installed_beside_the_key_but_what_its_client_needs() -> None:
    asked = {"litellm", "openai", "tiktoken", "tokenizers", "huggingface-hub", "aiohttp", "requests", "foxcast"}
    assert pins(SIGNER).keys().isdisjoint(asked)
    needed = {line.split("==")[0] for line in SIGNER.splitlines() if "==" in line}
    assert "polymarket-client" in needed
    # Each but the client itself is there because another one asked for it.
    alone = [entry.split("==")[0] for entry in entries_with_reasons() if "# via" not in entry]
    assert alone == []


def entries_with_reasons() -> list[str]:
    """Return the entries with the comments that say who asked for them."""
    found: list[str] = []
    for line in SIGNER.splitlines():
        if line and not line.startswith(("#", " ")):
            found.append(line)
        elif line.startswith(" ") and found:
            found[-1] += f"\n{line}"
    return found
