import sys

from announce_stack.demo import interruption


def main() -> int:
    """Runs the command."""
    # Loading all that it needs takes a moment, in which Ctrl-C must not end in a traceback.
    from announce_stack.demo import cli  # noqa: PLC0415

    return cli.main()


sys.exit(interruption.interruptible(main))
