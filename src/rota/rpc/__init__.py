"""Methods of the JSON-RPC API: how one is declared, its errors, formats and credentials; no server."""
