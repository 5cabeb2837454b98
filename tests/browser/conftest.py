"""One server with two graphs and one browser, shared by all tests of this folder."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

import omnigraph

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src" / "omnigraph" / "server" / "page"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
    "--disable-dev-shm-usage",
)
PATIENCE_MS = 30_000
"""A machine with other work on it is slow; a condition that never comes true fails later."""

expect.set_options(timeout=PATIENCE_MS)

TOKENS = {"dana": "dana-token", "rob": "rob-token", "agent": "agent-token"}
XSS = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"


def find_reason() -> str | None:
    """Why no browser test can run here, if none can."""
    if CHROMIUM is None:
        return "there is no Chromium: apt-get install chromium"
    if not (PAGE / "index.html").exists():
        return "the page is not built: scripts/ui says why"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = find_reason()
    for each in items:
        if Path(__file__).parent in each.path.parents and reason is not None:
            each.add_marker(pytest.mark.skip(reason=reason))


@dataclass(frozen=True)
class Served:
    """The address of the server, and the folder of its graphs."""

    url: str
    folder: Path


def make_museum(folder: Path) -> None:
    """A graph with branches, conflicts, and a text that would run if it were markup."""
    museum = ROOT / "examples" / "museum"
    graph = omnigraph.init(str(folder / "museum.omni"), museum / "schema.pg", actor="dana")
    graph.load(museum / "records.jsonl", mode="append", actor="dana", message="the first inventory")
    rooms = [{"code": f"R{at:02}", "title": f"Room {at}", "floor": at % 5} for at in range(24)]
    graph.insert("Gallery", rooms, actor="dana", message="the west wing")
    works = [{"ref": f"AB-{at}", "title": f"Study {at}", "medium": "oil"} for at in range(30)]
    graph.insert("Artwork", works, actor="agent", message="what the agent found")
    hangs = [{"from": f"AB-{at}", "to": f"R{at % 6:02}"} for at in range(30)]
    graph.insert("Hangs", hangs, actor="agent", message="and where it hangs")
    for name in ("autumn", "winter", "spring"):
        graph.branches.create(name)
    renamed = [{**each, "title": f"Hall {each['code']}"} for each in rooms[:20]]
    graph.upsert("Gallery", renamed, branch="winter", actor="agent", message="rooms are halls now")
    renamed = [{**each, "title": f"Salon {each['code']}"} for each in rooms[:20]]
    graph.upsert("Gallery", renamed, actor="rob", message="rooms are salons")
    graph.insert(
        "Artist", [{"name": XSS, "born": 1900}], branch="autumn", actor="agent", message=XSS
    )
    made = [{"from": XSS, "to": "AB-1"}]
    graph.insert("Made", made, branch="autumn", actor="agent", message=XSS)
    more = [{"code": f"S{at}", "title": f"South {at}"} for at in range(3)]
    graph.insert("Gallery", more, branch="spring", actor="agent", message="the south wing")
    graph.merge("spring", into="main", actor="dana", message="open the south wing")
    graph.branches.create("release")
    graph.branches.create("candidate", source="release")
    room = {"code": "R23", "floor": 1}
    graph.upsert("Gallery", [{**room, "title": "East"}], branch="release", actor="rob")
    graph.upsert("Gallery", [{**room, "title": "West"}], branch="candidate", actor="agent")


def write_settings(folder: Path) -> None:
    (folder / "tokens.json").write_text(json.dumps(TOKENS))
    (folder / "queries").mkdir()
    shutil.copy(ROOT / "examples" / "museum" / "queries.gq", folder / "queries")
    (folder / "queries" / "checks.gq").write_text(
        'query no_untitled() { match { $g: Gallery { title: "" } } return { $g } }'
    )
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "server.yaml").write_text(
        "version: 1\nbind: 127.0.0.1:0\ngraphs:\n  museum:\n    uri: museum.omni\n"
        "    policy: policy.yaml\n    queries: queries/\n"
    )


POLICY = """
version: 1
groups:
  people: [dana, rob, agent]
  editors: [dana, rob]
protected_branches:
  - { branch: release, approvals: 1, checks: [no_untitled], author_may_approve: false }
rules:
  - id: everyone-proposes
    allow: { actors: { group: people }, actions: [propose], target_branch_scope: any }
  - id: editors-approve
    allow: { actors: { group: editors }, actions: [approve], target_branch_scope: any }
  - id: everyone-reads
    allow: { actors: { group: people }, actions: [read, export], branch_scope: any }
  - id: everyone-invokes
    allow: { actors: { group: people }, actions: [invoke_query] }
  - id: editors-change
    allow: { actors: { group: editors }, actions: [change], branch_scope: any }
  - id: editors-merge
    allow: { actors: { group: editors }, actions: [branch_create, branch_merge, branch_delete],
             target_branch_scope: any }
"""


@contextmanager
def serving(folder: Path, *words: str) -> Iterator[Served]:
    """A server process, with the tokens of this folder if it has any."""
    environment = os.environ | {"OMNIGRAPH_HOME": str(folder / "home")}
    if (folder / "tokens.json").exists():
        environment["OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"] = str(folder / "tokens.json")
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "omnigraph", "serve", *words],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert server.stdout is not None
    try:
        line = server.stdout.readline()
        assert "=" in line, (folder / "server.log").read_text()
        yield Served(f"http://{line.strip().partition('=')[2]}", folder)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("browser")
    make_museum(folder)
    write_settings(folder)
    with serving(folder, "--config", "server.yaml") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed with its module: while it lives, this process has a running event loop."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=CHROMIUM, args=list(FLAGS), timeout=PATIENCE_MS
        )
        yield started
        started.close()


@dataclass(frozen=True)
class Tab:
    """A tab of the browser, and everything that went wrong in it."""

    page: Page
    url: str
    faults: list[str]
    hosts: set[str]

    def login(self, actor: str = "dana") -> None:
        self.page.goto(f"{self.url}/ui/")
        self.page.get_by_label("Token").fill(TOKENS[actor])
        self.page.get_by_role("button", name="Open the graph").click()
        self.page.get_by_role("heading", name="Overview").wait_for()

    def go(self, place: str) -> None:
        self.page.evaluate("place => { location.hash = place }", place)


@pytest.fixture
def tab(browser: Browser, served: Served) -> Iterator[Tab]:
    context = browser.new_context(viewport={"width": 1280, "height": 860}, accept_downloads=True)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    found = Tab(page, served.url, [], set())
    page.on("pageerror", lambda error: found.faults.append(str(error)))
    page.on(
        "console",
        lambda said: found.faults.append(said.text) if "Content Security" in said.text else None,
    )
    page.on("request", lambda asked: found.hosts.add(asked.url.split("/")[2]))
    yield found
    context.close()
    assert found.faults == []
    assert found.hosts <= {served.url.removeprefix("http://"), ""}
