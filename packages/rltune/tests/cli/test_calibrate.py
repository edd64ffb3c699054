"""`rltune calibrate`: the answer, and a cluster's file that simulations use."""

import json

from made_history import as_sacct, happened, limited, workload


def write(tmp_path):
    (tmp_path / "sacct.txt").write_text(as_sacct(happened(workload(load=0.6, users=4), limited(8))))
    (tmp_path / "site.toml").write_text("# ours\n[[group]]\ncount = 8\ngpus = 4\n")
    return tmp_path / "sacct.txt", tmp_path / "site.toml"


def test_what_was_found_is_written_only_if_asked_and_then_used(rltune, tmp_path):
    history, site = write(tmp_path)
    made = rltune("calibrate", history, "-c", site, "--write", tmp_path / "new.toml", "--json", tmp_path / "c.json")
    assert made.out.startswith("Two verdicts: that of the file you go on with counts")
    assert "\nWithout the lines below: usable neither" in made.out
    assert "max_gpus = 8" in made.out
    assert site.read_text().count("limit") == 0
    marks, ours = (tmp_path / "new.toml").read_text().split("# ours\n[[group]]", 1)
    assert [line.split(" = ")[0] for line in marks.splitlines()] == ["calibrated", "usable_for", "clock_s"]
    assert 'usable_for = "sizes of gains"' in marks  # with what was found, though not without
    assert ours.endswith("max_gpus = 8\n")
    assert json.loads((tmp_path / "c.json").read_text())["good_for"] == "neither"
    words = ("simulate", history, "-p", "fcfs", "-b", "easy", "--estimator", "user", "--json")
    before, after = (json.loads(rltune(*words, "-c", file).out) for file in (site, tmp_path / "new.toml"))
    recorded = after["recorded"]["recorded_s"]["mean"]
    assert before["wait_s"]["mean"] < 0.2 * recorded
    assert 0.9 < after["wait_s"]["mean"] / recorded < 1.1


def test_a_verdict_is_an_answer_and_no_error(rltune, tmp_path):
    """Whatever it is: the command has done its work, and scripts read the verdict in JSON."""
    history, site = write(tmp_path)
    made = rltune("calibrate", history, "-c", site, "--json")
    assert json.loads(made.out)["good_for"] == "neither"
    assert made.code == 0


def test_what_a_file_lacks_is_said(rltune, tmp_path):
    """On the terminal, on the page and in JSON: without limits and nodes less can be found out."""
    history, site = write(tmp_path)
    rows = [line.split("|") for line in history.read_text().splitlines()]
    gone = [rows[0].index(name) for name in ("TimelimitRaw", "NodeList", "Eligible")]
    bare = tmp_path / "bare.txt"
    bare.write_text("".join("|".join(c for i, c in enumerate(row) if i not in gone) + "\n" for row in rows))
    made = rltune("calibrate", bare, "-c", site, "--json", tmp_path / "c.json", "--report", tmp_path / "c.html")
    page, notes = (tmp_path / "c.html").read_text(), json.loads((tmp_path / "c.json").read_text())["notes"]
    for told in (made.out, page, " ".join(notes)):
        assert "Column TimelimitRaw is missing: which times were asked is not known" in told
        assert "Column NodeList is missing: where jobs ran is not known, nor which nodes were down" in told
        assert "Column Eligible is missing: waits may hold dependencies" in told
    assert "is missing" not in rltune("calibrate", history, "-c", site).out


def test_a_page_is_written(rltune, tmp_path):
    history, site = write(tmp_path)
    rltune("calibrate", history, "-c", site, "--report", tmp_path / "c.html")
    assert "Lines for the cluster" in (tmp_path / "c.html").read_text()


def test_a_history_without_starts_is_one_sentence(rltune, tmp_path):
    (tmp_path / "t.csv").write_text("submit_s,duration_s,gpus\n0,5,1\n")
    made = rltune("calibrate", tmp_path / "t.csv", "-c", "philly-slice")
    assert made.code == 2
    assert "no starts are recorded" in made.err
