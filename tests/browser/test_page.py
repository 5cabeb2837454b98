"""The web page in a real browser: what a reviewer does, and what an attacker tries."""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Route, expect

import omnigraph
from browser.conftest import ROOT, TOKENS, XSS, Served, Tab, serving

pytestmark = pytest.mark.slow

SHOTS = os.environ.get("OMNIGRAPH_SCREENSHOTS")
"""A folder for the pictures of docs/ui.md."""


def shoot(tab: Tab, name: str) -> None:
    if SHOTS:
        tab.page.wait_for_timeout(600)
        tab.page.screenshot(path=str(Path(SHOTS) / f"{name}.png"))


def put_program(tab: Tab, program: str) -> None:
    """As typed: filling an editable element sets styles, which our policy refuses."""
    tab.page.get_by_role("textbox", name="Query program").click()
    tab.page.keyboard.press("Control+a")
    tab.page.keyboard.press("Delete")
    tab.page.keyboard.insert_text(program)


def test_a_wrong_token_is_refused_in_the_words_of_the_server(tab: Tab) -> None:
    tab.page.goto(f"{tab.url}/ui/")
    tab.page.get_by_label("Token").fill("wrong")
    tab.page.get_by_role("button", name="Open the graph").click()
    expect(tab.page.get_by_role("alert")).to_contain_text("token")


def test_the_overview_shows_branches_and_a_commit_with_its_changes(tab: Tab) -> None:
    tab.login()
    expect(tab.page.locator(".branch-row")).to_have_count(6)
    expect(tab.page.locator(".branch-row", has_text="winter")).to_contain_text("↑1")
    shoot(tab, "overview")
    tab.page.locator("a.commit", has_text="the west wing").click()
    drawer = tab.page.get_by_role("dialog")
    expect(drawer).to_contain_text("24 changes")
    expect(drawer.locator(".change").first).to_contain_text("R00")
    shoot(tab, "commit")
    tab.page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)


def test_a_query_with_a_typo_gets_its_mark_and_a_right_one_its_rows(tab: Tab) -> None:
    tab.login()
    tab.go("#/query")
    put_program(tab, "query q() { match { $a: Artwork  $a hangs $g } return { $a, $g, $a.titel } }")
    mark = tab.page.locator(".cm-lintRange-error")
    expect(mark).to_have_text("titel")
    put_program(tab, "query q() { match { $a: Artwork  $a hangs $g } return { $a, $g, $a.title } }")
    expect(mark).to_have_count(0)
    tab.page.keyboard.press("Control+Enter")
    expect(tab.page.get_by_role("region", name="Result", exact=True)).to_contain_text("31 rows")
    expect(tab.page.get_by_role("link", name="AB-1", exact=True)).to_be_visible()
    shoot(tab, "query")
    tab.page.get_by_role("tab", name="Picture").click()
    expect(tab.page.locator(".canvas[data-drawn-ms]")).to_be_visible()
    shoot(tab, "query-picture")
    tab.page.get_by_role("button", name="Explain").click()
    expect(tab.page.get_by_role("region", name="Plan")).to_contain_text("scan")


def test_the_editor_completes_from_the_schema(tab: Tab) -> None:
    tab.login()
    tab.go("#/query")
    put_program(tab, "query q() { match { $a: Gallery } return { ")
    tab.page.keyboard.type("$a.fl", delay=30)
    expect(tab.page.locator(".cm-tooltip-autocomplete")).to_contain_text("floor")


def test_a_stored_query_has_a_form_and_an_aggregate_has_a_chart(tab: Tab) -> None:
    tab.login()
    tab.go("#/query?stored=by_medium")
    tab.page.get_by_label("media").fill("oil")
    tab.page.get_by_label("n I64").fill("5")
    tab.page.get_by_role("button", name="Run", exact=True).click()
    expect(tab.page.get_by_role("region", name="Result", exact=True)).to_contain_text("5 rows")
    tab.go("#/query")
    put_program(
        tab, "query q() { match { $a: Artwork $a hangs $g } return { $g.code, count($a) as n } }"
    )
    tab.page.get_by_role("button", name="Run", exact=True).click()
    tab.page.get_by_role("tab", name="Chart").click()
    expect(tab.page.locator(".chart li")).to_have_count(7)


