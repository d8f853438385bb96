"""Keys: the signing keys of a node and its parties, their storage, and the certificates of nodes.

`names` has the purpose of each key, `derivation` and `mnemonics` derive all of them from a list of words, `keystore`
and `files` store that list, `signers` hold keys and sign, `signatures` answers the core's orders, `certificates` and
`transport_files` are for the node's certificate, and `node_keys` makes all of it for a new node.
"""
