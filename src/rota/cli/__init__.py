"""The command line: one module per sub-command, gathered by `rota.cli.main`."""
