"""Signatures: the signed bytes, their signers and their verifiers; the answers to the core's orders about them.

    what                       signed bytes                               form         checked by
    a leaf, by a party         EIP-191 of `bound_hash(leaf, validUntil)`  64 or 65     endorsers, the party's own node
    a round, by an endorser    the round's EIP-712 digest as it is        64           coordinators, the contract
    a refusal, by an endorser  its EIP-712 digest as it is                64           coordinators, the leaf's sender
    a base-ledger transaction  its hash as it is (`ledger.transaction`)   65           the chain

A party signs a leaf together with the end of its validity (trust rule 3), as a message to a wallet (decision 29): any
wallet can sign as a party, and such a signature can be neither a transaction's nor a round's. A wallet gives 65 bytes,
we write 64; both are read, as nothing counts signatures of leaves. An endorsement must be of 64, because the contract
takes no other.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from rota.keys.names import endorser_key, party_key
from rota.keys.secp256k1 import COMPACT_SIGNATURE_BYTES, recover_address, to_compact
from rota.machine.effects import LookUpVerifier
from rota.machine.events import VerifierLookedUp
from rota.model.digests import bound_hash, keccak
from rota.model.types import ContractAddress, Digest, Leaf, NodeName, Party, node_of
from rota.ports import Contracts, Deployments, Signer, Unavailable, UnknownKey
from rota.sequencer.effects import Signed, SignTransition, VerifyEndorsement, VerifyEndorsers, VerifySignature
from rota.sequencer.events import (
    AssemblyFailed,
    EndorsementVerified,
    EndorsersVerified,
    SignatureVerified,
    TransitionSigned,
)

# The number of true signatures of leaves that are remembered: a leaf is checked within seconds of being signed.
TRUE_KEPT_MAX: Final = 8_192

_MESSAGE_HEAD: Final = b"\x19Ethereum Signed Message:\n32"


def leaf_hash(leaf: Leaf, valid_until_s: int) -> bytes:
    """The hash that a party signs for a leaf: that of a wallet for a message of 32 bytes (EIP-191)."""
    return keccak(_MESSAGE_HEAD + bound_hash(leaf, valid_until_s))


def has_signed_leaf(verifier: str, leaf: Leaf, valid_until_s: int, signature: bytes) -> bool:
    """Whether the holder of this address signed that leaf with that end of its validity."""
    return _recovers_to(verifier, leaf_hash(leaf, valid_until_s), signature)


def has_endorsed(verifier: str, digest: Digest, signature: bytes) -> bool:
    """Whether this address signed that round, or refusal, in the one form that the contract takes."""
    return len(signature) == COMPACT_SIGNATURE_BYTES and _recovers_to(verifier, digest, signature)


class Signatures:
    """Signs and verifies for one node. `Unavailable` when the signer is, and then there is no answer."""

    def __init__(self, node: NodeName, signer: Signer, contracts: Contracts, deployments: Deployments) -> None:
        self._node: Final = node
        self._signer: Final = signer
        self._contracts: Final = contracts
        self._deployments: Final = deployments
        self._true: Final[OrderedDict[tuple[str, Leaf, int, bytes], None]] = OrderedDict()

    async def sign_transition(self, order: SignTransition) -> TransitionSigned | AssemblyFailed:
        """A party of ours signs a leaf, and so do the cosigners, which are ours too."""
        signed, signatures = leaf_hash(order.leaf, order.valid_until_s), []
        for party in (order.party, *order.cosigners):
            try:
                key = self.key_of(party)
                signature = to_compact(await self._signer.sign(key, signed))
            except Unavailable as error:
                return AssemblyFailed(order.request_id, order.intent, f"the signer of {party}: {error}")
            self._keep_true(self._signer.address_of(key), order.leaf, order.valid_until_s, signature)
            signatures.append(signature)
        return TransitionSigned(order.request_id, order.intent, signatures[0], tuple(signatures[1:]))

    def verify_signature(self, order: VerifySignature) -> SignatureVerified:
        """Is this the signature of our own party?"""
        verifier = self.verifier_of(order.party)
        is_ours = bool(verifier) and self.has_signed(verifier, order.leaf, order.valid_until_s, order.signature)
        return SignatureVerified(order.request_id, order.intent, is_ours)

    def has_signed(self, verifier: str, leaf: Leaf, valid_until_s: int, signature: bytes) -> bool:
        """The answer of `has_signed_leaf`. The node does not check a signature again that it made or found to be true.

        A true signature stays true, whichever peer sends it. A false one is not remembered, since any peer can make it
        up.
        """
        if (verifier, leaf, valid_until_s, signature) in self._true:
            return True
        is_true = has_signed_leaf(verifier, leaf, valid_until_s, signature)
        if is_true:
            self._keep_true(verifier, leaf, valid_until_s, signature)
        return is_true

    def _keep_true(self, verifier: str, leaf: Leaf, valid_until_s: int, signature: bytes) -> None:
        self._true[verifier, leaf, valid_until_s, signature] = None
        if len(self._true) > TRUE_KEPT_MAX:
            self._true.popitem(last=False)

    def look_up_verifier(self, order: LookUpVerifier) -> VerifierLookedUp:
        """The address by which others know a party of ours; empty when there is none."""
        verifier = self.verifier_of(order.party)
        return VerifierLookedUp(order.peer, order.request_id, order.party, verifier)

    def verifier_of(self, party: Party) -> str:
        """The address of a party of ours; empty when we have no key for it."""
        try:
            return self._signer.address_of(self.key_of(party))
        except UnknownKey:
            return ""

    async def sign_as_endorser(self, contract: ContractAddress, digest: Digest) -> bytes:
        """Our endorsement of a round that the domain accepts, or our refusal of a leaf."""
        deployment = self._deployments.deployment_of(contract)
        if deployment is None:
            raise Unavailable(f"it is not known which intent deployed {contract}")
        name = endorser_key(self._node, deployment)
        ours, expected = self._signer.address_of(name), self._endorser_address(contract, self._node)
        if ours != expected:
            raise Unavailable(f"{contract} has {expected or 'no address'} for us, and our key there is {ours}")
        return to_compact(await self._signer.sign(name, digest))

    def verify_endorsement(self, order: VerifyEndorsement) -> EndorsementVerified:
        """Would the contract count this signature for that endorser?"""
        verifier = self._endorser_address(order.contract, order.peer)
        is_valid = bool(verifier) and has_endorsed(verifier, order.digest, order.signature)
        return EndorsementVerified(order.peer, order.digest, order.signature, is_valid)

    def verify_endorsers(self, order: VerifyEndorsers) -> EndorsersVerified:
        """Which of these are their endorsers' own?"""
        are_valid = tuple(self._is_of(order.contract, each) for each in order.signed)
        return EndorsersVerified(order.request_id, are_valid, order.intent)

    def _is_of(self, contract: ContractAddress, signed: Signed) -> bool:
        verifier = self._endorser_address(contract, signed.endorser)
        return bool(verifier) and has_endorsed(verifier, signed.digest, signed.signature)

    def _endorser_address(self, contract: ContractAddress, node: NodeName) -> str:
        policy = self._contracts.policy_of(contract)
        return "" if policy is None else dict(policy.endorsers).get(node, "")

    def key_of(self, party: Party) -> str:
        """The name of the key of a party of ours. `UnknownKey` when it is another node's, or has no proper name."""
        if node_of(party) != self._node:
            raise UnknownKey(f"the party is not one of {self._node}")
        try:
            return party_key(party)
        except ValueError as error:
            raise UnknownKey(str(error)) from None


def _recovers_to(verifier: str, digest: bytes, signature: bytes) -> bool:
    try:
        return "0x" + recover_address(digest, signature).hex() == verifier
    except ValueError:
        return False
