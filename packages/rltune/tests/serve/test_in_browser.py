"""The pages in a real browser: they load, search, sort, explain and answer; by keyboard, on a phone, in the dark."""

import json
import re
from contextlib import contextmanager

import pytest
from browser import Watched, chromium, needs_chromium, served
from live_cases import NOW, MemoryCluster, job, running, settings, snapshot
from serve_cases import service

from rltune.live.controller import Controller
from rltune.live.journal.store import Journal
from rltune.model.curve_file import write_curve
from rltune.serve.guard_rails import RequestLimits
from rltune.serve.tokens import Role, Tokens, new_token

pytestmark = needs_chromium

PAGES = ("/", "/jobs", "/timeline", "/policies", "/whatif", "/training", "/controller")
HOSTILE = {
    3: "<script>document.title='pwned'</script>",
    4: "<img src=x onerror=\"document.title='pwned'\">",
    5: "\"'><svg onload=alert(1)>{{ 7 * 7 }}",
    6: "\u202egnp.exe\u202d right to left",
    7: "x" * 2000,
    8: "</title></main><!--",
}
BOBS = {700_101: "bobs-first", 700_102: "bobs-second", 700_103: "bobs-running", 700_104: "bobs-ended"}
JOBS = (
    running(100, "n0", 4, user="ann", name="trains"),
    running(700_103, "n1", 3, user="bob", name=BOBS[700_103], submit_s=NOW - 900),
    job(700_101, 4, 60, user="bob", name=BOBS[700_101], submit_s=NOW - 990, priority=90_000),
    job(700_102, 8, 90, user="bob", name=BOBS[700_102], submit_s=NOW - 980, priority=80_000),
    job(1, 4, 30, user="ann", name="needle"),
    job(2, 8, 600, user="ann", name="large"),
    job(9, 1, 30, user="ann", held=True, name="held"),
    *(job(number, 2, 45, user="ann", name=name) for number, name in HOSTILE.items()),
    job(20, 1, 30, user="ann", name=HOSTILE[3], state="COMPLETED", start_s=NOW - 800, end_s=NOW - 300),
    job(700_104, 1, user="bob", name=BOBS[700_104], state="COMPLETED", start_s=NOW - 800, end_s=NOW - 200),
)
MANY = RequestLimits(per_s=1e6, burst=10**6)


@pytest.fixture(scope="module")
def controller(tmp_path_factory):
    """A controller in shadow that has made two cycles."""
    path = tmp_path_factory.mktemp("journal") / "journal.db"
    cluster = MemoryCluster(snapshot(JOBS))
    made = Controller(cluster, Journal.create(path), settings(mode="shadow"))
    made.cycle()
    cluster.pass_time(60.0)
    made.cycle()
    made.path = path
    return made


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")
    write_curve(
        folder / "<b>mine.rltune.curve.jsonl", [{"epoch": i, "held_out": 1.0 / (1 + i), "reward": -i} for i in range(5)]
    )
    return folder


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def base(controller, training):
    with served(service(controller.path, limits=MANY, training=training)) as address:
        yield address


@contextmanager
def opened(browser, base, path="/", **context):
    """Open a page of the service; nothing may go wrong in it, and nothing be asked of anybody else."""
    made = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **context})
    made.set_default_timeout(60_000)
    seen = Watched(made.new_page())
    try:
        seen.page.goto(base + path, wait_until="domcontentloaded")
        yield seen.page
        assert seen.wrong == []
        assert {url for url in seen.asked if not url.startswith((base, "data:"))} == set()
    finally:
        made.close()


@pytest.mark.parametrize("width", [1400, 420])
def test_every_page_loads_without_an_error_and_is_no_wider_than_the_screen(browser, base, width):
    with opened(browser, base, viewport={"width": width, "height": 900}) as page:
        for path in (*PAGES, "/jobs/1", "/jobs/20", "/jobs/100"):
            page.goto(base + path, wait_until="domcontentloaded")
            assert page.locator("h1").count() == 1
            assert page.title().endswith("rltune")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            unnamed = page.locator("input:not([type=hidden]), select, textarea").evaluate_all(
                "all => all.filter((one) => !one.labels.length).length"
            )
            assert unnamed == 0, path