def test_the_slider_reads_the_past(tab: Tab) -> None:
    tab.login()
    tab.go("#/query")
    put_program(tab, "query q() { match { $g: Gallery } return { count($g) as n } }")
    slider = tab.page.get_by_role("slider")
    expect(slider).to_be_enabled()
    slider.fill("1")
    tab.page.get_by_role("button", name="Run", exact=True).click()
    expect(tab.page.locator(".sheet-row")).to_have_text("2")


def test_markup_in_the_graph_is_shown_as_text(tab: Tab) -> None:
    tab.login()
    expect(tab.page.locator(".branch-row", has_text="autumn")).to_contain_text("<img src=x")
    tab.go("#/review?source=autumn&target=main")
    expect(tab.page.locator(".change").first).to_contain_text("<img src=x")
    shoot(tab, "changes")
    tab.page.get_by_role("tab", name="Picture").click()
    expect(tab.page.locator(".canvas[data-drawn-ms]")).to_be_visible()
    shoot(tab, "review-picture")
    tab.go(f"#/entity?{urlencode({'type': 'Artist', 'id': XSS, 'branch': 'autumn'})}")
    expect(tab.page.locator(".blame")).to_contain_text("<script>")
    expect(tab.page.locator(".neighbours")).to_contain_text("AB-1")
    assert "broken" not in tab.page.title()
    assert tab.page.locator("main img").count() == 0


PRESS = """
keys => keys.forEach(key =>
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })))
"""


def test_twenty_conflicts_are_decided_and_merged_by_keyboard_alone(tab: Tab) -> None:
    tab.login()
    tab.page.keyboard.press("g")
    tab.page.keyboard.press("r")
    tab.page.get_by_role("heading", name="Review").wait_for()
    tab.go("#/review?source=winter&target=main")
    expect(tab.page.locator(".conflict")).to_have_count(20)
    tab.page.evaluate(PRESS, ["o", "t"] * 6)  # faster than the page is drawn
    for key in ["o", "t"] * 4:
        tab.page.keyboard.press(key)
    expect(tab.page.get_by_text("20 of 20 decided")).to_be_visible()
    shoot(tab, "conflicts")
    with tab.page.expect_download() as saved:
        tab.page.get_by_role("button", name="Save file").click()
    assert '"resolution": "theirs"' in Path(saved.value.path()).read_text()
    tab.page.locator("body").press("m")
    expect(tab.page.get_by_text("winter is merged into main")).to_be_visible()
    tab.page.locator(".merged a").click()
    expect(tab.page.get_by_role("dialog")).to_contain_text("dana")


def test_a_proposal_with_a_conflict_is_approved_checked_and_merged(tab: Tab) -> None:
    tab.login("agent")
    tab.go("#/review?source=candidate&target=release")
    tab.page.get_by_label("Title of a proposal").fill("West, not East")
    tab.page.get_by_role("button", name="Propose").click()
    expect(tab.page.get_by_text("1 approval missing")).to_be_visible()
    expect(tab.page.get_by_role("button", name="Approve")).to_have_count(0)
    place = tab.page.evaluate("location.hash")
    tab.page.get_by_role("button", name="Log out").click()
    tab.login("dana")
    tab.go("#/review")
    tab.page.get_by_role("link", name="West, not East").click()
    tab.page.get_by_role("button", name="Approve").click()
    expect(tab.page.get_by_label("Approvals")).to_contain_text("dana")
    expect(tab.page.get_by_role("button", name="Approve")).to_have_count(0)
    tab.page.get_by_label("theirs · candidate").check()
    shoot(tab, "proposal")
    tab.page.get_by_role("button", name="Merge into release").click()
    expect(tab.page.get_by_text("candidate is merged into release")).to_be_visible()
    tab.go("#/review")
    tab.go(place)
    expect(tab.page.get_by_text("Merged as")).to_be_visible()


def test_a_head_that_moved_refuses_the_merge(tab: Tab, served: Served) -> None:
    with omnigraph.connect(served.url, graph="museum", token=TOKENS["dana"]) as graph:
        work = graph.branch("moving", create=True)
        work.insert("Gallery", [{"code": "M1", "title": "Moved"}])
        tab.login()
        tab.go("#/review?source=moving&target=main")
        button = tab.page.get_by_role("button", name="Merge into main")
        expect(button).to_be_enabled()
        work.insert("Gallery", [{"code": "M2", "title": "Moved again"}])
        button.click()
        expect(tab.page.get_by_role("alert")).to_contain_text("moving")
        tab.page.get_by_role("button", name="Try again").click()
        expect(tab.page.get_by_role("tab", name="Changes 2")).to_be_visible()


