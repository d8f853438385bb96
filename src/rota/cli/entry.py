"""Where `rota` begins. Nothing is imported here, so that Ctrl-C ends it quietly while the rest is being imported."""

EXIT_INTERRUPTED = 130  # what a shell reports of a programme that Ctrl-C ended: 128 + SIGINT


def run() -> None:
    """The command, as the shell has it."""
    try:
        from rota.cli.main import main

        main()
    except KeyboardInterrupt:
        raise SystemExit(EXIT_INTERRUPTED) from None
