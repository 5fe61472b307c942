from announce_stack.demo.console import Style
from announce_stack.demo.table import Cell, Column, render

COLUMNS = (Column("what", wraps=True), Column("ms", align=">"), Column("outcome", wraps=True))
ROWS = [
    [Cell("to a phone and a chat"), Cell("14"), Cell("sent", Style.GREEN)],
    [Cell("late"), Cell("7"), Cell("")],
]


def plain(text: str, _style: Style | None) -> str:
    return text


def marked(text: str, style: Style | None) -> str:
    return f"<{text}>" if style else text


def test_a_table_that_fits_is_as_wide_as_its_texts() -> None:
    assert list(render(COLUMNS, ROWS, 80, plain)) == [
        "what                   ms  outcome",
        "---------------------  --  -------",
        "to a phone and a chat  14  sent",
        "late                    7",
    ]


def test_a_table_that_does_not_fit_is_wrapped_between_words() -> None:
    lines = list(render(COLUMNS, ROWS, 24, plain))
    assert lines == [
        "what         ms  outcome",
        "-----------  --  -------",
        "to a phone   14  sent",
        "and a chat",
        "late          7",
    ]
    assert max(map(len, lines)) <= 24


def test_a_word_is_never_broken_however_narrow_it_gets() -> None:
    assert "phone" in "\n".join(render(COLUMNS, ROWS, 1, plain))


def test_a_style_holds_for_the_text_and_not_for_the_blanks_around_it() -> None:
    lines = list(render(COLUMNS, ROWS, 80, marked))
    assert lines[0] == "<what>                   <ms>  <outcome>"
    assert lines[2] == "to a phone and a chat  14  <sent>"
