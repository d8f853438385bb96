"""Transactions, against EIP-155's published example and what another implementation made of the same fields."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.keys.secp256k1 import PrivateKey, recover_address
from rota.ledger import rlp
from rota.ledger.transaction import (
    RAW_BYTES_MAX,
    AccessEntry,
    AccessListTransaction,
    DynamicFeeTransaction,
    LegacyTransaction,
    Transaction,
    created_address,
    decode,
    signing_hash,
    type_of,
    with_signature,
)

KEY = PrivateKey(b"\x46" * 32)  # the key of EIP-155's example
TO = b"\x35" * 20

EIP_155 = LegacyTransaction(nonce=9, gas_price=20 * 10**9, gas_limit=21_000, to=TO, value=10**18, chain_id=1)
ACCESS = AccessListTransaction(
    chain_id=31337,
    nonce=0,
    gas_price=7,
    gas_limit=100_000,
    to=b"\x11" * 20,
    data=bytes.fromhex("deadbeef"),
    access_list=(AccessEntry(b"\x22" * 20, (bytes(31) + b"\x01", b"\xff" * 32)), AccessEntry(b"\x33" * 20)),
)
CREATION = DynamicFeeTransaction(
    chain_id=31337,
    nonce=300,
    max_priority_fee_per_gas=10**9,
    max_fee_per_gas=3 * 10**9,
    gas_limit=1_234_567,
    to=None,
    value=5,
    data=b"\x60" * 60,
)
DYNAMIC = DynamicFeeTransaction(
    chain_id=1,
    nonce=0,
    max_priority_fee_per_gas=0,
    max_fee_per_gas=2**200,
    gas_limit=21_000,
    to=TO,
    value=2**255,
    access_list=(AccessEntry(b"\x22" * 20, (bytes(31) + b"\x01",)),),
)

# The first raw transaction is the one that EIP-155 prints. The others, and all hashes, were made with eth-account.
VECTORS: list[tuple[Transaction, str, str]] = [
    (
        EIP_155,
        "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025"
        "a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276"
        "a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83",
        "33469b22e9f636356c4160a87eb19df52b7412e8eac32a4a55ffe88ea8350788",
    ),
    (
        replace(EIP_155, chain_id=None),
        "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a7640000801b"
        "a08383adc8b8ae116f918fb44ca7ff9dfd8012596a5c130c6246a2cc717ba41cda"
        "a053ddfacf5bd4aa7e46d1575acf52636ea659b91f29e2fb91c75567a279738f38",
        "9eb247ec381302e0ac0c3c8d8d14969bb49d31ae3d266274d3112e1a86585d94",
    ),
    (
        ACCESS,
        "01f8db827a698007830186a09411111111111111111111111111111111111111118084deadbeeff872"
        "f859942222222222222222222222222222222222222222f842"
        "a00000000000000000000000000000000000000000000000000000000000000001"
        "a0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
        "d6943333333333333333333333333333333333333333c080"
        "a09af1e44bfefba8a028acb8358af1f2e08d852ebf676d1f090df47bf49e1403a5"
        "a053db49579480293bdc36e5f22e4f6be69d115260f4e62ff954b3b864ccd84ef4",
        "7e7030bc59500159df20453a499ddfba38113e3fcaed413b220efdff7df97959",
    ),
    (
        CREATION,
        "02f898827a6982012c843b9aca0084b2d05e008312d6878005b83c" + "60" * 60 + "c001"
        "a06a7d8b383303f29283f1afe747bf69b3f4cdb9da6de950558cafe3c5ebaa9b47"
        "a027ee0b596b9c4ae8a23f9225cc040c84d44c9f85d70eacc068cc963c85e8917b",
        "3d3b622d8a82c9bc681a7908111ff803efe308d26da33d63d0d99555c1b9043e",
    ),
    (
        DYNAMIC,
        "02f8d50180809a01" + "00" * 25 + "825208943535353535353535353535353535353535353535"
        "a0800000000000000000000000000000000000000000000000000000000000000080"
        "f838f7942222222222222222222222222222222222222222"
        "e1a0000000000000000000000000000000000000000000000000000000000000000180"
        "a005bc5038d79840ca48875c9367ee2b9e4b0c2417fe6e792029e3a0cc8f7d4ba2"
        "a0110606e48aa08e703319985aa420a52f789ecc5d21c69d341684a6f69a41086b",
        "f0c5ee61938ff36a89e07dabac6c13b65c9b46e8dff3ab20e32e919ed86a2dce",
    ),
]


@pytest.mark.parametrize(("transaction", "raw", "transaction_hash"), VECTORS)
def test_transactions_are_signed_and_read_as_others_do(
    transaction: Transaction, raw: str, transaction_hash: str
) -> None:
    signed = with_signature(transaction, KEY.sign(signing_hash(transaction)))
    assert signed.raw.hex() == raw
    assert signed.hash.hex() == transaction_hash
    assert decode(bytes.fromhex(raw)) == signed
    assert signed.sender(recover_address) == KEY.address


def test_what_is_signed_is_the_hash_that_eip_155_prints() -> None:
    assert signing_hash(EIP_155).hex() == "daf5a779ae972f972197303d7b574746c7ef83eadac0f2791ad23db92e4c8e53"


@pytest.mark.parametrize(
    ("sender", "nonce", "address"),
    [
        ("6ac7ea33f8831ea9dcc53393aaa88b25a785dbf0", 0, "cd234a471b72ba2f1ccf0a70fcaba648a5eecd8d"),
        ("6ac7ea33f8831ea9dcc53393aaa88b25a785dbf0", 1, "343c43a37d37dff08ae8c4a11544c718abb4fcf8"),
        ("f39fd6e51aad88f6f4ce6ab8827279cfffb92266", 0, "5fbdb2315678afecb367f032d93f642f64180aa3"),
    ],
)
def test_a_created_contract_lands_where_everybody_knows(sender: str, nonce: int, address: str) -> None:
    assert created_address(bytes.fromhex(sender), nonce).hex() == address


words = st.integers(0, 2**256 - 1)
longs = st.integers(0, 2**64 - 1)
recipients = st.none() | st.binary(min_size=20, max_size=20)
access_lists = st.lists(
    st.builds(
        AccessEntry,
        st.binary(min_size=20, max_size=20),
        st.lists(st.binary(min_size=32, max_size=32), max_size=3).map(tuple),
    ),
    max_size=3,
).map(tuple)
payloads = st.binary(max_size=100)
transactions: st.SearchStrategy[Transaction] = st.one_of(
    st.builds(
        LegacyTransaction,
        nonce=longs,
        gas_price=words,
        gas_limit=longs,
        to=recipients,
        value=words,
        data=payloads,
        chain_id=st.none() | longs,
    ),
    st.builds(
        AccessListTransaction,
        chain_id=longs,
        nonce=longs,
        gas_price=words,
        gas_limit=longs,
        to=recipients,
        value=words,
        data=payloads,
        access_list=access_lists,
    ),
    st.builds(
        DynamicFeeTransaction,
        chain_id=longs,
        nonce=longs,
        max_priority_fee_per_gas=words,
        max_fee_per_gas=words,
        gas_limit=longs,
        to=recipients,
        value=words,
        data=payloads,
        access_list=access_lists,
    ),
)


@given(transactions)
def test_every_transaction_comes_back_as_it_was_sent(transaction: Transaction) -> None:
    signed = with_signature(transaction, KEY.sign(signing_hash(transaction)))
    assert decode(signed.raw) == signed
    assert decode(signed.raw).sender(recover_address) == KEY.address


@given(transactions, st.integers(0, 300), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_is_another_transaction(transaction: Transaction, at: int, byte: int) -> None:
    signed = with_signature(transaction, KEY.sign(signing_hash(transaction)))
    hostile = signed.raw[:at] + bytes([byte]) + signed.raw[at + 1 :]
    if hostile == signed.raw:
        return
    try:
        other = decode(hostile)
        sender = other.sender(recover_address)
    except ValueError:
        return
    assert other.hash != signed.hash
    assert sender != KEY.address


def fields_of(transaction: Transaction) -> list[rlp.Item]:
    signed = with_signature(transaction, KEY.sign(signing_hash(transaction)))
    items = rlp.decode(signed.raw[1:] if type_of(transaction) else signed.raw)
    assert isinstance(items, tuple)
    return list(items)


@pytest.mark.parametrize(
    ("transaction", "field", "value", "flaw"),
    [
        (EIP_155, 0, b"\0", "nonce has a leading zero"),
        (EIP_155, 0, b"\x01" * 9, "nonce has 9 bytes"),
        (EIP_155, 1, b"\x01" * 33, "gasPrice has 33 bytes"),
        (EIP_155, 2, (), "gas is a list"),
        (EIP_155, 3, b"\x35" * 19, "to is empty or an address of 20 bytes, not 19"),
        (EIP_155, 3, (), "to is a list"),
        (EIP_155, 4, b"\0\x01", "value has a leading zero"),
        (EIP_155, 5, (), "data is a list"),
        (EIP_155, 6, b"\x1d", "v is 27, 28 or at least 35, not 29"),
        (EIP_155, 7, b"\x01" * 33, "r has 33 bytes"),
        (EIP_155, 8, (), "s is a list"),
        (ACCESS, 0, b"\x01" * 9, "chainId has 9 bytes"),
        (ACCESS, 7, b"", "accessList is a string"),
        (ACCESS, 7, ((b"\x22" * 20,),), "an entry of accessList"),
        (ACCESS, 7, ((b"\x22" * 19, ()),), "an entry of accessList"),
        (ACCESS, 7, ((b"\x22" * 20, (b"\x01" * 31,)),), "an entry of accessList"),
        (ACCESS, 8, b"\x02", "yParity is 0 or 1, not 2"),
        (DYNAMIC, 2, b"\0", "maxPriorityFeePerGas has a leading zero"),
        (DYNAMIC, 3, b"\0", "maxFeePerGas has a leading zero"),
        (DYNAMIC, 4, b"\x01" * 9, "gas has 9 bytes"),
    ],
)
def test_a_wrong_field_is_refused_by_name(transaction: Transaction, field: int, value: rlp.Item, flaw: str) -> None:
    fields = fields_of(transaction)
    fields[field] = value
    kind = type_of(transaction)
    with pytest.raises(ValueError, match=flaw):
        decode((bytes([kind]) if kind else b"") + rlp.encode(fields))


@pytest.mark.parametrize(
    ("raw", "flaw"),
    [
        (b"", "is not empty"),
        (b"\x03\xc0", "type 3 is not supported"),
        (b"\x80", "type 128 is not supported"),
        (b"\xc0", "a list of 9 fields, not 0 fields"),
        (b"\x02\xc0", "a list of 12 fields, not 0 fields"),
        (b"\x01\x80", "a list of 11 fields, not a string"),
        (b"\x02", "RLP: no bytes at all"),
        (bytes(RAW_BYTES_MAX + 1), "at most 131072 bytes, not 131073"),
    ],
)
def test_bytes_that_are_no_transaction_are_refused_with_what_is_wrong(raw: bytes, flaw: str) -> None:
    with pytest.raises(ValueError, match=flaw):
        decode(raw)


def test_a_signature_with_a_high_s_has_no_sender() -> None:
    signed = with_signature(EIP_155, KEY.sign(signing_hash(EIP_155)))
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    with pytest.raises(ValueError, match="lower half"):
        replace(signed, s=order - signed.s, parity=1 - signed.parity).sender(recover_address)