def test_rights_decide_what_is_offered(tab: Tab) -> None:
    tab.login("agent")
    tab.go("#/review?source=autumn&target=main")
    expect(tab.page.get_by_text("may not merge into main")).to_be_visible()
    expect(tab.page.get_by_role("button", name="Merge into main")).to_have_count(0)


def test_a_slow_server_shows_progress(tab: Tab) -> None:
    tab.login()
    held: list[Route] = []
    tab.page.route("**/query", lambda route: held.append(route))  # noqa: PLW0108 - not a builtin
    tab.go("#/query")
    tab.page.get_by_role("button", name="Run", exact=True).click()
    expect(tab.page.locator(".progress.busy")).to_be_attached()
    expect(tab.page.get_by_role("status", name="The query is running")).to_be_visible()
    held[0].continue_()
    expect(tab.page.get_by_role("region", name="Result", exact=True)).to_be_visible()
    expect(tab.page.locator(".progress.busy")).to_have_count(0)


PLACES = (
    "#/overview",
    "#/review?source=autumn&target=main",
    "#/query",
    "#/schema",
    "#/entity?type=Gallery&id=R03",
    "#/jobs",
)


def wait_until_shown(tab: Tab) -> None:
    expect(tab.page.locator("main h1")).to_be_visible()
    expect(tab.page.locator("main .skeleton")).to_have_count(0)


def test_no_page_has_a_serious_fault_for_screen_readers_in_either_theme(tab: Tab) -> None:
    axe = (ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js").read_text()
    tab.login()
    tab.page.evaluate(axe)  # not a script element: the policy refuses those
    for theme in ("dark", "light"):
        tab.page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        for place in PLACES:
            tab.go(place)
            wait_until_shown(tab)
            found: list[dict[str, Any]] = tab.page.evaluate(
                "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)"
            )
            serious = [
                (each["id"], each["nodes"][0]["html"][:160])
                for each in found
                if each["impact"] in ("serious", "critical")
            ]
            assert serious == [], (theme, place)
            if theme == "dark" or place in ("#/schema", "#/entity?type=Gallery&id=R03"):
                shoot(tab, f"{place[2:].partition('?')[0]}-{theme}")


def test_no_page_scrolls_sideways_at_400_pixels(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 400, "height": 800})
    tab.login()
    for place in PLACES:
        tab.go(place)
        wait_until_shown(tab)
        width = tab.page.evaluate("document.documentElement.scrollWidth")
        assert width <= 400, place
        shoot(tab, f"narrow-{place[2:].partition('?')[0]}")


def test_the_schema_is_drawn_and_another_one_planned(tab: Tab) -> None:
    tab.login()
    tab.go("#/schema")
    expect(tab.page.locator(".canvas[data-drawn-ms]")).to_be_visible()
    tab.page.get_by_role("tab", name="Plan a change").click()
    tab.page.get_by_role("textbox", name="Schema").click()
    tab.page.keyboard.press("Control+Home")
    tab.page.keyboard.insert_text("node Visitor { name: String @key }\n")
    tab.page.get_by_role("button", name="Show the plan").click()
    expect(tab.page.locator(".steps").first).to_contain_text("Visitor")


def test_an_entity_shows_who_set_each_property(tab: Tab) -> None:
    tab.login()
    tab.go("#/entity?type=Artwork&id=AB-3")
    expect(tab.page.locator(".blame-row", has_text="title")).to_contain_text("agent")
    expect(tab.page.locator(".neighbours")).to_contain_text("R03")


def test_a_picture_is_walked_and_expanded_by_keyboard(tab: Tab) -> None:
    tab.login()
    tab.go("#/entity?type=Artwork&id=AB-3")
    canvas = tab.page.locator(".canvas[data-drawn-ms]")
    canvas.focus()
    said = tab.page.locator(".picture [role=status]")
    for _ in range(2):
        canvas.press("ArrowRight")
    expect(said).to_have_text("Gallery R03")
    canvas.press("Enter")
    expect(tab.page.locator(".legend")).to_contain_text("Artwork")
    shoot(tab, "expanded")
    for _ in range(2):
        canvas.press("ArrowRight")
    expect(said).not_to_have_text("Gallery R03")
    for _ in range(2):
        canvas.press("ArrowLeft")
    expect(said).to_have_text("Gallery R03")
    canvas.press("Enter")
    expect(tab.page.get_by_role("heading", name="Gallery R03")).to_be_visible()


