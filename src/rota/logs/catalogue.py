"""Every event that a node logs. `docs/events.md` is generated from it, and a test compares it with the calls.

Levels: an error needs an operator; a warning deserves a look; info is a change of state; debug is the flow of one
transaction. Fields hold ids, names, counts and reasons, never private contents, keys or payloads.
"""

from __future__ import annotations

from typing import Final

from rota.logs.declaration import Level, LogEvent


def _event(level: Level, code: str, text: str, fields: str, meaning: str, action: str) -> LogEvent:
    return LogEvent(code=code, level=level, text=text, fields=tuple(fields.split()), meaning=meaning, action=action)


def _error(code: str, text: str, fields: str, meaning: str, action: str) -> LogEvent:
    return _event(Level.ERROR, code, text, fields, meaning, action)


def _warning(code: str, text: str, fields: str, meaning: str, action: str) -> LogEvent:
    return _event(Level.WARNING, code, text, fields, meaning, action)


def _info(code: str, text: str, fields: str, meaning: str, action: str = "") -> LogEvent:
    return _event(Level.INFO, code, text, fields, meaning, action)


def _debug(code: str, text: str, fields: str, meaning: str) -> LogEvent:
    return _event(Level.DEBUG, code, text, fields, meaning, "")


# The node.

NODE_SERVING: Final = _info(
    "node.serving",
    "JSON-RPC is listening",
    "rpc websocket dashboard",
    "The node accepts connections of users. It answers requests for transactions after `node.started`.",
)
NODE_STARTED: Final = _info(
    "node.started",
    "The node has started",
    "incarnation height contracts",
    "The node has loaded its state from the store and takes part in the protocol.",
)
NODE_WAITING: Final = _warning(
    "node.waiting",
    "The start waits for a dependency",
    "dependency reason",
    "The store or the ledger does not answer during the start. The node retries until it does.",
    "Start the dependency, or correct `store.url` or `ledger.url`.",
)
CARRYING_WAITING: Final = _warning(
    "carrying.waiting",
    "Transactions that another private contract decides about wait",
    "reason",
    "The node cannot ask the other contract now, or cannot record its answer. The node retries until it can.",
    "See the reason: the store, the ledger or a peer does not answer, or the node does not have the other contract.",
)
HOOK_NOT_TOLD: Final = _warning(
    "carrying.hook_not_told",
    "A private contract is not called about a lock that a delegate has ended",
    "contract intent reason",
    "The call cannot be submitted. The lock has ended, and the private contract has no record of that.",
    "See the reason. Have the notary call handleDelegateUnlock of the private contract itself.",
)
NODE_NOT_READY: Final = _warning(
    "node.not_ready",
    "The node is not ready",
    "missing",
    "`/readyz` answers 503. The node logs each change of the reasons.",
    "Find the reasons in [troubleshooting](troubleshooting.md#the-node-is-not-ready).",
)
NODE_READY: Final = _info("node.ready", "The node is ready", "", "`/readyz` answers 200, after the start or again.")
NODE_STOPPING: Final = _info(
    "node.stopping",
    "The node is stopping and hands over its roles",
    "",
    "The node received SIGTERM or SIGINT. It hands over coordination and sends queued messages.",
)
NODE_STOP_TIMED_OUT: Final = _warning(
    "node.stop_timed_out",
    "The node stops before its work is complete",
    "seconds",
    "Hand-over took longer than `node.stop_timeout_ms`. The next run continues the work from the store.",
    "If it happens often, raise `node.stop_timeout_ms`.",
)
NODE_STOPPING_AT_ONCE: Final = _warning(
    "node.stopping_at_once",
    "The node stops at once",
    "",
    "The node received a second signal and does not wait for the hand-over. The next run continues from the store.",
    "None, if the second signal was intended.",
)
NODE_STOPPED: Final = _info("node.stopped", "The node has stopped", "", "The node has closed its store and sockets.")

# The store.

STORE_FAILED: Final = _error(
    "store.failed",
    "The store has failed and the node ends",
    "reason",
    "The node cannot continue on this database: it was wound back, another process opened it, or it is damaged.",
    "Read [the fence](store.md#the-fence) before you start the node again.",
)
STORE_WRITE_FAILED: Final = _warning(
    "store.write_failed",
    "A write to the store failed; the node retries it",
    "reason",
    "The database refused or did not answer a write. Dependent effects wait. Logged once until a write succeeds.",
    "Restore the database. The node continues by itself.",
)

# The base ledger.

