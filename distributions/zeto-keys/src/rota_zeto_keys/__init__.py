"""Development keys of Rota's zero-knowledge tokens: data alone. `rota.prover.key_files` reads and verifies them."""
