"""The hostile corpus.

Some hundred pages and responses that hide instructions, break parsers, flood, stall, lie, or redirect to internal
addresses.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import chain

from bot.core.errors import (
    FoxcastError,
    MalformedDataError,
    NotFoundError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.simulator.hidden_text_pages import (
    HIDING_WAYS,
    INSTRUCTIONS,
    UNREAD_HIDING_WAYS,
    VISIBLE_TEXT,
    page_with_hidden_text,
    plain_page,
)
from bot.simulator.hostile_responses import hostile_responses
from bot.simulator.hostile_web import (
    HostilePage,
    HostileResponse,
    hostile_page,
    html_response,
)

_ANY_ERROR: tuple[type[FoxcastError], ...] = (
    MalformedDataError,
    RequestRejectedError,
    ServiceUnavailableError,
    NotFoundError,
)


_HARMLESS_PAGE = plain_page("").encode()


def all_hostile_pages() -> list[HostilePage]:
    """Return the corpus; names are unique."""
    families = (
        _hidden_text,
        _unread_ways,
        _hidden_titles,
        _encoded_instructions,
        _charset_pages,
        _broken_markup,
        _deep_nesting,
        _entity_attacks,
        _costly_pages,
        _wrong_content_types,
    )
    return [*chain.from_iterable(family() for family in families), *hostile_responses()]


def _hidden_text() -> Iterator[HostilePage]:
    """Each way of hiding with three orders: each order is hidden in many ways."""
    orders = [*INSTRUCTIONS.items()]
    for number, way in enumerate(HIDING_WAYS):
        for shift in (0, 5, 9):
            name, order = orders[(number + shift) % len(orders)]
            mark = f"canary{number:02d}{shift}"
            text = page_with_hidden_text(way, f"{mark} {order}")
            yield hostile_page("hidden", f"{way} {name}", html_response(text), hidden=(mark,), visible=(VISIBLE_TEXT,))


def _unread_ways() -> Iterator[HostilePage]:
    """Each way of hiding that the rules do not read, with one instruction, which is text like any other."""
    orders = [*INSTRUCTIONS.items()]
    for number, way in enumerate(chain.from_iterable(UNREAD_HIDING_WAYS.values())):
        name, order = orders[number % len(orders)]
        mark = f"canary7{number:02d}"
        text = page_with_hidden_text(way, f"{mark} {order}")
        yield hostile_page("unread", f"{way} {name}", html_response(text), visible=(VISIBLE_TEXT, mark))


def _hidden_titles() -> Iterator[HostilePage]:
    """Hidden text that would become the title where there is none, and pages declared as XML."""
    for name, heading in (
        ("style", '<h1 style="display:none">canary910</h1>'),
        ("attribute", "<h1 hidden>canary910</h1>"),
        ("code", "<h1>Seen<script>canary910</script></h1>"),
    ):
        untitled = plain_page(heading).replace("<title>The river</title>", "").replace("<h1>The river</h1>", "")
        yield hostile_page("titles", name, html_response(untitled), hidden=("canary910",), visible=(VISIBLE_TEXT,))
    space = "http://www.w3.org/1999/xhtml"
    part = f'<p>{VISIBLE_TEXT}</p><p style="display:none">canary911</p>'
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
        yield hostile_page(
            "titles", f"xml {name}", html_response(text, declared), hidden=("canary911",), visible=(VISIBLE_TEXT,)
        )


def _encoded_instructions() -> Iterator[HostilePage]:
    """Visible instructions, which are data like any other, and text that only machines see."""
    for number, (name, order) in enumerate(INSTRUCTIONS.items()):
        mark = f"canary8{number:02d}"
        yield hostile_page(
            "codes",
            f"in sight {name}",
            html_response(plain_page(f"<p>{mark} {order}</p>")),
            visible=(VISIBLE_TEXT, mark),
        )
    tags = "".join(chr(0xE0000 + ord(each)) for each in INSTRUCTIONS["english"])
    bytes_in_selectors = "".join(chr(0xE0100 + byte) for byte in INSTRUCTIONS["english"].encode())
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
        yield hostile_page(
            "codes", name, html_response(plain_page(f"<p>{text}</p>")), visible=(VISIBLE_TEXT,), hidden=(text,)
        )
        plain = html_response(f"{VISIBLE_TEXT} {text}", "text/plain; charset=utf-8")
        yield hostile_page("codes", f"{name} in plain text", plain, visible=(VISIBLE_TEXT,), hidden=(text,))


def _charset_pages() -> Iterator[HostilePage]:
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
        body = plain_page(f"<p>{sample}</p>").encode(name)
        yield hostile_page(
            "charsets",
            f"header {name}",
            html_response(body, f"text/html; charset={name}"),
            visible=(sample, VISIBLE_TEXT),
        )
        if not name.startswith("utf-16"):
            body = plain_page(f"<p>{sample}</p>", charset=name).encode(name)
            yield hostile_page(
                "charsets", f"meta {name}", html_response(body, "text/html"), visible=(sample, VISIBLE_TEXT)
            )
    for name in ("utf-7", "zlib_codec", "unicode_escape", "idna", "x-unknown", "", "\"';--"):
        declared = f"text/html; charset={name}"
        yield hostile_page(
            "charsets",
            f"odd label {name or 'none'}",
            html_response(plain_page("<p>+AGkgPA-b</p>"), declared),
            visible=(VISIBLE_TEXT,),
        )
    for name, odd in (
        ("bytes", bytes(range(128, 256)) * 40),
        ("overlong", b"\xc0\xbc\xe0\x80\xbc"),
        ("cut", b"\xe6\xb0"),
    ):
        body = plain_page("@").encode().replace(b"@", odd)
        yield hostile_page("charsets", f"odd {name}", html_response(body), visible=(VISIBLE_TEXT,))


def _broken_markup() -> Iterator[HostilePage]:
    start = f"<html><body><p>{VISIBLE_TEXT}"
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
        yield hostile_page("broken", name, html_response(text), hidden=("canary901",), visible=(VISIBLE_TEXT,))
    yield hostile_page("broken", "empty", html_response(""))
    yield hostile_page("broken", "blank", html_response(" \n" * 5000))


def _deep_nesting() -> Iterator[HostilePage]:
    for tag, depth in (("div", 300), ("div", 20_000), ("b", 5_000), ("table><tr><td", 2_000), ("ul><li", 5_000)):
        text = f"<p>{VISIBLE_TEXT}</p>" + f"<{tag}>" * depth + "x"
        yield hostile_page(
            "deep", f"{depth} {tag[:5].strip('>')}", html_response(text), expected_errors=_ANY_ERROR, allows_page=True
        )
    xml = "<a>" * 50_000 + "x" + "</a>" * 50_000
    yield hostile_page(
        "deep", "xml", html_response(xml, "application/xml"), expected_errors=_ANY_ERROR, allows_page=True
    )
    yield hostile_page(
        "deep", "json", html_response("[" * 200_000, "application/json"), expected_errors=_ANY_ERROR, allows_page=True
    )
    css = ".a{" * 20_000
    yield hostile_page(
        "deep", "sheet", html_response(plain_page("", stylesheet=css)), expected_errors=_ANY_ERROR, allows_page=True
    )


def _entity_attacks() -> Iterator[HostilePage]:
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
        xml = f"<?xml version='1.0'?><!DOCTYPE x [{entity}]><x><t>{VISIBLE_TEXT}</t>{'&l11;' * 50}</x>"
        more = {"hidden": ("canarycanary", "root:"), "visible": (VISIBLE_TEXT,)}
        for kind in ("application/xml", "application/rss+xml"):
            yield hostile_page("entities", f"{name} {kind[12:]}", html_response(xml, kind), **more)
    doctype = f'<!DOCTYPE x SYSTEM "{inside}">'
    yield hostile_page(
        "entities",
        "document type",
        html_response(f"{doctype}<x>{VISIBLE_TEXT}</x>", "text/xml"),
        visible=(VISIBLE_TEXT,),
    )
    yield hostile_page(
        "entities",
        "flood in a page",
        html_response(plain_page("&lt;" * 100_000)),
        expected_errors=_ANY_ERROR,
        allows_page=True,
    )
    description = "<description>&lt;p hidden&gt;canary902&lt;/p&gt;seen</description>"
    feed = f"<rss><channel><title>T</title><item><title>{VISIBLE_TEXT}</title>{description}</item></channel></rss>"
    yield hostile_page(
        "entities",
        "order in a feed",
        html_response(feed, "application/rss+xml"),
        hidden=("canary902",),
        visible=(VISIBLE_TEXT, "seen"),
    )


def _costly_pages() -> Iterator[HostilePage]:
    rules = "".join(f"div:not(.a{n}) ~ div:not(.b{n}) p:nth-child({n}n+1){{opacity:.5}}" for n in range(1500))
    texts = {
        "combining marks": plain_page("<p>a" + "\u0301\u0327" * 150_000 + "</p>"),
        "inflation": plain_page("<p>" + "\ufdfa" * 200_000 + "</p>"),
        "selectors": plain_page("<div><p>x</p></div>" * 3000, stylesheet=rules),
        "blanks": plain_page("<p>" + " \t" * 400_000 + "x</p>"),
        "one long word": plain_page("<p>" + "x" * 900_000 + "</p>"),
        "brackets": plain_page("", stylesheet="((((" * 100_000),
        "dates": plain_page("<time datetime=" + "1" * 400_000 + ">" + "2020-01-01 " * 20_000 + "</time>"),
        "links": plain_page("<a href=x>y</a> " * 40_000),
        "open tags": "<" * 500_000,
    }
    for name, text in texts.items():
        yield hostile_page("costly", name, html_response(text), expected_errors=_ANY_ERROR, allows_page=True)
    # Styles are parsed in time linear in their length, so that these cost no more than other pages.
    repeated = "".join(f".x{{opacity:.{number + 1}9}}.x.a{number}{{opacity:0}}" for number in range(3000))
    styled = {
        "rules of one class": plain_page("<div class=x><p>x</p></div>" * 3000, stylesheet=repeated),
        "declarations": plain_page("", stylesheet=".x{" + "left:1;" * 30_000),
        "styles of elements": plain_page("<p style='color:#333;background:#fff;margin:0 -3px'>x</p>" * 2000),
        "open rules": plain_page("", stylesheet=".a{" * 30_000 + "}" * 30_000),
    }
    for name, text in styled.items():
        yield hostile_page("costly", name, html_response(text), visible=(VISIBLE_TEXT,))


def _wrong_content_types() -> Iterator[HostilePage]:
    lies = {
        "PDF": b"%PDF-1.7\n1 0 obj",
        "ZIP": b"PK\x03\x04" + bytes(500),
        "picture": b"\x89PNG\r\n\x1a\n" + bytes(200),
        "program": b"\x7fELF" + bytes(300),
        "noise": bytes(range(32)) * 50,
        "gzip": gzip.compress(_HARMLESS_PAGE),
    }
    for name, body in lies.items():
        for declared in ("text/html", "text/plain", "application/json"):
            yield hostile_page(
                "types", f"{name} as {declared}", html_response(body, declared), expected_errors=(MalformedDataError,)
            )
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
        yield hostile_page(
            "types",
            f"refused {number}",
            html_response(_HARMLESS_PAGE, declared),
            expected_errors=(RequestRejectedError, ServiceUnavailableError),
        )
    yield hostile_page(
        "types", "none", HostileResponse(headers=(), body=_HARMLESS_PAGE), expected_errors=(RequestRejectedError,)
    )
    text = json.dumps({"note": VISIBLE_TEXT})
    for declared in ("application/json", "text/plain", "text/html", "application/xml", "application/xhtml+xml"):
        yield hostile_page("types", f"json as {declared}", html_response(text, declared), visible=(VISIBLE_TEXT,))
    for declared in ("application/xml", "application/xhtml+xml", "text/xml"):
        hidden = plain_page("<p hidden>canary903</p>")
        yield hostile_page(
            "types",
            f"page as {declared}",
            html_response(hidden, declared),
            hidden=("canary903",),
            visible=(VISIBLE_TEXT,),
        )
