"""Where `rota` begins. Nothing is imported here, so that Ctrl-C ends it quietly while the rest is being imported."""

from rota.extras import NotInstalled

EXIT_INTERRUPTED = 130  # what a shell reports of a program that Ctrl-C ended: 128 + SIGINT


def run() -> None:
    """The command, as the shell has it."""
    try:
        from rota.cli.main import main

        main()
    except KeyboardInterrupt:
        raise SystemExit(EXIT_INTERRUPTED) from None
    except NotInstalled as missing:
        raise SystemExit(f"rota: {missing}") from None


if __name__ == "__main__":
    run()
