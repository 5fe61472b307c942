import gzip
import zlib
from collections.abc import Callable
from importlib import import_module

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from announce.archive.embedded.encoding import Decoder, Encoder, choose
from announce.archive.embedded.failure import QueryError

lz4 = import_module("lz4.frame")
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstd.compress,
    "lz4": lz4.compress,
}


@given(st.sampled_from(sorted(PACK)), st.lists(st.binary(max_size=300), min_size=1, max_size=4), st.integers(1, 50))
def test_frames_one_behind_the_other_are_decoded_wherever_they_are_cut(
    coding: str, frames: list[bytes], step: int
) -> None:
    body = b"".join(map(PACK[coding], frames))
    decoder = Decoder(coding)
    rows = b"".join(decoder.decode(body[at : at + step]) for at in range(0, len(body), step))
    decoder.finish()
    assert rows == b"".join(frames)


@given(st.sampled_from([*sorted(PACK), None]), st.lists(st.binary(max_size=300), max_size=4))
def test_what_is_encoded_can_be_decoded(coding: str | None, pieces: list[bytes]) -> None:
    encoder, decoder = Encoder(coding), Decoder(coding or "identity")
    body = b"".join(map(encoder.encode, pieces)) + encoder.finish()
    assert decoder.decode(body) == b"".join(pieces)
    decoder.finish()


@pytest.mark.parametrize("coding", PACK)
def test_a_broken_body_is_refused(coding: str) -> None:
    with pytest.raises(QueryError, match=f"can't be decoded.*{coding}"):
        Decoder(coding).decode(b"no such thing at all")
    decoder = Decoder(coding)
    decoder.decode(PACK[coding](b"rows" * 99)[:-5])
    with pytest.raises(QueryError, match="ends too early"):
        decoder.finish()


def test_an_unknown_coding_is_refused() -> None:
    with pytest.raises(QueryError, match="snappy"):
        Decoder("snappy")


def test_the_cheapest_of_the_accepted_codings_is_chosen() -> None:
    assert choose("gzip, deflate, br, ZSTD;q=0.1") == "zstd"
    assert choose("lz4,zstd,gzip") == "lz4"
    assert choose("") is choose("br, identity") is None
