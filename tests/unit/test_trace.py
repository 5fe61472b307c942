import re

from announce.model.trace import continue_trace

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FORM = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def test_a_trace_goes_on_under_a_new_span() -> None:
    child = continue_trace(PARENT)
    assert FORM.fullmatch(child)
    assert child[:36] == PARENT[:36]
    assert child[36:52] != PARENT[36:52]
    assert child[52:] == PARENT[52:]


def test_without_a_valid_parent_a_new_trace_begins() -> None:
    for parent in (None, "", "junk", PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32), PARENT + "\n"):
        assert FORM.fullmatch(continue_trace(parent))
        assert continue_trace(parent)[:36] != PARENT[:36]