def test_jobs_are_searched_sorted_and_opened_to_see_why_they_wait(browser, base):
    from playwright.sync_api import expect  # where there is no browser, it need not be there

    with opened(browser, base, "/jobs") as page:
        assert "13 jobs" in page.locator("main").inner_text()
        page.get_by_label("Search").fill("NEEDLE")
        page.get_by_role("button", name="Show").click()
        assert page.locator(".jobs tbody tr").count() == 1
        page.get_by_role("link", name="Show all").click()
        page.get_by_role("link", name="GPUs").click()
        page.get_by_role("link", name="GPUs").click()
        assert page.locator("th[aria-sort=descending]").inner_text().startswith("GPUs")
        counts = [int(text.split()[0]) for text in page.locator(".jobs tbody td[data-name=GPUs]").all_inner_texts()]
        assert counts == sorted(counts, reverse=True)
        page.get_by_role("link", name="2", exact=True).click()
        text = page.locator("main").inner_text()
        assert "Needs 2 x 4 GPUs" in text or "GPUs" in page.locator(".lead").first.inner_text()
        assert page.get_by_role("heading", name="When it starts").is_visible()
        # a function in words that is asked again would be refused by the pages' own policy for scripts
        expect(page.locator("#sooner")).not_to_contain_text(re.compile("being tried|Try changes"), timeout=60_000)
        assert "could not" not in page.locator("#sooner").inner_text()
        assert "waits:" in page.locator(".events").inner_text()


def test_pages_are_cut_by_the_server(browser, base):
    with opened(browser, base, "/jobs?limit=5") as page:
        first = page.locator(".jobs tbody th").all_inner_texts()
        page.get_by_role("link", name="next 5").first.click()
        second = page.locator(".jobs tbody th").all_inner_texts()
        assert len(first) == len(second) == 5
        assert not set(first) & set(second)


def test_a_what_if_question_is_answered_with_both_futures(browser, base):
    with opened(browser, base, "/whatif") as page:
        page.get_by_role("link", name=re.compile("^add=")).click()
        assert page.get_by_label("Changes, one a line").input_value() == "add=4x4:p100"
        page.get_by_role("button", name="Roll it forward").click()
        page.get_by_role("heading", name="Answer").wait_for()
        text = page.locator("main").inner_text()
        assert "paired futures" in text
        assert "with the change" in text
        assert page.get_by_label("Changes, one a line").input_value() == "add=4x4:p100"


def test_a_change_that_is_not_understood_is_said(browser, base):
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{base}/whatif")
        page.get_by_label("Changes, one a line").fill("wish=luck")
        page.get_by_role("button", name="Roll it forward").click()
        assert "not understood" in page.get_by_role("alert").inner_text()


def test_the_keyboard_is_enough(browser, base):
    with opened(browser, base, "/jobs") as page:
        page.keyboard.press("Tab")
        skip = page.locator(".skip")
        assert skip.evaluate("one => one === document.activeElement && one.getBoundingClientRect().left >= 0")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.name") == "search"
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.type("large")
        page.keyboard.press("Enter")
        page.wait_for_url("**search=large**")
        assert page.locator(".jobs tbody tr").count() == 1
        page.locator("#sort-gpus").focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**sort=gpus**")
        region = page.get_by_role("region", name="Jobs")
        region.focus()
        assert region.evaluate("one => one === document.activeElement")  # so that arrow keys scroll it


