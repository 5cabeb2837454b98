"""A slower disk for every system alike: a library that delays each flush of the process it is in.

Disks differ by a factor of fifty in what a flush takes, and machines for tests often have one that
takes nearly nothing. Flushes that are asked for at once wait at once, as on a real disk.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void wait_for_disk(void) {
    static double delay_ms = -1;
    if (delay_ms < 0) {
        const char *text = getenv("FLEET_FLUSH_MS");
        delay_ms = text ? atof(text) : 0;
    }
    struct timespec pause = {(time_t)(delay_ms / 1000), (long)(delay_ms * 1e6) % 1000000000L};
    nanosleep(&pause, NULL);
}

#define DELAYED(name)                                             \
    int name(int file) {                                          \
        int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, #name); \
        wait_for_disk();                                          \
        return real(file);                                        \
    }

DELAYED(fsync)
DELAYED(fdatasync)
"""


@contextmanager
def slow_flushes(flush_ms: float) -> Iterator[dict[str, str]]:
    """The environment in which a process waits so long for each flush. Needs a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        message = "--flush-ms needs a C compiler: apt-get install gcc libc6-dev"
        raise SystemExit(message)
    with TemporaryDirectory() as name:
        source, library = Path(name) / "flush.c", Path(name) / "flush.so"
        source.write_text(SOURCE)
        build = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
        subprocess.run(build, check=True)
        Path(name).chmod(0o755)
        yield {"LD_PRELOAD": str(library), "FLEET_FLUSH_MS": str(flush_ms)}
