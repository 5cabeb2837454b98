"""`main`: the command, handed to the helper of this user if there is one, or run in this process.

Without a helper this costs a look at one path, and the command runs as it always did.
"""

import os
import sys

from omnigraph.cli.warm.place import find_socket, is_supported

WARM = "OMNIGRAPH_WARM"
"""0: never use a helper. 1: start one if there is none, for the commands that follow."""

COLD = frozenset({"serve", "mcp", "up", "down", "spark", "login"})
"""Commands that run for long, start processes of their own, or open the terminal itself."""


def main() -> None:
    wish = os.environ.get(WARM, "").lower()
    arguments = sys.argv[1:]
    if is_supported() and wish not in ("0", "no", "off") and COLD.isdisjoint(arguments):
        path = find_socket()
        if os.path.exists(path):
            from omnigraph.cli.warm.handover import hand_over

            code = hand_over(path, arguments)
            if code is not None:
                os._exit(code)  # nothing of this process is buffered
        if wish in ("1", "yes", "on"):
            from omnigraph.cli.warm.control import spawn_quietly

            spawn_quietly()
    from omnigraph.cli.warm.ending import run_to_end

    os._exit(run_to_end())
