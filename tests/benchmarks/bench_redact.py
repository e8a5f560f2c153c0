"""What it costs to look for secrets in text on its way to the ledger; one line for each figure."""

import json
from time import perf_counter

import numpy as np

from bot.core.redaction import SecretRedactor
from tests.benchmarks.figures import MeasureSize, say

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    rng = np.random.default_rng(2026)
    secrets = [_word(rng, 40) for _ in range(8)]
    redactor = SecretRedactor().with_secrets(secrets)
    words = [_word(rng, int(length)).lower() for length in rng.integers(2, 10, size.pick(18_000, 500))]
    prose = " ".join(words)
    form = json.dumps({word: [float(rng.random()), f"https://almanac.example/{word}"] for word in words[:1200]})
    quoted = " ".join(f'\\"{word}\\" said\\n' if place % 8 == 0 else word for place, word in enumerate(words))
    texts = {"a page of prose": prose, "a JSON document": form, "a page in JSON": quoted, "a line": prose[:120]}
    for what, text in texts.items():
        rounds = size.pick(max(20, 200_000 // len(text)), 2)
        started = perf_counter()
        for _ in range(rounds):
            redactor.redact(text)
        took_ms = (perf_counter() - started) / rounds * 1e3
        say(f"redact: {what} of {len(text):,} characters, 8 secrets", f"{took_ms:.3f} ms")
    started = perf_counter()
    SecretRedactor().with_secrets(secrets)
    say("redact: getting ready for 8 secrets", f"{(perf_counter() - started) * 1e3:.1f} ms")


def _word(rng: np.random.Generator, length: int) -> str:
    return "".join(_LETTERS[place] for place in rng.integers(len(_LETTERS), size=length))
