"""What a forked command inherits from its helper and cannot change.

Client and helper describe themselves in the same words. If the words differ, the client runs its
command itself. If the installation of the helper differs from the one it was started with, the
helper is stale and ends.

The client pays for every import, so this module uses no pathlib and no hashlib.
"""

import os
import sys
import zlib

READ_AT_START = (
    *("PYTHON", "LD_", "DYLD_", "GLIBC_", "MALLOC_", "LC_", "LANG", "OMP_", "OPENBLAS_", "MKL_"),
    *("KMP_", "NPY_", "NUMPY_", "ARROW_", "LANCE_", "PYLANCE_", "RAYON_", "TOKIO_", "RUST_"),
    *("TYPER_", "_TYPER_", "TERMINAL_WIDTH", "FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"),
)
"""Prefixes of variables that the interpreter or a library reads once, when it is loaded."""

PACKAGE = __file__[: -len("/cli/warm/surroundings.py")]

FLAGS = (
    *("bytes_warning", "debug", "dev_mode", "ignore_environment", "inspect", "isolated"),
    *("no_site", "no_user_site", "optimize", "utf8_mode", "warn_default_encoding"),
)
"""Flags of the interpreter that change what a program does."""

LIMITS = ("AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "STACK")
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


def find_installation() -> str:
    """The code that a fresh process would run. Another text means other code."""
    paths = sys.path[not sys.flags.safe_path :]  # else the first is the folder of the script
    flags = [(name, getattr(sys.flags, name)) for name in FLAGS]
    return "\n".join(
        (
            sys.version,
            sys.prefix,
            f"{flags} {sys.warnoptions} {sys._xoptions}",  # noqa: SLF001 - a documented name
            *(f"{each} {_changed_at(each)}" for each in paths),
            _find_files(PACKAGE),
        )
    )


def _changed_at(folder: str) -> int:
    """Installing a package changes the folder that holds it."""
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _find_files(package: str) -> str:
    """Names, sizes and times of all files of a package, in short."""
    stamp = count = 0
    folders = [package]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for each in sorted(entries, key=lambda entry: entry.name):
                if each.is_dir(follow_symlinks=False):
                    if each.name != "__pycache__":
                        folders.append(each.path)
                    continue
                found = each.stat()
                line = f"{each.path} {found.st_size} {found.st_mtime_ns}"
                stamp = zlib.crc32(line.encode(errors="surrogateescape"), stamp)
                count += 1
    return f"{package} {count} {stamp:08x}"


def find_limits() -> str:
    """The rights and limits of this process, and the variables that were read at its start."""
    import resource  # Unix only

    limits = [(each, resource.getrlimit(getattr(resource, f"RLIMIT_{each}"))) for each in LIMITS]
    read = sorted(each for each in os.environ.items() if each[0].startswith(READ_AT_START))
    root = os.stat("/")
    return "\n".join(
        (
            f"{os.getresuid()} {os.getresgid()} {sorted(os.getgroups())}",
            f"{os.nice(0)} {limits}",
            f"{root.st_dev} {root.st_ino} {[_namespace(each) for each in NAMESPACES]}",
            repr(read),
        )
    )


def _namespace(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/ns/{name}")
    except OSError:
        return ""
