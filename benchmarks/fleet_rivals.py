"""The rivals of `fleet.py`: doltlite in this process' threads, Postgres 15 behind pgbench."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from fleet_work import HOT, PEOPLE, Carry, Kind, Mix, Outcome, Write, person, run_threads

POSTGRES_BIN = Path("/usr/lib/postgresql/15/bin")

# ── doltlite ─────────────────────────────────────────────────────────────────────────────────────


def has_doltlite() -> bool:
    return find_spec("doltlite") is not None


def run_doltlite(
    writers: int, mix: Mix, seconds: float, folder: Path, environment: Mapping[str, str]
) -> Outcome:
    """In a process of its own: the package replaces the SQLite of the process that imports it."""
    command = [sys.executable, __file__, str(writers), mix.value, str(seconds), str(folder)]
    env = {**os.environ, **environment}
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout
    latencies, elapsed, retries = json.loads(told)
    return Outcome(latencies, elapsed, retries)


def _doltlite_main(writers: int, mix: Mix, seconds: float, folder: Path) -> None:
    import sqlite3  # noqa: PLC0415

    import_module("doltlite")  # before sqlite3, which it replaces

    path = folder / f"{writers}-{mix.value}.db"

    def open_database() -> sqlite3.Connection:
        database = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        database.execute("PRAGMA synchronous=FULL")
        return database

    def commit(database: sqlite3.Connection, message: str) -> None:
        database.execute("SELECT dolt_commit('-A', '-m', ?)", (message,)).fetchall()

    def connect(writer: int) -> Carry:
        database = open_database()

        def carry(write: Write) -> int:
            for attempt in range(1000):
                try:
                    database.execute("BEGIN IMMEDIATE")
                    database.execute(*_statement(write))
                    commit(database, f"{writer} {write.name}")
                except sqlite3.OperationalError:
                    if database.in_transaction:
                        database.execute("ROLLBACK")
                    continue
                if database.in_transaction:
                    database.execute("COMMIT")
                return attempt
            raise TimeoutError(write)

        return carry

    first = open_database()
    first.execute("CREATE TABLE person (name TEXT PRIMARY KEY, age INTEGER)")
    first.execute("CREATE TABLE knows (id INTEGER PRIMARY KEY, src TEXT, dst TEXT)")
    people = [(person(at), at) for at in range(PEOPLE)]
    first.executemany("INSERT INTO person VALUES (?, ?)", people)
    commit(first, "people")
    print(json.dumps(run_threads(writers, mix, seconds, connect)))


def _statement(write: Write) -> tuple[str, tuple[str, ...]]:
    match write.kind:
        case Kind.INSERT:
            return "INSERT INTO person VALUES (?, 1)", (write.name,)
        case Kind.UPDATE:
            return "UPDATE person SET age = age + 1 WHERE name = ?", (write.name,)
        case Kind.EDGE:
            return "INSERT INTO knows (src, dst) VALUES (?, ?)", (write.name, write.other)


# ── Postgres ─────────────────────────────────────────────────────────────────────────────────────

TABLES = f"""
CREATE TABLE person (name text PRIMARY KEY, age integer);
CREATE TABLE knows (
  id bigserial PRIMARY KEY, src text REFERENCES person, dst text REFERENCES person
);
INSERT INTO person
  SELECT 'p' || lpad(at::text, 4, '0'), at FROM generate_series(0, {PEOPLE - 1}) at;
CREATE SEQUENCE fresh;
"""
INSERT = "INSERT INTO person VALUES ('w' || nextval('fresh'), 1);\n"
NAME = "'p' || lpad(:{0}::text, 4, '0')"
CHOOSE = (
    f"\\set hot random(1, 20)\n\\if :hot = 1\n\\set {{0}} random(0, {HOT - 1})\n"
    f"\\else\n\\set {{0}} random(0, {PEOPLE - 1})\n\\endif\n"
)
MIXED = (
    f"\\set draw random(1, 10)\n\\if :draw <= 6\n{INSERT}\\elif :draw <= 8\n{CHOOSE.format('a')}"
    f"UPDATE person SET age = age + 1 WHERE name = {NAME.format('a')};\n\\else\n"
    f"{CHOOSE.format('a')}{CHOOSE.format('b')}"
    f"INSERT INTO knows (src, dst) VALUES ({NAME.format('a')}, {NAME.format('b')});\n\\endif\n"
)


def has_postgres() -> bool:
    return (POSTGRES_BIN / "initdb").exists() and shutil.which("pgbench") is not None


@contextmanager
def serving_postgres(environment: Mapping[str, str]) -> Iterator[Path]:
    """A cluster of its own, on a Unix socket. The server refuses to run as root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        if as_user:
            shutil.chown(folder, "postgres")
        data = folder / "data"
        initdb = [*as_user, str(POSTGRES_BIN / "initdb"), "-D", str(data), "-U", "bench"]
        _run_quietly([*initdb, "--auth=trust"], folder, {})
        options = (
            f"-k {folder} -c listen_addresses= -c synchronous_commit=on -c max_connections=100"
        )
        control = [*as_user, str(POSTGRES_BIN / "pg_ctl"), "-D", str(data), "-w"]
        start = [*control, "-o", options, "-l", str(folder / "log"), "start"]
        _run_quietly(start, folder, environment)
        try:
            psql = ["psql", "-h", name, "-U", "bench", "-d", "postgres", "-q", "-c", TABLES]
            subprocess.run(psql, check=True)
            yield folder
        finally:
            _run_quietly([*control, "-m", "fast", "stop"], folder, {})


def _run_quietly(command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    env, nothing = {**os.environ, **environment}, subprocess.DEVNULL
    subprocess.run(command, cwd=folder, env=env, check=True, stdout=nothing, stderr=nothing)


def run_postgres(writers: int, mix: Mix, seconds: float, socket: Path) -> Outcome:
    with tempfile.TemporaryDirectory() as name:
        script = Path(name) / "script.sql"
        script.write_text(INSERT if mix is Mix.INSERTS else MIXED)
        pgbench = ["pgbench", "-h", str(socket), "-U", "bench", "-n", "-f", str(script), "-l"]
        load = ["-c", str(writers), "-j", "2", "-T", str(max(1, round(seconds)))]
        subprocess.run(
            [*pgbench, *load, "postgres"], cwd=name, check=True, stdout=subprocess.DEVNULL
        )
        logs = [each.read_text() for each in Path(name).glob("pgbench_log.*")]
    # client, transaction, latency in µs, script, second, microsecond
    lines = [line.split() for log in logs for line in log.splitlines()]
    return Outcome([int(each[2]) / 1e6 for each in lines], max(1, round(seconds)))


if __name__ == "__main__" and sys.argv[1:]:  # `make bench` runs every file here without words
    _doltlite_main(int(sys.argv[1]), Mix(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]))
