"""Verifiers of parties, by algorithm and type, as clients name them.

A party has one secp256k1 key, from which its address is derived, and one BabyJubJub key, which owns its coins in
zero-knowledge tokens. This node has the keys of its own parties. Another node sends the addresses of its parties, and
the keys of their coins in a token that both nodes have; it does not send the public keys behind the addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rota.abi.codec import with_checksum
from rota.engine.contracts import KnownContracts
from rota.engine.owner_secrets import OwnerSecrets
from rota.engine.verifiers import Verifiers
from rota.keys.names import party_key
from rota.model.sharing import may_distribute
from rota.model.types import NO_CONTRACT, ContractAddress, NodeName, Party, Rejected, node_of
from rota.ports import KeyHolder, UnknownKey
from rota.service.keys.addresses import PartyAddresses

SECP256K1: Final = "ecdsa:secp256k1"
ETH_ADDRESS: Final = "eth_address"
ETH_ADDRESS_CHECKSUM: Final = "eth_address_checksum"
PUBLIC_KEY: Final = "hex_ecdsa_pubkey_uncompressed"
PUBLIC_KEY_0X: Final = "hex_ecdsa_pubkey_uncompressed_0x"
SECP256K1_TYPES: Final = (ETH_ADDRESS, ETH_ADDRESS_CHECKSUM, PUBLIC_KEY, PUBLIC_KEY_0X)

ZETO: Final = "zeto"
BABYJUBJUB: Final = "domain:zeto:snark:babyjubjub"
COMPRESSED_0X: Final = "iden3_pubkey_babyjubjub_compressed_0x"

TYPES: Final = {SECP256K1: SECP256K1_TYPES, BABYJUBJUB: (COMPRESSED_0X,)}


def require_known(algorithm: str, verifier_type: str, algorithms: tuple[str, ...] = tuple(TYPES)) -> None:
    """Raise `Rejected` unless this algorithm has this type of verifier."""
    if algorithm not in algorithms:
        raise Rejected("algorithm", f"must be {' or '.join(algorithms)}, not {algorithm[:80]!r}")
    known = TYPES[algorithm]
    if verifier_type not in known:
        raise Rejected("verifierType", f"must be {' or '.join(known)} for {algorithm}, not {verifier_type[:80]!r}")


def written(address: str, public_key: Callable[[], bytes], verifier_type: str) -> str:
    """Return a secp256k1 verifier as clients read it."""
    match verifier_type:
        case "eth_address":
            return address
        case "eth_address_checksum":
            return with_checksum(address)
        case "hex_ecdsa_pubkey_uncompressed":
            return public_key().hex()
        case _:
            return "0x" + public_key().hex()


class PartyVerifiers:
    """The verifiers that one node can resolve."""

    def __init__(self, node: NodeName, signer: KeyHolder, contracts: KnownContracts, others: Verifiers) -> None:
        self._node: Final = node
        self._signer: Final = signer
        self._secrets: Final = OwnerSecrets(node, signer)
        self._contracts: Final = contracts
        self._others: Final = others
        self.addresses: Final = PartyAddresses(self._address_of, lambda party: others.known(NO_CONTRACT, party))

    async def of(self, party: Party, algorithm: str, verifier_type: str) -> str:
        """Return the verifier of a party; empty when its node has no such party. `Rejected` names the field."""
        require_known(algorithm, verifier_type)
        if node_of(party) == self._node:
            return self._own(party, algorithm, verifier_type)
        return await self._anothers(party, algorithm, verifier_type)

    async def _address_of(self, party: Party) -> str:
        return await self.of(party, SECP256K1, ETH_ADDRESS)

    def _own(self, party: Party, algorithm: str, verifier_type: str) -> str:
        try:
            if algorithm == BABYJUBJUB:
                domain = self._contracts.domain_named(ZETO)
                if domain is None:
                    raise Rejected("algorithm", f"must be {SECP256K1}: {self._node} has no domain {ZETO}")
                return domain.verifier_of(self._secrets.of(party))
            name = party_key(party)
            return written(self._signer.address_of(name), lambda: self._signer.public_key_of(name), verifier_type)
        except (UnknownKey, ValueError) as flaw:
            raise Rejected("keyIdentifier", str(flaw)) from None

    async def _anothers(self, party: Party, algorithm: str, verifier_type: str) -> str:
        if algorithm == BABYJUBJUB:
            return (await self._others.of(self._shared_token(party), (party,)))[party]
        if verifier_type in (PUBLIC_KEY, PUBLIC_KEY_0X):
            text = f"must be {ETH_ADDRESS} or {ETH_ADDRESS_CHECKSUM} for a party of {node_of(party)}: ask that node"
            raise Rejected("verifierType", text)
        address = (await self._others.of(NO_CONTRACT, (party,)))[party]
        return with_checksum(address) if address and verifier_type == ETH_ADDRESS_CHECKSUM else address

    def _shared_token(self, party: Party) -> ContractAddress:
        """Return a token in which that node answers requests for the keys of its parties."""
        for address in self._contracts.addresses():
            hosted = self._contracts.hosted(address)
            if hosted is not None and hosted.domain.name == ZETO and may_distribute(hosted.contract, node_of(party)):
                return address
        text = (
            f"must be a party of {self._node}: {node_of(party)} tells keys of coins in tokens of {ZETO} that both have"
        )
        raise Rejected("keyIdentifier", text)
