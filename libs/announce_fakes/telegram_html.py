"""Telegram's HTML parse mode: what it accepts, and the words in which it refuses the rest.

The rules and messages are those that tdlib's own tests state. Entities are checked, not returned: what is
left is the text that the 4,096 characters are counted in.
"""

import html
import re

_TAGS = frozenset(
    "a b blockquote code del em i ins pre s span strike strong tg-emoji tg-spoiler u".split()  # noqa: SIM905  a list of words
)
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_ENTITY = re.compile(r"&(?:(lt|gt|amp|quot)|#([0-9]{1,8})|#x([0-9a-fA-F]{1,7}));?")
_MARK = re.compile(r"[<&]")
_START_NAME = re.compile(r"[^\s>]*")
_END_NAME = re.compile(r"[^\s>]*")
_SPACE = re.compile(r"\s*")
_ATTRIBUTE_NAME = re.compile(r"[^\s=]*")
_BARE_VALUE = re.compile(r"[a-zA-Z0-9.\-]*")
_SURROGATES = range(0xD800, 0xE000)
_LAST_CODE_POINT = 0x10FFFF


class EntityError(ValueError):
    """A text can't be parsed; the message is Telegram's, without its beginning."""


def parse_html(text: str) -> str:
    """Takes the tags and entities out of a text.

    Raises:
        EntityError: Telegram wouldn't accept it.
    """
    return _Parser(text).parse() if _MARK.search(text) else text


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._begin = 0
        self._open: list[str] = []
        self._plain: list[str] = []

    def parse(self) -> str:
        while (mark := _MARK.search(self._text, self._at)) is not None:
            self._plain.append(self._text[self._at : mark.start()])
            self._at = self._begin = mark.start()
            if mark[0] == "&":
                self._entity()
            elif self._text.startswith("</", self._at):
                self._end_tag()
            else:
                self._start_tag()
        self._plain.append(self._text[self._at :])
        if self._open:
            raise EntityError(f'Can\'t find end tag corresponding to start tag "{self._open[-1]}"')
        return "".join(self._plain)

    def _entity(self) -> None:
        match = _ENTITY.match(self._text, self._at)
        point = 0
        if match is not None and not match[1]:
            point = int(match[2]) if match[2] else int(match[3], 16)
        if match is None or (not match[1] and not 0 < point < _LAST_CODE_POINT):
            self._plain.append("&")
            self._at += 1
            return
        if point in _SURROGATES:
            raise EntityError(
                "Text contains invalid Unicode characters after decoding HTML entities, check for unmatched"
                " surrogate code units"
            )
        self._plain.append(_NAMED[match[1]] if match[1] else chr(point))
        self._at = match.end()

    def _start_tag(self) -> None:
        name = self._take(_START_NAME, skip=1).lower()
        if self._ended:
            raise self._error("Unclosed start tag")
        if name not in _TAGS:
            raise self._error(f'Unsupported start tag "{name}"')
        attributes: dict[str, str] = {}
        while not self._closed(name):
            key, value = self._attribute(name)
            attributes[key] = value
        if name == "span" and attributes.get("class") != "tg-spoiler":
            raise self._error('Tag "span" must have class "tg-spoiler"')
        self._open.append(name)

    def _closed(self, name: str) -> bool:
        self._take(_SPACE)
        if self._ended:
            raise self._error(f'Unclosed start tag "{name}"')
        if self._text[self._at] != ">":
            return False
        self._at += 1
        return True

    def _attribute(self, tag: str) -> tuple[str, str]:
        key = self._take(_ATTRIBUTE_NAME)
        if not key:
            raise self._error(f'Empty attribute name in the tag "{tag}"')
        self._take(_SPACE)
        if self._ended or self._text[self._at] != "=":
            raise self._error(f'Expected equal sign in declaration of an attribute of the tag "{tag}"')
        self._at += 1
        self._take(_SPACE)
        if self._ended:
            raise self._error(f'Unclosed start tag "{tag}"')
        return key.lower(), self._value()

    def _value(self) -> str:
        quote = self._text[self._at]
        if quote in "'\"":
            end = self._text.find(quote, self._at + 1)
            if end < 0:
                raise self._error("Unclosed start tag")
            value, self._at = html.unescape(self._text[self._at + 1 : end]), end + 1
            return value
        value_begin = self._at
        value = self._take(_BARE_VALUE)
        if self._ended or not (self._text[self._at].isspace() or self._text[self._at] == ">"):
            self._begin = value_begin
            raise self._error("Unexpected end of name token")
        return value

    def _end_tag(self) -> None:
        if not self._open:
            raise self._error("Unexpected end tag")
        name = self._take(_END_NAME, skip=2)
        self._take(_SPACE)
        if self._ended or self._text[self._at] != ">":
            raise self._error("Unclosed end tag")
        self._at += 1
        expected = self._open.pop()
        if name and name.lower() != expected:
            where = self._error("Unmatched end tag")
            raise EntityError(f'{where}, expected "</{expected}>", found "</{name}>"')

    def _take(self, pattern: re.Pattern[str], skip: int = 0) -> str:
        match = pattern.match(self._text, self._at + skip)
        self._at = len(self._text) if match is None else match.end()
        return "" if match is None else match[0]

    @property
    def _ended(self) -> bool:
        return self._at >= len(self._text)

    def _error(self, said: str) -> EntityError:
        return EntityError(f"{said} at byte offset {len(self._text[: self._begin].encode())}")