CHAIN_CONFIRMATIONS: Final = _info(
    "chain.confirmations",
    "The number of confirmations is set",
    "confirmations chain usual",
    "The node treats blocks as final at this depth.",
)
CHAIN_CONFIRMATIONS_LOW: Final = _warning(
    "chain.confirmations_low",
    "Fewer confirmations than usual for this chain",
    "confirmations chain usual",
    "The node treats blocks as final that this kind of chain may still remove.",
    "Raise `ledger.confirmations`, or accept that receipts may become void.",
)
CHAIN_UNVERIFIED: Final = _warning(
    "chain.unverified",
    "The chain did not identify itself",
    "confirmations reason",
    "The ledger did not answer during the start. The node uses the confirmations of the previous run.",
    "Check that `ledger.url` answers.",
)
CHAIN_FINALITY_BROKEN: Final = _error(
    "chain.finality_broken",
    "The chain removed blocks that were final",
    "parted_at final_height transactions",
    "Receipts that this node reported no longer hold. They have the code `FINALITY_BROKEN`.",
    "Follow [RotaFinalityBroken](alerts.md#rotafinalitybroken).",
)
CHAIN_TRANSACTIONS_LOST: Final = _warning(
    "chain.transactions_lost",
    "The chain no longer has transactions of this node",
    "nonces account",
    "The chain removed mined transactions of an account, or the Ethereum node lost them. The node submits them again.",
    "If it happens often, check the Ethereum node.",
)

# Contracts.

CONTRACT_ADDED: Final = _info(
    "contract.added",
    "The node has a new contract",
    "contract peer",
    "The node stored a contract and takes part in it. `peer` is the node that announced it.",
)
CONTRACT_REFUSED: Final = _warning(
    "contract.refused",
    "A contract that a peer announced is refused",
    "contract peer reason",
    "The announcement is false, lacks consent, or cannot be verified now. In the last case the peer repeats it.",
    "If the reason is missing consent, run `rota consent list`. Otherwise ask the operator of the peer.",
)
CONTRACT_UNUSABLE: Final = _error(
    "contract.unusable",
    "A contract cannot be used on this node",
    "contract reason",
    "The domain of a stored contract is missing or rejects its configuration. The node takes no part in the contract.",
    "Install or configure the domain, then restart the node.",
)
CONTRACT_CONSENT_REQUIRED: Final = _warning(
    "contract.consent_required",
    "A deployment that names this node waits for consent",
    "contract deployment peer",
    "A peer proposed a contract in which this node endorses.",
    "Follow [RotaConsentPending](alerts.md#rotaconsentpending): `rota consent list`, then accept or refuse it.",
)
CONTRACT_CONFIRMED: Final = _info(
    "contract.confirmed",
    "All endorsers have confirmed a contract",
    "contract",
    "The node acts in a contract that it learned from a peer from now on.",
)
CONTRACT_BACKFILL_STARTED: Final = _info(
    "contract.backfill_started",
    "The node fetches missed rounds of a contract",
    "contract blocks",
    "The node learned of the contract after its deployment and indexes the rounds that it missed.",
)
CONTRACT_STATES_REQUESTED: Final = _info(
    "contract.states_requested",
    "The node asks peers for missing private states",
    "contract leaves",
    "The node lacks private states of missed rounds. Logged when the number changes.",
)
CONTRACT_BACKFILL_POSTPONED: Final = _warning(
    "contract.backfill_postponed",
    "Backfill of a contract is postponed",
    "contract reason",
    "The ledger or the store did not answer. The node retries with growing pauses and logs each reason once.",
    "Restore the ledger or the store that `reason` names.",
)

# Submissions and transactions.

