"""Coverage-guided fuzzing of the targets, with atheris.

    python -m support.fuzzing query --runs 1000000 --seconds 600 --seed 7
    python -m support.fuzzing all --runs 1000000

Each target runs in a process of its own. An input that breaks one is printed, kept in the folder
`omnigraph-fuzz/TARGET` of temporary files, and ends that target; it belongs into
`tests/corpus/TARGET`, together with the fix. Without atheris this program says so, and ends with
code 2.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

CORPUS: Final = Path(__file__).parents[1] / "corpus"
FOUND: Final = Path(tempfile.gettempdir()) / "omnigraph-fuzz"
BYTES_MAX: Final = 4096
SLOWEST_S: Final = 20


def fuzz(name: str, runs: int, seconds: int, seed: int) -> None:
    """Does not return: libFuzzer ends the process."""
    import atheris  # type: ignore[import-untyped]  # noqa: PLC0415 - it may be missing

    with atheris.instrument_imports(include=["omnigraph", "yaml", "lark"]):
        from support import fuzz_targets  # noqa: PLC0415 - instrumented while it is imported

    folder = FOUND / name
    grown = folder / "corpus"
    grown.mkdir(parents=True, exist_ok=True)
    flags = [
        sys.argv[0],
        str(grown),
        str(CORPUS / name),
        f"-runs={runs}",
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-max_len={BYTES_MAX}",
        f"-timeout={SLOWEST_S}",
        "-rss_limit_mb=3000",
        f"-artifact_prefix={folder}/",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    atheris.Setup(flags, lambda data: fuzz_targets.run(name, data))
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the readers of OmniGraph.")
    parser.add_argument("target")
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=0, help="0: until the runs are done")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        sys.stderr.write("fuzzing needs atheris: pip install atheris==3.0.0\n")
        return 2
    if given.target != "all":
        fuzz(given.target, given.runs, given.seconds, given.seed)
    options = [
        "--runs",
        str(given.runs),
        "--seconds",
        str(given.seconds),
        "--seed",
        str(given.seed),
    ]
    broken = [
        name
        for name in sorted(each.name for each in CORPUS.iterdir())
        if subprocess.run(
            [sys.executable, "-m", "support.fuzzing", name, *options], check=False
        ).returncode
    ]
    sys.stdout.write(f"broken: {', '.join(broken) or 'none'}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