def test_hostile_names_do_nothing_and_are_shown_as_they_are(browser, base):
    with opened(browser, base, viewport={"width": 420, "height": 900}) as page:
        for path in (*PAGES, *(f"/jobs/{number}" for number in (*HOSTILE, 20)), "/jobs?search=<script>"):
            page.goto(base + path, wait_until="domcontentloaded")
            assert "pwned" not in page.title()
            assert page.locator("main script, main img, main svg[onload], main b b").count() == 0
            assert page.locator("main").count() == 1
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        page.goto(f"{base}/jobs", wait_until="domcontentloaded")
        names = page.locator(".jobs td.name bdi").all_text_contents()
        assert set(HOSTILE.values()) <= set(names)


def test_it_is_dark_where_that_is_wanted(browser, base):
    grounds = []
    for scheme in ("light", "dark"):
        with opened(browser, base, color_scheme=scheme) as page:
            grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    light, dark = (sum(map(int, re.findall(r"\d+", ground)[:3])) for ground in grounds)
    assert dark < 200
    assert light > 600


def test_who_sees_one_users_jobs_finds_no_trace_of_others(browser, controller, tmp_path):
    token, lines = new_token("ann", Role.OPERATOR, "ann")
    file = tmp_path / "tokens.toml"
    file.write_text(lines)
    file.chmod(0o600)
    hers, seen = [100, 1, 2, 9, 20, *HOSTILE], []
    with served(service(controller.path, tokens=Tokens.read(file), limits=MANY)) as base:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{base}/jobs")
        assert page.url.endswith("/login")
        page.get_by_label("Token").fill("a wrong one")
        page.get_by_role("button").click()
        assert "Nobody knows this token" in page.get_by_role("alert").inner_text()
        page.get_by_label("Token").fill(token)
        page.get_by_role("button").click()
        page.wait_for_url(f"{base}/")
        for path in (*PAGES, "/jobs?search=bob", *(f"/jobs/{number}" for number in hers)):
            page.goto(base + path, wait_until="domcontentloaded")
            seen.append((path, page.content()))
        page.goto(f"{base}/whatif")
        page.get_by_label("Changes, one a line").fill("add=1x4:p100")
        page.get_by_role("button", name="Roll it forward").click()
        page.get_by_role("heading", name="Answer").wait_for()
        seen.append(("what if", page.content()))
        for path in (
            "status", "jobs", "nodes", "forecast", "settings", *(f"jobs/{n}" for n in hers),
            *(f"jobs/{n}/explanation?changes=true" for n in (1, 2, 9)),
        ):  # fmt: skip
            answer = context.request.get(f"{base}/api/v1/{path}")
            assert answer.ok, path
            seen.append((path, answer.text()))
        seen.append(("metrics", context.request.get(f"{base}/metrics").text()))
        for number in BOBS:
            assert context.request.get(f"{base}/jobs/{number}").status == 404
            assert context.request.get(f"{base}/api/v1/jobs/{number}").status == 404
            assert context.request.get(f"{base}/api/v1/jobs/{number}/explanation").status == 404
        assert context.request.get(f"{base}/api/v1/events").status == 403
        event = page.evaluate(
            "() => new Promise((done) => { const source = new EventSource('/api/v1/stream');"
            "source.addEventListener('cycle', (event) => { source.close(); done(event.data); }); })"
        )
        assert set(json.loads(event)) == {"cycle", "taken_s", "waiting", "running"}
        context.close()
    for where, text in seen:
        for number, name in BOBS.items():
            assert str(number) not in text, where
            assert name not in text, where
        assert "bob" not in text.replace("search=bob", "").replace('value="bob"', ""), where
    assert any("job of another user" in text for _, text in seen)


def test_a_new_cycle_appears_by_itself_but_not_under_somebodys_hands(browser, base, controller):
    with opened(browser, base) as page:
        shown = page.locator("main").get_attribute("data-cycle")
        page.locator("#fresh", has_text="Live.").wait_for()
        page.locator("main a").first.focus()
        controller.cycle()
        page.locator("#fresh", has_text="Newer cycles wait").wait_for()
        assert page.locator("main").get_attribute("data-cycle") == shown
        page.evaluate("document.activeElement.blur()")
        controller.cycle()
        page.locator(f"main[data-cycle]:not([data-cycle='{shown}'])").wait_for()
