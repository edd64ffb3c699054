"""`tencache reproduce`, as a user and as another program calls it."""

import json

import pytest

from tencache import claims_command, cli
from tencache.plan.paper_claims import replay_cases


@pytest.fixture(scope="module")
def replayed():
    """Replay the quick cases once: each test's command shows the same ones."""
    return replay_cases(quick=True)


@pytest.fixture
def replayed_before(replayed, monkeypatch):
    """Let the command take what was replayed already: the same numbers, without waiting again."""
    monkeypatch.setattr(claims_command, "replay_cases", lambda *, quick: replayed if quick else [])


def run(capsys, *arguments):
    code = cli.main(["reproduce", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.slow
@pytest.mark.usefixtures("replayed_before")
def test_json_is_all_that_is_printed_and_a_page_is_written(capsys, tmp_path):
    page = tmp_path / "new" / "claims.html"
    code, out, err = run(capsys, "--quick", "--json", "--html", str(page))
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert {row["key"]: row["paper"] for row in found["rows"]} == {
        "speed": 2.0,
        "hit-rate": 86.6,
        "host-memory": 2.15,
        "device-memory": 1.33,
    }
    assert all(row["replay_most"] >= row["replay_least"] > 0 and row["differs"] for row in found["rows"])
    assert found["device"] is None
    text = page.read_text(encoding="utf-8")
    assert text.count("<rect") == 4 * len(found["cases"])
    assert all(case["label"] in text for case in found["cases"])
    assert "http" not in text


@pytest.mark.usefixtures("replayed_before")
def test_the_table_has_a_line_for_each_comparison(capsys):
    code, out, _ = run(capsys, "--quick")
    assert code == 0
    assert sum("not reached" in line for line in out.splitlines()) == 6
    assert "nothing here did" in out


@pytest.mark.usefixtures("replayed_before")
def test_a_page_is_not_replaced_unless_forced(capsys, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("mine")
    code, out, err = run(capsys, "--quick", "--html", str(page))
    assert (code, out) == (cli.MISUSE, "")
    assert "--force" in err
    assert page.read_text() == "mine"
    assert run(capsys, "--quick", "--html", str(page), "--force")[0] == 0
    assert "<rect" in page.read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("replayed_before")
def test_the_simulated_device_is_measured_when_asked(capsys):
    code, out, _ = run(capsys, "--quick", "--device", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["device"]["model"] == "a GPT of 1M parameters"
    for row in found["rows"]:
        measured = set(row["device"])
        assert measured == ({"1GB/s"} if row["what"] in {"speed", "hit", "ready"} else set())
        assert all(ratio > 0 for ratio in row["device"].values())