SUBMISSION_UNCERTAIN: Final = _warning(
    "submission.uncertain",
    "The outcome of a write is unknown; the node repeats it",
    "reason",
    "The connection to the database broke during a commit. The write is idempotent; the caller waits for the outcome.",
    "Restore the database.",
)
SUBMISSION_FAILED: Final = _error(
    "submission.failed",
    "Unhandled exception in a submission",
    "has_begun request",
    "A defect of the node. If `has_begun` is true, the request may be stored and take effect after a restart.",
    "Report the traceback. Ask for the result with the ids in `request` before you submit again.",
)
TRANSACTION_ID_USED: Final = _error(
    "transaction.id_used",
    "Another transition used the id of a transaction",
    "intent leaf",
    "The chain has a transition under the id of a local transaction that this node has not signed.",
    "Follow [RotaIntentIdUsed](alerts.md#rotaintentidused).",
)
TRANSACTION_SUBMITTED: Final = _debug(
    "transaction.submitted",
    "Submitted",
    "contract intent",
    "The node stored a transaction of a local user. A deployment has no contract yet.",
)
TRANSACTION_DELEGATED: Final = _debug(
    "transaction.delegated",
    "Delegated",
    "contract intent peer",
    "A coordinator accepted the transaction: this node (`peer` is the sender, or none) or `peer`.",
)
TRANSACTION_ASSEMBLED: Final = _debug(
    "transaction.assembled", "Assembled", "contract intent peer", "The sender's domain assembled the transition."
)
TRANSACTION_ENDORSED: Final = _debug(
    "transaction.endorsed", "Endorsed", "contract intent peer", "An endorser signed the round that has the transition."
)
TRANSACTION_PERMITTED: Final = _debug(
    "transaction.permitted", "Dispatch permitted", "contract intent peer", "The sender permitted the dispatch."
)
TRANSACTION_DISPATCHED: Final = _debug(
    "transaction.dispatched",
    "Dispatched",
    "contract intent peer detail",
    "The coordinator assigned the round to a nonce of its account and submits it to the base ledger.",
)
TRANSACTION_CONFIRMED: Final = _debug(
    "transaction.confirmed", "Confirmed on the ledger", "contract intent detail", "A block has the transition."
)
TRANSACTION_SKIPPED: Final = _debug(
    "transaction.skipped",
    "Skipped on the ledger",
    "contract intent detail",
    "A block has the round, but the contract skipped the transition. The sender assembles it again or gives up.",
)
TRANSACTION_COMPLETED: Final = _debug(
    "transaction.completed",
    "Completed: confirmed",
    "contract intent",
    "The sender's receipt is final: the transaction succeeded. `contract` is none if the node restarted meanwhile.",
)
TRANSACTION_REVERTED: Final = _debug(
    "transaction.reverted",
    "Completed: reverted",
    "contract intent",
    "The sender's receipt is final: the transaction failed. `rota tx explain` shows the reason, which may be private.",
)

# Domains, private code and proofs.

DOMAIN_FAILED: Final = _error(
    "domain.failed",
    "Unhandled exception in a domain",
    "contract intent operation",
    "The domain raised an exception for a transaction of this node.",
    "Report the traceback to the author of the domain.",
)
DOMAIN_CHECK_FAILED: Final = _error(
    "domain.check_failed",
    "Unhandled exception in a domain while it checked a round",
    "contract leaf peer",
    "This node does not endorse the transition of `peer`. At most four lines a minute for each peer.",
    "Report the traceback to the author of the domain.",
)
DOMAIN_OVER_BUDGET: Final = _warning(
    "domain.over_budget",
    "A check exceeded its budget",
    "contract leaf peer reason",
    "The transition of `peer` needs more work than an endorser spends. At most four lines a minute for each peer.",
    "If the contract is yours, make the transaction cheaper. Otherwise ask the operator of the peer.",
)
DOMAIN_KEYS_INSECURE: Final = _warning(
    "domain.keys_insecure",
    "Tokens on development keys may be deployed",
    "domains",
    "`proving.allow_development_keys` is set. The owner of these keys can forge coins.",
    "Unset it on a network of value.",
)
DOMAIN_KEYS_REFUSED: Final = _info(
    "domain.keys_refused",
    "Tokens on development keys are not deployed",
    "domains",
    "The only proving keys of these domains are the development keys.",
)
PRIVATE_CODE_ENDED: Final = _warning(
    "private_code.process_ended",
    "The process that runs private code ended",
    "after_s",
    "The process exceeded a limit, was killed, or crashed. The node starts another one.",
    "If it happens often, check the memory of the machine and the contract that was called.",
)
PROVER_NOT_READY: Final = _warning(
    "prover.not_ready",
    "The prover is not ready",
    "reason",
    "The prover could not load a circuit in advance. The first proof tries again.",
    "Check `proving.keys` and the memory of the machine.",
)
PROVER_LOADING_KEY: Final = _info(
    "prover.loading_key",
    "The prover loads a proving key",
    "circuit percent",
    "Loading happens once for each circuit. Proofs of the circuit wait for it.",
)

# Private states.

STATE_NOT_SENT: Final = _error(
    "state.not_sent",
    "A message with private states is not sent",
    "peer contract message_type reason",
    "The node cannot encrypt the states of the message. It never sends them unencrypted.",
    "Install the domain of the contract. If it is installed, report a defect.",
)
STATE_WITHHELD: Final = _warning(
    "state.withheld",
    "A private state is withheld from a peer",
    "peer leaf reason",
    "The state cannot be encrypted for the peer. At most four lines a minute for each peer.",
    "Check that the parties of the peer have announced their keys.",
)
STATE_REFUSED: Final = _warning(
    "state.refused",
    "Private states of a peer are refused",
    "peer contract reason",
    "They cannot be decrypted, or they do not belong to the contract. At most four lines a minute for each peer.",
    "Ask the operator of the peer.",
)

