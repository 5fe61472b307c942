import hashlib
from pathlib import Path

import pytest

from announce_stack import apt
from announce_stack.apt import MACHINE_OPTIONS, Package, PrivateApt
from announce_stack.failure import StackError


def test_a_package_is_intact_only_with_the_bytes_of_the_index(tmp_path: Path) -> None:
    path = tmp_path / "libc6_2.41-12_amd64.deb"
    package = Package(path, hashlib.sha256(b"content").hexdigest())
    assert not package.is_intact()
    path.write_bytes(b"content")
    assert package.is_intact()
    path.write_bytes(b"CONTENT")
    assert not package.is_intact()


def test_a_packages_name_has_neither_version_nor_architecture() -> None:
    assert Package(Path("/x/libz3-4_4.13.3-1_amd64.deb"), "").name == "libz3-4"


@pytest.mark.parametrize(
    ("option", "copied"),
    [
        ('Acquire::http::Proxy "http://127.0.0.1:3128";', True),
        ('Acquire::https::Verify-Peer "true";', True),
        ('Acquire::Check-Date "false";', True),
        ('Acquire::AllowInsecureRepositories "true";', False),
        ('APT::Update::Post-Invoke:: "rm -f /x";', False),
    ],
)
def test_only_how_to_reach_a_mirror_is_copied_from_the_machine(option: str, *, copied: bool) -> None:
    assert bool(MACHINE_OPTIONS.match(option)) is copied


def test_an_unreachable_mirror_is_reported_with_apts_own_words(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"apt-get update failed: .*nowhere"):
        PrivateApt(tmp_path, f"file:{tmp_path}/nowhere", "trixie").update()


def test_an_unsigned_mirror_is_refused(tmp_path: Path) -> None:
    release = tmp_path / "mirror/dists/trixie/Release"
    release.parent.mkdir(parents=True)
    release.write_text("Suite: stable\nCodename: trixie\nComponents: main\nArchitectures: amd64\n")
    with pytest.raises(StackError, match="not signed"):
        PrivateApt(tmp_path / "apt", f"file:{tmp_path}/mirror", "trixie").update()


def test_a_machine_without_debians_keys_is_told_which_package_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "KEYRING", tmp_path / "missing.gpg")
    with pytest.raises(StackError, match="debian-archive-keyring"):
        PrivateApt(tmp_path, "file:/nowhere", "trixie")
