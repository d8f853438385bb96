"""Keys: what signs for a node and its parties, where it is kept, and the certificates that nodes show each other.

`names` says which key is for what, `derivation` and `mnemonics` make all of them from a list of words, `keystore`
and `files` keep that list, `signers` hold keys and sign, `signatures` answers the core's orders, `certificates` and
`transport_files` are about how a node shows who it is, and `node_keys` makes all of it for a new node.
"""
