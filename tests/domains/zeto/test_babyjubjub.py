"""BabyJubJub: the vectors of EIP-2494, and what a key must be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domains.zeto.babyjubjub import (
    BASE,
    BASE_ORDER,
    SCALAR_BITS,
    ZERO,
    Point,
    add,
    compress,
    decompress,
    key_of,
    times,
)
from rota.domains.zeto.field import ORDER

# EIP-2494, "Test vectors".
FIRST = Point(
    17777552123799933955779906779655732241715742912184938656739573121738514868268,
    2626589144620713026669568689430873010625803728049924121243784502389097019475,
)
SECOND = Point(
    16540640123574156134436876038791482806971768689494387082833631921987005038935,
    20819045374670962167435360035096875258406992893633759881276124905556507972311,
)
SUM = Point(
    7916061937171219682591368294088513039687205273691143098332585753343424131937,
    14035240266687799601661095864649209771790948434046947201833777492504781204499,
)
DOUBLE = Point(
    6890855772600357754907169075114257697580319025794532037257385534741338397365,
    4338620300185947561074059802482547481416142213883829469920100239455078257889,
)
scalars = st.integers(1, (1 << SCALAR_BITS) - 1)


def test_sums_are_those_of_the_standard() -> None:
    assert add(FIRST, SECOND) == SUM
    assert add(FIRST, FIRST) == DOUBLE
    assert add(FIRST, ZERO) == FIRST


@given(scalars, scalars)
def test_multiples_add_up(left: int, right: int) -> None:
    assert add(key_of(left), key_of(right)) == times((left + right) % BASE_ORDER, BASE)


@given(scalars)
def test_a_key_survives_compression(scalar: int) -> None:
    key = key_of(scalar)
    assert key.is_on_curve
    assert decompress(compress(key)) == key


def test_no_two_scalars_have_one_key() -> None:
    assert 1 << SCALAR_BITS < BASE_ORDER
    assert BASE.is_key
    with pytest.raises(AssertionError, match="scalar"):
        key_of(1 + BASE_ORDER)


@pytest.mark.parametrize(
    "point",
    [ZERO, Point(1, 1), Point(0, ORDER - 1), Point(BASE.x + ORDER, BASE.y)],
    ids=["zero", "beside the curve", "of a small group", "written in another way"],
)
def test_what_cannot_be_spent_is_no_key(point: Point) -> None:
    assert not point.is_key


@pytest.mark.parametrize(
    "compressed", [b"", bytes(33), ORDER.to_bytes(32, "little"), (2).to_bytes(32, "little")], ids=len
)
def test_bytes_that_are_no_point_are_refused(compressed: bytes) -> None:
    with pytest.raises(ValueError, match=r"point"):
        decompress(compressed)


def test_zero_has_one_form() -> None:
    with pytest.raises(ValueError, match="no point"):
        decompress((1 | 1 << 255).to_bytes(32, "little"))
