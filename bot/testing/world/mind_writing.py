"""How a simulated forecaster fills in whatever form it is shown: each field by its name, from one opinion."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.testing.schema import fill
from bot.testing.world.mind_company import Company
from bot.testing.world.mind_opinion import Opinion
from bot.testing.world.mind_reading import Message

Schema = Mapping[str, Any]
_MOST_EVIDENCE = 3
_EVIDENCE_CHARS = 240


@dataclass(frozen=True, kw_only=True)
class Pen:
    """Writes JSON under a schema. ``given`` are values by the name of their field, at any depth.

    ``stated`` is what was said before, so that evidence is stated once; ``queries`` are the searches so far, and
    ``messages`` the conversation.
    """

    opinion: Opinion
    given: Mapping[str, Any] = field(default_factory=dict)
    stated: str = ""
    queries: Sequence[str] = ()
    messages: Sequence[Message] = ()

    def write(self, schema: Schema) -> Any:  # noqa: ANN401 - any JSON
        """Return a value that fits the schema."""
        return self._part("", schema)

    def _part(self, name: str, schema: Schema) -> Any:  # noqa: ANN401 - as above
        if name in self.given:
            return self.given[name]
        if (writer := self._fields.get(name)) is not None:
            return writer(schema)
        if "const" in schema or "properties" not in schema:
            return fill(schema, {})
        wanted = {*schema.get("required", ()), *self.given, *self._fields}
        return {key: self._part(key, part) for key, part in schema["properties"].items() if key in wanted}

    @property
    def _fields(self) -> Mapping[str, Callable[[Schema], Any]]:
        return {
            **Company(opinion=self.opinion, messages=self.messages).fields(),
            "probability": self._chance,
            "percent": self._chance,
            "probabilities": self._shares,
            "percents": self._shares,
            "quantiles": self._quantiles,
            "update_reasoning": self._text(self._reason),
            "reasoning": self._text(self._reason),
            "reason": self._text(self._reason),
            "base_rate_anchor": self._text(lambda: self.opinion.anchor),
            "confidence": self._confidence,
            "evidence_for": lambda schema: self._evidence(schema, favours=True),
            "evidence_against": lambda schema: self._evidence(schema, favours=False),
            "contradicted": lambda _: [],
            "key_uncertainties": lambda _: ["What the next reports will say."],
            "searches_tried": lambda _: [*self.queries][-5:],
        }

    def _confidence(self, schema: Schema) -> str | int:
        sure = self.opinion.confidence
        return sure if schema.get("type") != "integer" else {"low": 30, "medium": 60, "high": 85}[sure]

    def _chance(self, schema: Schema) -> Any:  # noqa: ANN401 - as above
        targets = schema.get("properties")
        if targets is None:
            return _number(schema, self.opinion.chance(next(iter(self.opinion.task.targets))))
        return {target: _number(one, self.opinion.chance(target)) for target, one in targets.items()}

    def _shares(self, schema: Schema) -> Any:  # noqa: ANN401 - as above
        parts: Mapping[str, Schema] = schema.get("properties", {})
        options = self.opinion.task.options
        if parts and not set(parts) <= set(options) and all("properties" in one for one in parts.values()):
            return {target: self._shares(one) for target, one in parts.items()}
        shares = self.opinion.shares()
        even = 1.0 / max(1, len(parts))
        return {option: _number(one, shares.get(option, even)) for option, one in parts.items()}

    def _quantiles(self, schema: Schema, target: str | None = None) -> Any:  # noqa: ANN401 - as above
        parts: Mapping[str, Schema] = schema.get("properties", {})
        if any("properties" in one for one in parts.values()):
            return {key: self._quantiles(one, key) for key, one in parts.items()}
        chosen = next(iter(self.opinion.task.targets)) if target is None else target
        return {name: self.opinion.quantile(_level(name), chosen) for name in parts}

    def _text(self, words: Callable[[], str]) -> Callable[[Schema], str]:
        return lambda schema: words()[: int(schema.get("maxLength", 1000))]

    def _reason(self) -> str:
        found = [*self.opinion.claims()]
        pro = sum(favours for _, favours in found)
        return (
            f"(simulated) Started from: {self.opinion.anchor} {pro} of {len(found)} readings speak for it, "
            f"{len(found) - pro} against; weighed by age, that is what I believe now."
        )

    def _evidence(self, schema: Schema, *, favours: bool) -> list[dict[str, str]]:
        most = min(_MOST_EVIDENCE, int(schema.get("maxItems", _MOST_EVIDENCE)))
        fresh = [
            {"text": reading.words[:_EVIDENCE_CHARS], "source": reading.source[:200]}
            for reading, pro in self.opinion.claims()
            if pro is favours and reading.words[:40] not in self.stated
        ]
        return fresh[:most]


def _number(schema: Schema, probability: float) -> float | int | str:
    """Return a probability in the unit of the schema: a fraction, a percentage, or a small percentage as a text."""
    if "anyOf" in schema and 100.0 * probability < 1.0:
        return f"{100.0 * probability:.2g} %"
    plain = schema["anyOf"][0] if "anyOf" in schema else schema
    low, high = float(plain.get("minimum", 0.0)), float(plain.get("maximum", 1.0))
    if plain.get("type") == "integer" or high > 1.0:
        percent = min(max(high, 1.0), max(low, 100.0 * probability))
        # A whole number where that says enough: small percentages between 0 and 1 could be taken for fractions.
        return round(percent) if plain.get("type") == "integer" or 10.0 <= percent <= 90.0 else round(percent, 1)
    return min(high, max(low, round(probability, 4)))


def _level(name: str) -> float:
    """Return the probability that a field such as p95 stands for; the middle where its name is none."""
    digits = name.removeprefix("p")
    return min(0.999, max(0.001, float(digits) / 100.0)) if digits.replace(".", "", 1).isdigit() else 0.5
