from pathlib import Path

import pytest

from announce_stack.failure import StackError
from announce_stack.mirror import Source, debian_mirror, machine_mirror, parse_deb822, parse_list

ONE_LINE = """\
# deb http://commented.example/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/vendor.gpg] https://vendor.example/apt cloud-bookworm main
deb [ trusted=yes ] http://security.example/debian-security bookworm-security main
deb-src http://sources.example/debian bookworm main
deb http://one.example/debian bookworm main contrib # the one
deb
"""

DEB822 = """\
Types: deb
URIs: https://vendor.example/node
Suites: nodistro
Components: main

Types: deb deb-src
# a comment within a stanza
URIs: http://first.example/debian
 http://second.example/debian
Suites: bookworm bookworm-updates
Components: main non-free
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBFc=
 -----END PGP PUBLIC KEY BLOCK-----

Enabled: no
Types: deb
URIs: http://disabled.example/debian
Suites: trixie
Components: main
"""


def test_one_line_entries_are_read_with_and_without_options() -> None:
    assert list(parse_list(ONE_LINE)) == [
        Source(("https://vendor.example/apt",), ("cloud-bookworm",), ("main",)),
        Source(("http://security.example/debian-security",), ("bookworm-security",), ("main",)),
        Source(("http://one.example/debian",), ("bookworm",), ("main", "contrib")),
    ]


def test_stanzas_are_read_with_comments_continuation_lines_and_disabled_ones() -> None:
    assert list(parse_deb822(DEB822)) == [
        Source(("https://vendor.example/node",), ("nodistro",), ("main",)),
        Source(
            ("http://first.example/debian", "http://second.example/debian"),
            ("bookworm", "bookworm-updates"),
            ("main", "non-free"),
        ),
    ]


def test_the_mirror_is_that_of_debians_own_releases() -> None:
    assert debian_mirror(parse_list(ONE_LINE)) == "http://one.example/debian"
    assert debian_mirror(parse_deb822(DEB822)) == "http://first.example/debian"


def test_a_cdrom_is_no_mirror() -> None:
    assert debian_mirror(parse_list("deb cdrom:[Debian]/ bookworm main\n")) is None


def test_both_kinds_of_files_are_looked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BA_DEBIAN_MIRROR", raising=False)
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text("deb https://vendor.example/apt jammy main\n")
    (tmp_path / "sources.list.d" / "debian.sources").write_text(DEB822)
    assert machine_mirror(tmp_path) == "http://first.example/debian"


def test_the_environment_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BA_DEBIAN_MIRROR", "http://chosen.example/debian")
    assert machine_mirror(tmp_path) == "http://chosen.example/debian"


def test_a_machine_without_debian_sources_is_told_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BA_DEBIAN_MIRROR", raising=False)
    with pytest.raises(StackError, match="BA_DEBIAN_MIRROR"):
        machine_mirror(tmp_path)
