"""The HTTP side of `fleet.py`: a server with two workers, and wrk, which is not the limit."""

import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from fleet_ours import PROGRAMS, Run, fill
from fleet_work import HOT, PEOPLE, Kind, Mix

READ = "query r($a: String) { match { $p: Person { name: $a } } return { $p.name, $p.age } }"
RUN = "import sys; from omnigraph.cli.app import run; sys.exit(run(sys.argv[1:]))"
WORKERS = 2
WARM_UP_S = 2

SCRIPT = """
local programs, mix, run = %(programs)s, "%(mix)s", "%(run)s"
local threads, number = 0, 0
function setup(thread) thread:set("id", threads); threads = threads + 1 end
function init(args) math.randomseed(id * 7919 + 17) end
local function existing()
  local among = math.random() < 0.05 and %(hot)d or %(people)d
  return string.format("p%%04d", math.random(0, among - 1))
end
function request()
  number = number + 1
  local draw = mix == "mixed" and math.random() or 0
  local body
  if mix == "read" then body = string.format(programs.read, existing())
  elseif draw < 0.6 then body = string.format(programs.insert, run .. "-" .. id .. "-" .. number)
  elseif draw < 0.8 then body = string.format(programs.update, existing())
  else body = string.format(programs.edge, existing(), existing()) end
  return wrk.format("POST", mix == "read" and "/graphs/g/query" or "/graphs/g/mutate",
                    {["Content-Type"] = "application/json"}, body)
end
function done(summary, latency, requests)
  local failed = summary.errors.status + summary.errors.connect + summary.errors.read
                 + summary.errors.write + summary.errors.timeout
  local form = '{"requests": %%d, "failed": %%d, "seconds": %%f, "p50": %%f, "p99": %%f}\\n'
  io.write(string.format(form, summary.requests, failed, summary.duration / 1e6,
    latency:percentile(50) / 1e6, latency:percentile(99) / 1e6))
end
"""


@dataclass(frozen=True, slots=True)
class Load:
    """What wrk saw."""

    requests: int
    failed: int
    seconds: float
    p50: float
    p99: float

    @property
    def per_s(self) -> float:
        return (self.requests - self.failed) / self.seconds


def has_wrk() -> bool:
    return shutil.which("wrk") is not None


@contextmanager
def serving(run: Run, environment: Mapping[str, str]) -> Iterator[str]:
    """A server on a new graph; gives its address."""
    fill(run).close()
    command = ["serve", f"--graph=g={run.uri}", "--unauthenticated", "--bind=127.0.0.1:0"]
    settings = {
        "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "4096",
        "OMNIGRAPH_GROUP": "on" if run.is_grouped else "off",
    }
    server = subprocess.Popen(
        [sys.executable, "-c", RUN, *command, f"--workers={WORKERS}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **environment, **settings},
    )
    assert server.stdout is not None
    try:
        url = f"http://{server.stdout.readline().strip().partition('=')[2]}"
        while not _is_up(url):
            time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait(60)
        server.stdout.close()


def _is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=2).is_success
    except httpx.HTTPError:
        return False


def drive(url: str, mix: str, *, connections: int, seconds: float, name: str) -> Load:
    """Let wrk send requests for so many seconds. `name` keeps the keys of two runs apart."""
    with started(url, mix, connections=connections, seconds=seconds, name=name) as wrk:
        said, _ = wrk.communicate()
    return Load(**json.loads(said.splitlines()[-1]))


@contextmanager
def started(
    url: str, mix: str, *, connections: int, seconds: float, name: str
) -> Iterator["subprocess.Popen[str]"]:
    with TemporaryDirectory() as folder:
        script = Path(folder) / "requests.lua"
        programs = {**{kind.value: _body(kind) for kind in Kind}, "read": _read_body()}
        lua = ", ".join(f"{key} = [==[{body}]==]" for key, body in programs.items())
        facts = {"programs": f"{{{lua}}}", "mix": mix, "run": name, "hot": HOT, "people": PEOPLE}
        script.write_text(SCRIPT % facts)
        command = ["wrk", "-t1", f"-c{connections}", f"-d{math.ceil(seconds)}s", "--timeout", "60s"]
        with subprocess.Popen(
            [*command, "-s", str(script), url], stdout=subprocess.PIPE, text=True
        ) as wrk:
            yield wrk


def _body(kind: Kind) -> str:
    params = {"a": "%s", "b": "%s"} if kind is Kind.EDGE else {"a": "%s"}
    return json.dumps({"query": PROGRAMS[kind], "params": params})


def _read_body() -> str:
    return json.dumps({"query": READ, "params": {"a": "%s"}})


def run_http(run: Run, environment: Mapping[str, str]) -> Load:
    """Writers alone, after a warm-up."""
    with serving(run, environment) as url:
        return drive_warm(url, run)


def drive_warm(url: str, run: Run) -> Load:
    mix = run.mix.value
    drive(url, mix, connections=run.writers, seconds=WARM_UP_S, name="warm")
    return drive(url, mix, connections=run.writers, seconds=run.seconds, name="run")


def reads_beside_writes(run: Run, environment: Mapping[str, str]) -> tuple[Load, Load, Load]:
    """Reads on an idle server, the same reads while writers write, and the writes beside them."""
    with serving(run, environment) as url:
        drive(url, "read", connections=4, seconds=WARM_UP_S, name="r")
        idle = drive(url, "read", connections=4, seconds=run.seconds, name="r")
        drive(url, Mix.INSERTS.value, connections=run.writers, seconds=WARM_UP_S, name="warm")
        with started(
            url, Mix.INSERTS.value, connections=run.writers, seconds=run.seconds + 1, name="run"
        ) as writers:
            busy = drive(url, "read", connections=4, seconds=run.seconds, name="r")
            said, _ = writers.communicate()
    return idle, busy, Load(**json.loads(said.splitlines()[-1]))
