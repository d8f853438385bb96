"""An Ethereum chain in this process, for tests, demonstrations and the quickstart.

chain.py          start reading here: `EmbeddedChain`        settings.py    its settings and limits
admission.py      checks of new transactions                 pool.py        transactions that wait for a block
evm.py            runs a message on revm                     state.py       current and earlier accounts and slots
blocks.py         headers, receipts, blooms                  trie.py        the roots in a header
history.py        blocks by number and hash, logs            fees.py        gas prices and costs
clock.py          chain time                                 timer.py       blocks at an interval
accounts.py       the ten well-known accounts                errors.py      JSON-RPC errors
jsonrpc.py        requests and batches                       server.py      HTTP and WebSocket
methods.py        eth_*, net_*, web3_*                       control.py     evm_*, anvil_*, rota_*
parameters.py     parameters of methods                      shown.py       answers of methods
calling.py        calls and transactions given as objects    subscriptions.py   eth_subscribe
"""

from rota.ledger.embedded.chain import Curve, EmbeddedChain
from rota.ledger.embedded.errors import RpcError
from rota.ledger.embedded.jsonrpc import Rpc
from rota.ledger.embedded.server import ChainServer
from rota.ledger.embedded.settings import Settings

__all__ = ["ChainServer", "Curve", "EmbeddedChain", "Rpc", "RpcError", "Settings"]
