"""The hostile corpus: some hundred pages that hide orders, break parsers, burst, stall, lie or lead inside.

Each is made by code from a few parts, says what must come of it, and is served by ``bot.testing.pages.LoopbackWeb``.
Sources of the kinds: the threats T2 and T7 to T11 of the project's reference on reliability, and published advisories.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import chain

from bot.errors import ContractError, FoxcastError, NotFound, Rejected, Unavailable
from bot.testing.hidden import ORDERS, PLAIN_WAYS, VISIBLE, WAYS, hiding, page
from bot.testing.pages import HostilePage, Reply, entry, html
from bot.testing.wire import wire_pages

_ANY: tuple[type[FoxcastError], ...] = (ContractError, Rejected, Unavailable, NotFound)
_FINE = page("").encode()


def hostile_pages() -> list[HostilePage]:
    """Return the corpus; names are unique."""
    families = (_hidden, _titles, _codes, _charsets, _broken, _deep, _entities, _costly, _types)
    return [*chain.from_iterable(family() for family in families), *wire_pages()]


def _hidden() -> Iterator[HostilePage]:
    """Each plain way of hiding with three orders and each other with one: each order is hidden in many ways."""
    orders = [*ORDERS.items()]
    for number, way in enumerate(WAYS):
        for shift in (0, 5, 9) if way in PLAIN_WAYS else (0,):
            said, order = orders[(number + shift) % len(orders)]
            mark = f"canary{number:02d}{shift}"
            text = hiding(way, f"{mark} {order}")
            yield entry("hidden", f"{way} {said}", html(text), hidden=(mark,), visible=(VISIBLE,))


def _titles() -> Iterator[HostilePage]:
    """What is hidden, and would become the title where there is none; and pages in the dress of XML."""
    for name, heading in (
        ("style", '<h1 style="display:none">canary910</h1>'),
        ("attribute", "<h1 hidden>canary910</h1>"),
        ("code", "<h1>Seen<script>canary910</script></h1>"),
    ):
        untitled = page(heading).replace("<title>The river</title>", "").replace("<h1>The river</h1>", "")
        yield entry("titles", name, html(untitled), hidden=("canary910",), visible=(VISIBLE,))
    space = "http://www.w3.org/1999/xhtml"
    part = f'<p>{VISIBLE}</p><p style="display:none">canary911</p>'
    prefixed = part.replace("<p", "<x:p").replace("</p", "</x:p")
    classed = f"{prefixed}<x:p class='a'>canary911</x:p></x:body></x:html>"
    content = f"<content type='xhtml'><div xmlns='{space}'>{part}</div></content>"
    documents = {
        "late root": ("application/xml", f"<!--{'a' * 5000}--><html xmlns='{space}'><body>{part}</body></html>"),
        "prefix": (
            "application/xhtml+xml",
            f"<x:html xmlns:x='{space}'><x:body>{prefixed}<x:script>canary911</x:script></x:body></x:html>",
        ),
        "sheet and prefix": (
            "text/xml",
            f"<x:html xmlns:x='{space}'><x:head><x:style>p.a{{display:none}}</x:style></x:head><x:body>{classed}",
        ),
        "part of a feed": (
            "application/atom+xml",
            f"<feed xmlns='http://www.w3.org/2005/Atom'><entry><title>T</title>{content}</entry></feed>",
        ),
        "part of another document": ("application/xml", f"<r><x:div xmlns:x='{space}'>{prefixed}</x:div></r>"),
    }
    for name, (declared, text) in documents.items():
        yield entry("titles", f"xml {name}", html(text, declared), hidden=("canary911",), visible=(VISIBLE,))


def _codes() -> Iterator[HostilePage]:
    """Orders in plain sight, which are data like any other, and text that is there for machines only."""
    for number, (said, order) in enumerate(ORDERS.items()):
        mark = f"canary8{number:02d}"
        yield entry("codes", f"in sight {said}", html(page(f"<p>{mark} {order}</p>")), visible=(VISIBLE, mark))
    tags = "".join(chr(0xE0000 + ord(each)) for each in ORDERS["english"])
    bytes_in_selectors = "".join(chr(0xE0100 + byte) for byte in ORDERS["english"].encode())
    unseen = {
        "tag characters": f"end{tags}ing",
        "variation selectors": f"end{bytes_in_selectors}ing",
        "zero width": "\u200bend\u200c\u200d\u2060\ufeffing",
        "direction": "\u202eend\u202c\u2066ing\u2069",
        "soft hyphens": "e\u00adn\u00ading",
        "fillers": "end\u3164\u115f\u2800ing",
        "private use": "end\ue000\U000f0001ing",
        "controls": "end\x01\x02\x1b\x7f\x9bing",
    }
    for name, text in unseen.items():
        yield entry("codes", name, html(page(f"<p>{text}</p>")), visible=(VISIBLE,), hidden=(text,))
        plain = html(f"{VISIBLE} {text}", "text/plain; charset=utf-8")
        yield entry("codes", f"{name} in plain text", plain, visible=(VISIBLE,), hidden=(text,))


def _charsets() -> Iterator[HostilePage]:
    samples = {
        "utf-8": "Größe 水 река",
        "utf-16": "Größe 水 река",
        "windows-1252": "Größe déjà",
        "iso-8859-1": "Größe déjà",
        "windows-1251": "уровень реки",
        "koi8-r": "уровень реки",
        "shift_jis": "川の水位",
        "euc-jp": "川の水位",
        "iso-2022-jp": "川の水位",
        "gb2312": "河流水位",
        "gb18030": "河流水位",
        "big5": "河流水位",
        "euc-kr": "강의 수위",
        "iso-8859-2": "wysokość rzeki",
        "windows-1256": "مستوى النهر",
        "tis-620": "ระดับน้ำ",
    }
    for name, sample in samples.items():
        body = page(f"<p>{sample}</p>").encode(name)
        yield entry("charsets", f"header {name}", html(body, f"text/html; charset={name}"), visible=(sample, VISIBLE))
        if not name.startswith("utf-16"):
            body = page(f"<p>{sample}</p>", charset=name).encode(name)
            yield entry("charsets", f"meta {name}", html(body, "text/html"), visible=(sample, VISIBLE))
    for name in ("utf-7", "zlib_codec", "unicode_escape", "idna", "x-unknown", "", "\"';--"):
        declared = f"text/html; charset={name}"
        yield entry(
            "charsets", f"odd label {name or 'none'}", html(page("<p>+AGkgPA-b</p>"), declared), visible=(VISIBLE,)
        )
    for name, odd in (
        ("bytes", bytes(range(128, 256)) * 40),
        ("overlong", b"\xc0\xbc\xe0\x80\xbc"),
        ("cut", b"\xe6\xb0"),
    ):
        body = page("@").encode().replace(b"@", odd)
        yield entry("charsets", f"odd {name}", html(body), visible=(VISIBLE,))


def _broken() -> Iterator[HostilePage]:
    start = f"<html><body><p>{VISIBLE}"
    pieces = {
        "nothing closed": f"{start}<div><p><b><table><td>x",
        "two bodies": f"{start}<body hidden><body><p>y",
        "comment left open": f"{start}</p><!-- canary901",
        "odd comment": f"{start}</p><!--><p>z</p><!-- canary901 --!>",
        "script left open": f"{start}</p><script>canary901",
        "style left open": f"{start}</p><style>canary901",
        "template left open": f"{start}</p><template>canary901",
        "attribute left open": f'{start}</p><p title="canary901',
        "twice the same attribute": f'{start}</p><p style="display:none" style="">canary901</p>',
        "null bytes": f"{start}</p><p hid\0den>x</p>",
        "formatting across": f"{start}<b><i></b>x</i><table><b>y</table>",
        "plain text tag": f"{start}</p><plaintext></p><p hidden>",
        "frameset": f"{start}</p><frameset><noframes>canary901",
        "many attributes": f"{start}</p><p {' '.join(f'a{n}=1' for n in range(5000))}>x</p>",
        "long attribute": f'{start}</p><p class="{"x " * 100_000}">x</p>',
        "form in a form": f"{start}<form><form></form>x",
        "CDATA": f"{start}</p><![CDATA[canary901]]>",
        "instruction": f"{start}</p><?php canary901 ?>",
    }
    for name, text in pieces.items():
        yield entry("broken", name, html(text), hidden=("canary901",), visible=(VISIBLE,))
    yield entry("broken", "empty", html(""))
    yield entry("broken", "blank", html(" \n" * 5000))


def _deep() -> Iterator[HostilePage]:
    for tag, depth in (("div", 300), ("div", 20_000), ("b", 5_000), ("table><tr><td", 2_000), ("ul><li", 5_000)):
        text = f"<p>{VISIBLE}</p>" + f"<{tag}>" * depth + "x"
        yield entry("deep", f"{depth} {tag[:5].strip('>')}", html(text), ends=_ANY, page_too=True)
    xml = "<a>" * 50_000 + "x" + "</a>" * 50_000
    yield entry("deep", "xml", html(xml, "application/xml"), ends=_ANY, page_too=True)
    yield entry("deep", "json", html("[" * 200_000, "application/json"), ends=_ANY, page_too=True)
    css = ".a{" * 20_000
    yield entry("deep", "sheet", html(page("", sheet=css)), ends=_ANY, page_too=True)


def _entities() -> Iterator[HostilePage]:
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    inside = "http://127.0.0.1/"
    kinds = {
        "laughs": f'<!ENTITY l0 "canary">{laughs}',
        "blow-up": f'<!ENTITY l11 "{"canary" * 20_000}">',
        "file": '<!ENTITY l11 SYSTEM "file:///etc/passwd">',
        "inside": f'<!ENTITY l11 SYSTEM "{inside}">',
        "parameter": f'<!ENTITY % p SYSTEM "{inside}">%p;',
        "external sheet": f'<!ELEMENT x ANY> <!ENTITY l11 PUBLIC "a" "{inside}">',
    }
    for name, entity in kinds.items():
        xml = f"<?xml version='1.0'?><!DOCTYPE x [{entity}]><x><t>{VISIBLE}</t>{'&l11;' * 50}</x>"
        more = {"hidden": ("canarycanary", "root:"), "visible": (VISIBLE,)}
        for kind in ("application/xml", "application/rss+xml"):
            yield entry("entities", f"{name} {kind[12:]}", html(xml, kind), **more)
    doctype = f'<!DOCTYPE x SYSTEM "{inside}">'
    yield entry("entities", "document type", html(f"{doctype}<x>{VISIBLE}</x>", "text/xml"), visible=(VISIBLE,))
    yield entry("entities", "flood in a page", html(page("&lt;" * 100_000)), ends=_ANY, page_too=True)
    said = "<description>&lt;p hidden&gt;canary902&lt;/p&gt;seen</description>"
    feed = f"<rss><channel><title>T</title><item><title>{VISIBLE}</title>{said}</item></channel></rss>"
    yield entry(
        "entities",
        "order in a feed",
        html(feed, "application/rss+xml"),
        hidden=("canary902",),
        visible=(VISIBLE, "seen"),
    )


def _costly() -> Iterator[HostilePage]:
    rules = "".join(f"div:not(.a{n}) ~ div:not(.b{n}) p:nth-child({n}n+1){{opacity:.5}}" for n in range(1500))
    texts = {
        "combining marks": page("<p>a" + "\u0301\u0327" * 150_000 + "</p>"),
        "inflation": page("<p>" + "\ufdfa" * 200_000 + "</p>"),
        "selectors": page("<div><p>x</p></div>" * 3000, sheet=rules),
        "blanks": page("<p>" + " \t" * 400_000 + "x</p>"),
        "one long word": page("<p>" + "x" * 900_000 + "</p>"),
        "brackets": page("", sheet="((((" * 100_000),
        "dates": page("<time datetime=" + "1" * 400_000 + ">" + "2020-01-01 " * 20_000 + "</time>"),
        "links": page("<a href=x>y</a> " * 40_000),
        "open tags": "<" * 500_000,
    }
    for name, text in texts.items():
        yield entry("costly", name, html(text), ends=_ANY, page_too=True)


def _types() -> Iterator[HostilePage]:
    lies = {
        "PDF": b"%PDF-1.7\n1 0 obj",
        "ZIP": b"PK\x03\x04" + bytes(500),
        "picture": b"\x89PNG\r\n\x1a\n" + bytes(200),
        "program": b"\x7fELF" + bytes(300),
        "noise": bytes(range(32)) * 50,
        "gzip": gzip.compress(_FINE),
    }
    for name, body in lies.items():
        for declared in ("text/html", "text/plain", "application/json"):
            yield entry("types", f"{name} as {declared}", html(body, declared), ends=(ContractError,))
    refused = (
        "application/pdf",
        "application/octet-stream",
        "image/svg+xml",
        "image/png",
        "text/css",
        "text/javascript",
        "multipart/x-mixed-replace",
        "application/x-sh",
        "text/html\0",
        "text",
        "",
        ";;;",
        "a" * 3000,
    )
    for number, declared in enumerate(refused):
        yield entry("types", f"refused {number}", html(_FINE, declared), ends=(Rejected, Unavailable))
    yield entry("types", "none", Reply(headers=(), body=_FINE), ends=(Rejected,))
    text = json.dumps({"note": VISIBLE})
    for declared in ("application/json", "text/plain", "text/html", "application/xml", "application/xhtml+xml"):
        yield entry("types", f"json as {declared}", html(text, declared), visible=(VISIBLE,))
    for declared in ("application/xml", "application/xhtml+xml", "text/xml"):
        hidden = page("<p hidden>canary903</p>")
        yield entry("types", f"page as {declared}", html(hidden, declared), hidden=("canary903",), visible=(VISIBLE,))
