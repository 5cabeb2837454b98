"""What a reviewer waits for in the web page: the first paint, 10,000 changes, 500 entities.

A Chromium opens the page of a local server, each time with an empty cache. «Processor» is the time
that the thread of the page worked, and holds on a busy machine; the clock is what a reader waits
for. Needs Chromium and a built page; says so and ends where one is missing.

    PYTHONPATH=tests python benchmarks/page.py [--rounds 3]
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from measure import Figure, report
from playwright.sync_api import Browser, Page, sync_playwright

import omnigraph
from browser.conftest import CHROMIUM, FLAGS, find_reason, make_museum, serving

CHANGES = 10_000
JUMPS = 60
WATCH_FRAMES = """() => {
  window.longest = 0;
  let last = performance.now();
  const tick = (now) => {
    window.longest = Math.max(window.longest, now - last);
    last = now;
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}"""


class Meter:
    """The processor time of a page, and its longest frame."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def processor(self) -> float:
        """Seconds since the page began."""
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


def open_page(browser: Browser) -> Page:
    page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
    page.set_default_timeout(120_000)
    return page


def measure_paint(browser: Browser, url: str, rounds: int) -> list[Figure]:
    clock, processor = [], []
    for _ in range(rounds):
        page = open_page(browser)
        meter = Meter(page)
        page.goto(f"{url}/ui/")
        page.locator(".branch-row").first.wait_for()
        clock.append(page.evaluate("performance.now()") / 1000)
        processor.append(meter.processor())
        page.context.close()
    waited = statistics.median(clock)
    return [
        Figure("branches shown, empty cache, clock", waited, None, None, "≤ 1.5 s", waited <= 1.5),
        Figure("the same, processor", statistics.median(processor)),
    ]


def measure_review(browser: Browser, url: str) -> list[Figure]:
    page = open_page(browser)
    page.goto(f"{url}/ui/#/review?source=many&target=main")
    page.get_by_text(f"{CHANGES:,} changes").wait_for()
    meter = Meter(page)
    page.wait_for_timeout(500)
    page.evaluate(WATCH_FRAMES)
    began = meter.processor()
    for _ in range(JUMPS):
        page.locator(".virtual").evaluate("list => { list.scrollTop += 9000 }")
        page.wait_for_timeout(20)
    jump = (meter.processor() - began) / JUMPS
    longest = page.evaluate("window.longest") / 1000
    began = meter.processor()
    page.get_by_role("tab", name="Picture").click()
    page.locator(".canvas[data-drawn-ms]").wait_for()
    spent = meter.processor() - began
    drawn = float(page.locator(".canvas").get_attribute("data-drawn-ms") or 0) / 1000
    page.context.close()
    changes = f"{CHANGES:,} changes"
    return [
        Figure(f"{changes}, a jump of 300 rows, processor", jump),
        Figure(f"{changes}, longest frame", longest, None, None, "≤ 100 ms", longest <= 0.1),
        Figure("picture of 500 entities, clock", drawn, None, None, "≤ 1 s", drawn <= 1),
        Figure("the same with its context read, processor", spent),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    reason = find_reason()
    if reason is not None:
        print(f"not measured: {reason}")
        return
    with tempfile.TemporaryDirectory(prefix="og") as name:
        folder = Path(name)
        make_museum(folder)
        with omnigraph.open(str(folder / "museum.omni")) as graph:
            work = graph.branch("many", create=True)
            work.insert("Artist", [{"name": f"artist {at:05}"} for at in range(CHANGES)])
        words = ("--graph", "museum=museum.omni", "--unauthenticated", "--bind", "127.0.0.1:0")
        with serving(folder, *words) as served, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
            paint = measure_paint(browser, served.url, rounds)
            report("page", [*paint, *measure_review(browser, served.url)])
            browser.close()


if __name__ == "__main__":
    main()
