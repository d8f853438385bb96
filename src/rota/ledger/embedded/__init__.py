"""An Ethereum chain in this process, for tests, demonstrations and the quickstart.

chain.py          start reading here: `EmbeddedChain`        settings.py    its choices and limits
admission.py      what the pool takes                        pool.py        what waits for a block
evm.py            runs a message on revm                     state.py       accounts and slots, now and before
blocks.py         headers, receipts, blooms                  trie.py        the roots in a header
history.py        blocks by number and hash, logs            fees.py        what gas costs
clock.py          chain time                                 timer.py       blocks at an interval
accounts.py       the ten accounts that everybody knows      errors.py      what a caller is told
jsonrpc.py        requests and batches                       server.py      HTTP and WebSocket
methods.py        eth_*, net_*, web3_*                       control.py     evm_*, anvil_*, rota_*
parameters.py     what methods are given                     shown.py       what they answer
calling.py        calls and transactions given as objects    subscriptions.py   eth_subscribe
"""

from rota.ledger.embedded.chain import Curve, EmbeddedChain
from rota.ledger.embedded.errors import RpcError
from rota.ledger.embedded.jsonrpc import Rpc
from rota.ledger.embedded.server import ChainServer
from rota.ledger.embedded.settings import Settings

__all__ = ["ChainServer", "Curve", "EmbeddedChain", "Rpc", "RpcError", "Settings"]
