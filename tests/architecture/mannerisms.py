"""Words and phrases that no page, message, docstring or comment uses, each with the plain English for it."""

import re

# Pattern -> what to write instead. Words of an earlier version that nobody outside it knew are terms, not mannerisms;
# they are here too, since a reader cannot tell them from words of the field.
PLAIN_ENGLISH = {
    r"\btold\b(?! apart\b| from\b)": "informed, reported, stated",
    r"\bwho(?:m)?ever\b": "anybody who, callers",
    r"\bwhat stands\b|\bstands there\b": "the state at the venue, what is published",
    r"\bit is there that\b": "there",
    r"\b(?:be)?c[oa]mes? of\b": "results from, the result of",
    r"\bgo(?:es)? on\b": "continues",
    r"\bbeside\b": "together with, next to",
    r"\bto be had\b": "available",
    r"\b(?:give|take back|has|have|without) leave\b|\bleave to (?:submit|sell|send)\b": "permission",
    r"\b(?:may|must|that) leaves?\b(?= (?:at|now|with|to)\b|[.,:;]|$)|\bnothing leaves\b": "is submitted, is sent",
    r"\bseats?\b": "forecaster",
    r"\bdesk\b(?!\.)": "trial tools",
    r"\bbench\b": "trial tools",
    r"\blanes?\b": "execution policy",
    r"\bpurses?\b": "budget, balance",
    r"\btill\b": "cost accounting, until",
    r"\bdockets?\b": "decision snapshot",
    r"\bsittings?\b": "forecast run",
    r"\boutfit(?:ter|s)?\b": "plugin factory",
    r"\bworkshops?\b": "tool factory",
    r"\berrands?\b": "background task",
    r"\bconducts?\b": "model performance",
    r"(?<!\bin )\bdoubts?\b": "unknown write",
    r"\bmishaps?\b": "failure",
    r"\bbrake\b": "kill switch, halt",
    r"\bthe ports? (?-i:(?=[A-Z]))": "the name of the interface alone",
}
_ANY = re.compile("|".join(f"(?:{pattern})" for pattern in PLAIN_ENGLISH), re.IGNORECASE)
_CODE = re.compile(r"``[^`]*``|`[^`\n]*`")


def find_mannerisms(text: str) -> list[str]:
    """Return the mannerisms in a text, in order; code between backticks is not prose."""
    return [match.group() for match in _ANY.finditer(_CODE.sub("``", text))]