# Peers.

PEER_CONNECTED: Final = _info(
    "peer.connected",
    "A peer is connected",
    "peer",
    "Messages reach the peer again. At most four lines a minute for each peer.",
)
PEER_DISCONNECTED: Final = _warning(
    "peer.disconnected",
    "A peer is disconnected",
    "peer reason detail",
    "A connection ended. The node reconnects by itself. At most four lines a minute for each peer.",
    "If the peer does not return, find `reason` in [RotaPeerAway](alerts.md#rotapeeraway).",
)
PEER_REFUSED: Final = _warning(
    "peer.refused",
    "A connection to or from a peer failed",
    "peer reason detail",
    "Dialing, TLS or the greeting failed. The node retries. Each reason is logged once until the peer is connected.",
    "`unreachable`: check the network. `stranger`, `expired`, `swapped name`: check certificates and registry.",
)
PEER_MESSAGE_NOT_SENT: Final = _error(
    "peer.message_not_sent",
    "A message cannot be sent",
    "peer message_type reason",
    "The message exceeds a limit of the protocol. A defect of the node. At most four lines a minute for each peer.",
    "Report it.",
)
PEER_CERTIFICATE_UNKNOWN: Final = _info(
    "peer.certificate_unknown",
    "The announced certificate of a peer cannot be read yet",
    "peer reason",
    "The registry announces another certificate for a connected peer. The node looks again.",
)

# Entrances.

RPC_METHOD_FAILED: Final = _error(
    "rpc.method_failed",
    "Unhandled exception in an RPC method",
    "method reference",
    "A defect of the node. The caller received an internal error with this reference.",
    "Report the traceback.",
)
RPC_COMMAND_FAILED: Final = _error(
    "rpc.command_failed",
    "Unhandled exception in a gRPC call",
    "",
    "A defect of the node. The caller received the status `INTERNAL`.",
    "Report the traceback.",
)
RPC_AUTHENTICATION_FAILED: Final = _warning(
    "rpc.authentication_failed",
    "Authentication failed",
    "address scheme failed_attempts",
    "A caller presented a wrong password or token. Repeated attempts of an address are logged ever more rarely.",
    "Block the address if it is not yours.",
)

# Certificates and files.

CERTIFICATE_EXPIRING: Final = _warning(
    "certificate.expiring",
    "The certificate expires soon",
    "days command",
    "Peers refuse an expired certificate. Logged 30, 7, 1 and 0 days before the end.",
    "Run the command, or check why the automatic renewal fails.",
)
CERTIFICATE_RENEWED: Final = _info(
    "certificate.renewal_step",
    "A step of the certificate renewal is complete",
    "step",
    "The node renews its certificate in the registry contract.",
)
CERTIFICATE_RENEWAL_FAILED: Final = _error(
    "certificate.renewal_failed",
    "The certificate cannot be renewed",
    "reason",
    "The node retries every hour and logs a change of the reason.",
    "Resolve the reason: the registrar's funds, the owner of the registry entry, or the key folder.",
)
CERTIFICATE_CHANGED: Final = _info(
    "certificate.changed", "The node presents another certificate", "fingerprint", "Peers see it on new connections."
)
FILE_UNUSABLE: Final = _error(
    "file.unusable",
    "A watched file cannot be used",
    "file reason",
    "The previous content stays in effect. Logged once for each reason.",
    "Correct the file; the node reads it again within a second.",
)
FILE_REGISTRY_CHANGED: Final = _info("file.registry_changed", "The registry file changed", "nodes", "It is in effect.")
FILE_MAXIMUM_CHANGED: Final = _info(
    "file.maximum_duration_changed",
    "The maximum deduplication duration changed",
    "maximum_ms",
    "`commands.maximum_duration_ms` of the configuration file is in effect.",
)
FILE_CREDENTIALS_CHANGED: Final = _info(
    "file.credentials_changed", "The credentials changed", "credentials", "Removed credentials are rejected at once."
)
FILE_TLS_CHANGED: Final = _info(
    "file.tls_changed", "The TLS certificate for users changed", "", "New connections of users get it."
)

# Accounts and public transactions.

