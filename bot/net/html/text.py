"""From bytes and trees of web pages to clean text.

Character sets by the WHATWG Encoding standard, no invisible characters, blanks collapsed, bounded length.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from typing import TYPE_CHECKING

from bot.core.plain_text import strip_invisible

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_HEAD_BYTES = 4096
_DECLARED_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w:.-]{1,40})|"
                       rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w:.-]{1,40})", re.IGNORECASE)  # fmt: skip
_CHARSET_PARAMETER = re.compile(r"charset\s*=\s*[\"']?\s*([\w:.-]{1,40})", re.IGNORECASE)
# Codec of Python -> names on the web, if the standard maps a name to a larger set or Python uses another name.
_CODEC_NAMES = {
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8 x-unicode20utf8",
    "utf-16-le": "utf-16 utf-16le unicode ucs-2 iso-10646-ucs-2 unicodefeff csunicode",
    "utf-16-be": "utf-16be unicodefffe",
    "cp1252": "windows-1252 cp1252 x-cp1252 iso-8859-1 iso8859-1 iso_8859-1 latin1 latin-1 l1 ascii us-ascii cp819",
    "cp1254": "windows-1254 cp1254 iso-8859-9 iso8859-9 latin5 l5",
    "cp874": "windows-874 tis-620 iso-8859-11 dos-874",
    "cp932": "shift_jis shift-jis sjis x-sjis ms_kanji windows-31j ms932",
    "euc_jp": "euc-jp x-euc-jp",
    "iso2022_jp": "iso-2022-jp csiso2022jp",
    "cp949": "euc-kr ks_c_5601-1987 ksc5601 ksc_5601 korean windows-949",
    "gb18030": "gb18030 gbk gb2312 gb_2312 gb_2312-80 chinese x-gbk csgb2312",
    "big5hkscs": "big5 big5-hkscs cn-big5 x-x-big5",
    "koi8_r": "koi8-r koi8 koi",
    "koi8_u": "koi8-u koi8-ru",
    "cp866": "ibm866 866 cp866",
    "mac_roman": "macintosh mac x-mac-roman",
    "mac_cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    **{f"cp{page}": f"windows-{page} cp{page} x-cp{page}" for page in (1250, 1251, 1253, 1255, 1256, 1257, 1258)},
    **{f"iso8859-{part}": f"iso-8859-{part} iso8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
}
_CODECS_BY_NAME = {name: codec for codec, names in _CODEC_NAMES.items() for name in names.split()}


def decode_page(content: bytes, media_type: str) -> str:
    """Return the text of a body of the declared type; bytes that cannot be decoded become U+FFFD."""
    for mark, codec in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(codec, "replace")
    codec = _header_codec(media_type) or _page_codec(content) or "utf-8"
    return content.decode(codec, "replace")


def _header_codec(media_type: str) -> str | None:
    found = _CHARSET_PARAMETER.search(media_type)
    return _CODECS_BY_NAME.get(found[1].lower()) if found else None


def _page_codec(content: bytes) -> str | None:
    found = _DECLARED_CHARSET.search(content[:_HEAD_BYTES])
    if not found:
        return None
    codec = _CODECS_BY_NAME.get((found[1] or found[2]).decode("ascii", "replace").lower())
    # A page in which this declaration was found as ASCII is not in UTF-16, whatever it declares.
    return "utf-8" if codec in {"utf-16-le", "utf-16-be"} else codec


_BLANKS = re.compile(r"[^\S\n]+")
_LINE_BREAKS = re.compile(r" ?\n ?")
_BLANK_LINES = re.compile(r"\n{3,}")


def clean_text(text: str, *, max_chars: int) -> str:
    """Return the visible text in form NFKC, cut at ``max_chars`` characters."""
    visible = strip_invisible(text)
    if not visible.isascii():
        # Again after normalising, which turns some characters into fillers and blanks.
        visible = strip_invisible(unicodedata.normalize("NFKC", visible))
    lines = _BLANK_LINES.sub("\n\n", _LINE_BREAKS.sub("\n", _BLANKS.sub(" ", visible)))
    return lines.strip()[:max_chars].rstrip()


_CELL_TAGS = frozenset({"td", "th"})
_INLINE_TAGS = frozenset(
    {
        "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins", "kbd",
        "label", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var",
        "wbr", "-text", "-comment",
    }
)  # fmt: skip


def page_text(tree: LexborHTMLParser) -> str:
    """Return the text of a stripped tree, with each block on its own line."""
    parts: list[str] = []
    if tree.body is None:
        return ""
    for node in tree.body.traverse(include_text=True):
        if node.tag == "-text":
            after_block = node.prev is not None and node.prev.tag not in _INLINE_TAGS
            parts.append(f"\n{node.text_content}" if after_block else node.text_content or "")
        elif node.tag in _CELL_TAGS:
            parts.append(" | ")
        elif node.tag not in _INLINE_TAGS:
            parts.append("\n")
    return "".join(parts)
