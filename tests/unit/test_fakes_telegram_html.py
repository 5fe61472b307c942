import pytest
from hypothesis import given
from hypothesis import strategies as st

from announce_fakes.telegram_html import EntityError, parse_html

SURROGATES = (
    "Text contains invalid Unicode characters after decoding HTML entities, check for unmatched surrogate code units"
)
FLAG = "🏟 🏟&lt;"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("", ""),
        ("plain", "plain"),
        ("&lt;&gt;&amp;&quot;&laquo;&#12345678;", '<>&"&laquo;&#12345678;'),
        ("&lt&gt&amp", "<>&"),
        ("&#65;&#x42;&#67", "ABC"),
        ("a & b", "a & b"),
        ("&#0;", "&#0;"),
        ("<b>x</b><STRONG>y</strong>", "xy"),
        ("<i>a<b aba   =   caba>b</b></i>", "ab"),
        ("<i    aba  =  190azAz-.   >a</i>", "a"),
        ("<i    aba  =  '&lt;&gt;&quot;'>a</>", "a"),
        ("<i>a</i   >", "a"),
        ("<b></b>", ""),
        ('<a href="http://x/?a=1&amp;b=2">x</a>', "x"),
        ("<a href=telegram.org> </a>", " "),
        ('<pre><code class="language-fift">x</></>', "x"),
        ('<span class="tg-spoiler">x</span><tg-spoiler>y</tg-spoiler>', "xy"),
        ("<blockquote>x</blockquote>", "x"),
        ("line\n<u>two</u>\n", "line\ntwo\n"),
        ("a > b", "a > b"),
    ],
)
def test_what_telegram_accepts(text: str, plain: str) -> None:
    assert parse_html(text) == plain


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FLAG + "<abacaba", "Unclosed start tag at byte offset 13"),
        (FLAG + "<abac aba>", 'Unsupported start tag "abac" at byte offset 13'),
        (FLAG + "<abac>", 'Unsupported start tag "abac" at byte offset 13'),
        ("a < b>", 'Unsupported start tag "" at byte offset 2'),
        (FLAG + "<i   =aba>", 'Empty attribute name in the tag "i" at byte offset 13'),
        (FLAG + "<i    aba>", 'Expected equal sign in declaration of an attribute of the tag "i" at byte offset 13'),
        (FLAG + "<i    aba  =  ", 'Unclosed start tag "i" at byte offset 13'),
        (FLAG + "<i    aba  =  190azAz-.,", "Unexpected end of name token at byte offset 27"),
        (FLAG + '<i    aba  =  "&lt;&gt;&quot;>', "Unclosed start tag at byte offset 13"),
        (FLAG + "</", "Unexpected end tag at byte offset 13"),
        (FLAG + "<b></b></", "Unexpected end tag at byte offset 20"),
        (FLAG + "<i>a</i   ", "Unclosed end tag at byte offset 17"),
        (FLAG + "<i>a</em   >", 'Unmatched end tag at byte offset 17, expected "</i>", found "</em>"'),
        ("<b>x", 'Can\'t find end tag corresponding to start tag "b"'),
        ("<b><i>x</i>", 'Can\'t find end tag corresponding to start tag "b"'),
        ("<span>x</span>", 'Tag "span" must have class "tg-spoiler" at byte offset 0'),
        ("x<br>y", 'Unsupported start tag "br" at byte offset 1'),
        ("&#xDFDF;", SURROGATES),
        ("&#57311", SURROGATES),
    ],
)
def test_what_telegram_refuses(text: str, message: str) -> None:
    with pytest.raises(EntityError) as caught:
        parse_html(text)
    assert str(caught.value) == message


@given(st.text(alphabet="<>/&;=\"' abi#x1é\n", max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        plain = parse_html(text)
    except EntityError:
        return
    assert len(plain) <= len(text)


@given(st.text(max_size=60))
def test_escaped_text_comes_back_as_it_was(text: str) -> None:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert parse_html(f"<b>{escaped}</b>") == text