ACCOUNT_SHORT: Final = _warning(
    "account.short_of_funds",
    "An account cannot pay for a round",
    "account command",
    "The balance is below the cost of the cheapest round. Rounds of the account wait.",
    "Follow [RotaAccountsShort](alerts.md#rotaaccountsshort): run the command, or transfer funds.",
)
ACCOUNT_BALANCES_UNKNOWN: Final = _debug(
    "account.balances_unknown", "Balances are unknown", "reason", "The ledger did not return the balances."
)
PUBLIC_SET_ASIDE: Final = _error(
    "public.set_aside",
    "Public transactions are set aside",
    "transactions reason",
    "The database was wound back, or another transaction used a nonce. The node sends none of them.",
    "Follow [RotaPublicSetAside](alerts.md#rotapublicsetaside): `rota tx aside`, then release or drop each.",
)
PUBLIC_POSTPONED: Final = _warning(
    "public.postponed",
    "Public transactions are postponed",
    "reason",
    "The ledger or the store does not answer. The node retries and logs a change of the reason.",
    "Restore the dependency that `reason` names.",
)
PUBLIC_SENT_AGAIN: Final = _warning(
    "public.sent_again",
    "A completed public transaction is sent again",
    "transaction",
    "The chain removed the block that had it.",
    "None; see `chain.finality_broken`.",
)

# Receipts, listeners, groups.

RECEIPT_POSTPONED: Final = _warning(
    "receipt.postponed",
    "Receipts wait for the store",
    "reason",
    "Listeners get no new receipts meanwhile. Each reason is logged once until it works again.",
    "Restore the database.",
)
LISTENER_POSTPONED: Final = _warning(
    "listener.postponed",
    "A listener waits",
    "listener reason",
    "The store or the ledger does not answer. Each reason is logged once until it works again.",
    "Restore the dependency that `reason` names.",
)
GROUP_POSTPONED: Final = _warning(
    "group.postponed",
    "Messages of privacy groups wait for the store",
    "reason",
    "Each reason is logged once until it works again.",
    "Restore the database.",
)
GROUP_MESSAGE_REFUSED: Final = _warning(
    "group.message_refused",
    "A message of a privacy group is refused",
    "peer contract",
    "The peer is no member, sends too much, or the message is malformed. At most four lines a minute for each peer.",
    "Ask the operator of the peer.",
)

# Commands and automation.

COMMAND_RESUMED: Final = _info(
    "command.resumed", "Commands of the previous run continue", "in_flight", "They were not complete when it ended."
)
COMMAND_CORRECTED: Final = _warning(
    "command.completions_corrected",
    "Published completions are corrected",
    "completions",
    "The chain removed final blocks, so that published completions no longer hold.",
    "Follow [RotaFinalityBroken](alerts.md#rotafinalitybroken).",
)
COMMAND_POSTPONED: Final = _warning(
    "command.postponed",
    "Commands wait for the store",
    "operation reason",
    "The node retries. Each reason is logged once until it works again.",
    "Restore the database.",
)
TRIGGER_FAILED: Final = _error(
    "trigger.failed",
    "Unhandled exception in a trigger",
    "trigger",
    "The trigger's own code raised an exception. Each exception is logged once until the trigger works again.",
    "Report the traceback to the author of the trigger.",
)
TRIGGER_ATTENTION: Final = _warning(
    "trigger.attention",
    "A trigger needs attention",
    "trigger reason",
    "The trigger set a task aside, opened its circuit breaker, or has too many tasks.",
    "Run `rota trigger list`.",
)
AUTOMATION_LEDGER_UNAVAILABLE: Final = _warning(
    "automation.ledger_unavailable",
    "Automation cannot read the ledger",
    "reason",
    "Triggers wait. The node retries and logs a change of the reason.",
    "Check that `ledger.url` answers.",
)
AUTOMATION_STORE_UNAVAILABLE: Final = _warning(
    "automation.store_unavailable",
    "Automation waits for the store",
    "reason",
    "The node retries and logs each reason once.",
    "Restore the database.",
)
AUTOMATION_QUEUE_FULL: Final = _error(
    "automation.queue_full",
    "A write of automation is dropped",
    "waiting",
    "Too many writes wait for the store. A pause, or a task that was set aside, is lost with a restart.",
    "Restore the database, then check pauses and set-aside tasks with `rota trigger list`.",
)
AUTOMATION_WRITE_REJECTED: Final = _error(
    "automation.write_rejected",
    "The store cannot hold a value of automation",
    "reason",
    "The name of a trigger or a task is not valid for the database. The write is dropped.",
    "Correct the trigger.",
)

ALL: Final = tuple(value for value in tuple(globals().values()) if isinstance(value, LogEvent))