def test_many_conflicts_are_shown_in_pages(tab: Tab, served: Served) -> None:
    rows = [{"name": f"painter {at:03}", "born": 1900} for at in range(150)]
    with omnigraph.connect(served.url, graph="museum", token=TOKENS["dana"]) as graph:
        ours = graph.branch("ours", create=True)
        ours.insert("Artist", rows)
        theirs = graph.branch("theirs", create=True, source="ours")
        for branch, born in ((ours, 1901), (theirs, 1902)):
            branch.upsert("Artist", [{**each, "born": born} for each in rows])
    tab.login()
    tab.go("#/review?source=theirs&target=ours")
    expect(tab.page.get_by_text("1 to 100 of 150")).to_be_visible()
    expect(tab.page.locator(".conflict")).to_have_count(100)
    tab.page.get_by_role("button", name="Next").click()
    expect(tab.page.locator(".conflict")).to_have_count(50)
    tab.page.locator("body").press("k")
    expect(tab.page.get_by_text("1 to 100 of 150")).to_be_visible()
    tab.page.get_by_role("button", name="Rest: theirs").click()
    expect(tab.page.get_by_text("150 of 150 decided")).to_be_visible()
    tab.page.get_by_role("button", name="Merge into ours").click()
    expect(tab.page.get_by_text("theirs is merged into ours")).to_be_visible()


def test_a_reader_of_several_graphs_goes_from_one_to_another(
    browser: Browser, tmp_path: Path
) -> None:
    for name in ("left", "right"):
        omnigraph.init(str(tmp_path / f"{name}.omni"), "node A { name: String @key }")
    (tmp_path / "tokens.json").write_text(json.dumps(TOKENS))
    rule = "{ id: list, allow: { actors: { group: all }, actions: [graph_list] } }"
    (tmp_path / "list.yaml").write_text(
        f"version: 1\ngroups: {{ all: [dana] }}\nrules:\n  - {rule}\n"
    )
    (tmp_path / "server.yaml").write_text(
        "version: 1\nbind: 127.0.0.1:0\npolicy: list.yaml\n"
        "graphs: { left: { uri: left.omni }, right: { uri: right.omni } }\n"
    )
    with serving(tmp_path, "--config", "server.yaml") as several:
        page = browser.new_page()
        page.goto(f"{several.url}/ui/")
        page.get_by_label("Token").fill(TOKENS["dana"])
        page.get_by_role("button", name="Open the graph").click()
        page.get_by_role("combobox", name="Graph").select_option("right")
        page.get_by_role("button", name="Open the graph").click()
        expect(page).to_have_title("Overview · right")
        page.get_by_role("combobox", name="Graph").select_option("left")
        expect(page).to_have_title("Overview · left")
        page.context.close()


def test_a_job_is_listed(tab: Tab, served: Served) -> None:
    tab.login()
    asked = tab.page.request.post(
        f"{served.url}/graphs/museum/load",
        headers={"Authorization": f"Bearer {TOKENS['dana']}", "Prefer": "respond-async"},
        data={"data": '{"type":"Gallery","data":{"code":"J1","title":"Job"}}', "mode": "append"},
    )
    assert asked.status == 202
    tab.go("#/jobs")
    expect(tab.page.locator(".job").first).to_contain_text("load")
    expect(tab.page.locator(".job").first).to_contain_text("succeeded")


def test_ten_thousand_changes_keep_few_rows_in_the_page(tab: Tab, served: Served) -> None:
    with omnigraph.connect(served.url, graph="museum", token=TOKENS["dana"]) as graph:
        work = graph.branch("many", create=True)
        work.insert("Artist", [{"name": f"artist {at:05}"} for at in range(10_000)])
    tab.login()
    tab.go("#/review?source=many&target=main")
    expect(tab.page.get_by_text("10,000 changes")).to_be_visible()
    shown = tab.page.locator(".virtual")
    for _ in range(5):
        shown.evaluate("list => { list.scrollTop += 20000 }")
    assert tab.page.locator(".virtual-row").count() < 80
    tab.page.get_by_role("tab", name="Picture").click()
    expect(tab.page.locator(".canvas[data-drawn-ms]")).to_be_visible()
    expect(tab.page.get_by_text("The first 500 of 10000")).to_be_visible()


def test_two_tabs_have_two_logins(browser: Browser, tab: Tab) -> None:
    tab.login()
    other = browser.new_context()
    page = other.new_page()
    page.goto(f"{tab.url}/ui/")
    expect(page.get_by_label("Token")).to_be_visible()
    other.close()
