"""The names of keys, their purposes, and the path at which a wallet has each of them.

    submitter                         pays for what the node submits      m/44'/60'/0'/0/0
    registrar                         owns the node's registration        m/44'/60'/0'/0/1
    submitter/CONTRACT                the same, for one contract          m/44'/60'/1'/[CONTRACT]
    party/PARTY                       is a party: its one address         m/44'/60'/2'/[PARTY]
    endorser/NODE/DEPLOYMENT          signs the rounds of a contract      m/44'/60'/3'/[NODE]/[DEPLOYMENT]
    coins/PARTY                       owns a party's coins                m/44'/60'/4'/[PARTY]

[X] is eight hardened steps: the first 248 bits of the SHA-256 of X in UTF-8, 31 bits a step, the highest first. A
single step would hold 31 bits, and an attacker who chooses names or addresses finds two that agree in 31, or in 62,
with little work; with 248 this is infeasible. As all steps are hardened, one key that becomes known shows nothing about
another. The first two paths are those that every wallet shows first, so that an operator sees and funds them with any
tool. The registrar is not the submitter, because two users of one account's nonces that do not know of each other
conflict: a node may run while it is registered.

A party has one address, wherever it acts: it signs transitions and public transactions with the same key, and is
`msg.sender` of a private contract by the same address (decision 81). What the chain shows of a private contract are its
endorsers, and their keys are new in every contract: no two contracts show the same address of a member (protocol §2).

An endorser's key cannot be derived from the contract's address, because that address is computed from the endorsers'
addresses (`Factory`). It is derived from the id of the intent that deploys the contract, in 32 hex digits, which is
used once per factory and is in the deployment's event.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final, NewType

from rota.keys.derivation import HARDENED, Path
from rota.model.types import SHARED_ACCOUNT, ContractAddress, IntentId, NodeName, Party, address_bytes

KeyName = NewType("KeyName", str)

NAME_BYTES_MAX: Final = 255
STEPS_PER_NAME: Final = 8
BITS_PER_STEP: Final = 31
DEPLOYMENT_BYTES: Final = 16

SUBMITTER: Final = KeyName("submitter")
REGISTRAR: Final = KeyName("registrar")

_ETHEREUM: Final[Path] = (44 + HARDENED, 60 + HARDENED)
_PATHS: Final[Mapping[str, Path]] = {SUBMITTER: (*_ETHEREUM, HARDENED, 0, 0), REGISTRAR: (*_ETHEREUM, HARDENED, 0, 1)}
_SUBMITTERS: Final[Path] = (*_ETHEREUM, 1 + HARDENED)
_PARTIES: Final[Path] = (*_ETHEREUM, 2 + HARDENED)
_ENDORSERS: Final[Path] = (*_ETHEREUM, 3 + HARDENED)
_COINS: Final[Path] = (*_ETHEREUM, 4 + HARDENED)

_ADDRESS: Final = "0x[0-9a-f]{40}"
_SUBMITTER_NAME: Final = re.compile(f"submitter/({_ADDRESS})")
_PARTY_NAME: Final = re.compile("party/(.+)", re.DOTALL)
_ENDORSER_NAME: Final = re.compile("endorser/([^/]+)/([0-9a-f]{32})")
_COINS_NAME: Final = re.compile("coins/(.+)", re.DOTALL)
_FORMS: Final = (
    (_SUBMITTER_NAME, _SUBMITTERS),
    (_PARTY_NAME, _PARTIES),
    (_ENDORSER_NAME, _ENDORSERS),
    (_COINS_NAME, _COINS),
)


def submitter_key(contract: ContractAddress) -> KeyName:
    """The key that pays for the rounds of one contract, where an operator wants an address for each."""
    address_bytes(contract)
    return KeyName(f"submitter/{contract}")


def account_key(account: ContractAddress) -> KeyName:
    """The key that pays from this account: of the contract that it is named by, or the one that contracts share."""
    return SUBMITTER if account == SHARED_ACCOUNT else submitter_key(account)


def party_key(party: Party) -> KeyName:
    """The key that signs for a party, privately and publicly."""
    _require_name("party", party)
    return KeyName(f"party/{party}")


def endorser_key(node: NodeName, deployment: IntentId) -> KeyName:
    """The key that signs rounds of the contract that this intent deploys; its name is known before the contract is."""
    _require_name("node", node)
    assert "/" not in node, "a node's name has no slash"
    assert len(deployment) == DEPLOYMENT_BYTES, f"an intent id is {DEPLOYMENT_BYTES} bytes, not {len(deployment)}"
    return KeyName(f"endorser/{node}/{deployment.hex()}")


def coins_key(party: Party) -> KeyName:
    """The secret by which a party owns coins whose owners are hidden; it signs nothing."""
    _require_name("party", party)
    return KeyName(f"coins/{party}")


def path_of(name: str) -> Path:
    """The path of the key of this name in a wallet. `ValueError` when the name is not one of the six forms."""
    if name in _PATHS:
        return _PATHS[name]
    for form, root in _FORMS:
        match = form.fullmatch(name)
        if match:
            return sum((steps_of(part) for part in match.groups()), root)
    raise ValueError(f"key name: submitter, registrar, submitter/…, party/…, endorser/…/… or coins/…, not {name!r}")


def steps_of(name: str) -> Path:
    """Eight hardened steps that no other name has."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest(), "big") >> 256 - STEPS_PER_NAME * BITS_PER_STEP
    shifts = range((STEPS_PER_NAME - 1) * BITS_PER_STEP, -1, -BITS_PER_STEP)
    return tuple((number >> shift) % HARDENED + HARDENED for shift in shifts)


def _require_name(field: str, name: str) -> None:
    if not 1 <= len(name.encode()) <= NAME_BYTES_MAX:
        raise ValueError(f"{field}: 1 to {NAME_BYTES_MAX} bytes of text")
