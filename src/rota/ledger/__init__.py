"""Everything between Rota and an Ethereum chain."""
