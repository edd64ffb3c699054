"""The page of an evaluation: self-contained, safe with any name, and alive in a browser."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from learn.looking import a_model

from rltune.cluster import Cluster
from rltune.evaluation import evaluate
from rltune.jobs import Jobs
from rltune.policy.learned import Learned
from rltune.report import render_evaluation, write_evaluation

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NASTY = "</script><script>alert(1)</script>&<b>"
HOW = {"holdout": 0.3, "size": 60, "every": 20, "contended_s": 10.0}


@pytest.fixture(scope="module")
def jobs():
    rng, n = np.random.default_rng(0), 1500
    return Jobs.from_arrays(
        submit_s=np.sort(rng.uniform(0, 60_000, n)),
        duration_s=rng.lognormal(6, 1.2, n),
        gpus=rng.choice([1, 2, 4, 8], n, p=[0.6, 0.2, 0.1, 0.1]),
        vc=np.array(["a", NASTY, "c"])[rng.integers(0, 3, n)],
    )


@pytest.fixture(scope="module")
def page(jobs):
    made = evaluate(
        jobs, Cluster.uniform(4, 4), ["saf", Learned(a_model(), name="net")], ["none", "easy"], **HOW, select=True
    )
    return render_evaluation(made, trace=f"trace {NASTY}", cluster="four", notes=["a note"])


def test_nothing_from_outside_is_referenced(page):
    """An operator's network has no outside."""
    without_namespace = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|\bsrc\s*=|<link|@import|url\(|<iframe|\bfetch\(", without_namespace)


def test_names_cannot_break_out_of_the_page(page):
    """In tables and in data."""
    assert NASTY not in page
    assert "alert(1)</script>" not in page


def test_the_tables_are_there_without_scripts(page):
    """Choices, pairs, breakdowns and notes."""
    text = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    for part in ("Learned against static", "Validation part", "learned, without backfilling", "By VC", "5 to 8 GPUs"):
        assert part in text
    assert "a note" in text
    assert "ratio to fcfs" in text
    assert "Without backfilling: net has" in text


def test_a_page_without_choices_warns_of_picking(jobs, tmp_path):
    """The best on the test part is picked there; with FCFS as the reference there is one column of ratios."""
    made = evaluate(jobs, Cluster.uniform(4, 4), ["saf", "srf"], **HOW)
    text = write_evaluation(made, tmp_path / "new" / "e.html").read_text()
    assert "picked here, on the test part" in text
    assert text.count("<th>ratio to fcfs</th>") == 1
    best = evaluate(jobs, Cluster.uniform(4, 4), ["saf"], **HOW, baseline="saf")
    assert "Nothing beats the reference" in render_evaluation(best)


@pytest.mark.skipif(CHROMIUM is None, reason="no browser")
def test_the_page_comes_alive_in_a_browser(page, tmp_path):
    """Charts are drawn and nothing fails."""
    (tmp_path / "e.html").write_text(page)
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom"]
    ran = subprocess.run(
        [*command, (tmp_path / "e.html").as_uri()], capture_output=True, text=True, check=True, timeout=300
    )
    assert 'data-ready="yes"' in ran.stdout
    assert ran.stdout.count('role="img"') == 2
    assert re.search(r'<path class="c\d d\d" d="M\d', ran.stdout)
