"""A command to its end, as the interpreter runs a program, but without the interpreter's teardown.

The teardown frees every object and every module: a fifth of a second of processor time for memory
that the kernel frees anyway. Threads are awaited, exit functions run and streams are flushed.
"""

import atexit
import os
import signal
import sys
import threading
import traceback
from typing import TextIO

UNFLUSHED = 120
"""The exit code of Python if standard output cannot be flushed at the end."""


def run_to_end() -> int:
    """Run the command of `sys.argv`. Returns its exit code; the caller ends the process with it."""
    from omnigraph.cli.app import main

    code = 0
    try:
        main()
    except SystemExit as stop:
        code = _exit_code(stop.code)
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001 - as the interpreter does with every error
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001 - as the interpreter
    atexit._run_exitfuncs()  # noqa: SLF001 - as above
    return _flush(code)


def _exit_code(given: object) -> int:
    if given is None:
        return 0
    if isinstance(given, int):
        return given & 0xFF
    print(given, file=sys.stderr)  # noqa: T201 - as the interpreter does
    return 1


def _flush(code: int) -> int:
    """A stream is None if the process was started with that stream closed."""
    stdout: TextIO | None = sys.stdout
    stderr: TextIO | None = sys.stderr
    try:
        if stdout is not None and not stdout.closed:
            stdout.flush()
    except OSError as error:
        code = UNFLUSHED
        if stderr is not None:
            cause = f"{type(error).__name__}: {error}"
            stderr.write(f"Exception ignored in: {stdout!r}\n{cause}\n")
    try:
        if stderr is not None and not stderr.closed:
            stderr.flush()
    except OSError:
        pass
    return code
