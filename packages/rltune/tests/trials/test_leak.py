"""Whoever judges a model on jobs that taught it, or chose it, is told, whatever became of the jobs."""

import json
from dataclasses import replace

import numpy as np
import pytest
from learn.looking import a_model

from rltune import Cluster, Jobs, read_trace
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.evaluation import compare, evaluate, parse_windows
from rltune.evaluation.evaluation_tables import evaluation_notes
from rltune.evaluation.transfer import Ground, transfer
from rltune.evaluation.transfer_tables import transfer_notes
from rltune.learn.cma_es import EvolveSettings
from rltune.learn.evolve import EvolvePlan, evolve_policy
from rltune.model.card import Card, Lessons
from rltune.model.model_file import save_model
from rltune.policy.learned import Learned
from rltune.trace import synthesise, write
from rltune.trace.anonymise import anonymise
from rltune.trials.leak import Exam, leaks

HOW = {
    "holdout": 0.25,
    "size": 60,
    "every": 60,
    "contended_s": 30.0,
}  # of 2,000: validation from 1,000, test from 1,500


def learnt_from(trace, taught, chose=(0, 0), **changes):
    """Make a model that was taught by some rows of a trace, and chosen on others."""
    parts = ([("mine", trace.window(first, end - first))] for first, end in (taught, chose))
    return Learned(a_model(card=Card(lessons=Lessons.of(*parts), unknown="", **changes)), name="net")


def other(seed=7, count=2000):
    """Make other jobs."""
    return synthesise("philly", count, seed)


def joined(*tables):
    columns = {c: np.concatenate([getattr(t, c) for t in tables]) for c in ("submit_s", "duration_s", "gpus")}
    return Jobs.from_arrays(**columns).sorted()


def read_again(jobs, path):
    write(jobs, path)
    return read_trace(path)


CHANGED = {
    "as it is": lambda jobs, _: jobs,
    "cut": lambda jobs, _: jobs.window(200, 300),
    "extended": lambda jobs, _: joined(jobs, other().with_columns(submit_s=other().submit_s + jobs.submit_s[-1])),
    "joined": lambda jobs, _: joined(jobs, other()),
    "reordered": lambda jobs, _: jobs.take(np.arange(len(jobs))[::-1]),
    "converted": lambda jobs, path: read_again(jobs, path / "a.parquet"),
    "anonymised": lambda jobs, _: anonymise(jobs),
    "with another clock": lambda jobs, _: jobs.with_columns(submit_s=jobs.submit_s + 3600.0),
}


@pytest.fixture(scope="module")
def evolved():
    """Evolve a model, as `rltune evolve` does; give it with the history."""
    cluster = Cluster.uniform(4, 8)
    history = synthesise("philly", 2000, seed=1, load=1.5, cluster=cluster)
    steps = EvolveSettings(generations=1, tried=4, windows=2, every=1, threads=1)
    drawn = {"pool": 4, "size": 128, "held_windows": 1, "contended_s": 1.0, "holdout": 0.1}
    plan = EvolvePlan(estimators=("oracle",), evolve=steps, **drawn)
    return evolve_policy([(history, cluster)], plan, names=["mine.csv"]).model, history


@pytest.fixture(scope="module")
def trained():
    """Train a model, as `rltune train` does; give it with the history."""
    pytest.importorskip("torch", reason="torch is not installed")
    from learn.small_training import jobs
    from learn.small_training import trained as train

    return train(epochs=1, holdout=0.1).best_model(), jobs()


@pytest.mark.parametrize("origin", ["evolved", "trained"])
@pytest.mark.parametrize("change", CHANGED)
def test_a_model_of_any_origin_is_told_on_its_own_jobs(origin, change, request, tmp_path):
    """The history may have been cut, joined, extended, reordered, converted, anonymised or moved in time."""
    model, history = request.getfixturevalue(origin)
    judged = CHANGED[change](history, tmp_path)
    (told,) = leaks([Learned(model, "net")], [Exam(judged)])
    if change == "cut":
        few = min(int(0.8 * len(history)), 500) - 200
        assert told.startswith(f"net was taught by {few} ")
    else:
        taught, chose = int(0.8 * len(history)), int(0.1 * len(history))
        assert f"net was taught by {taught:,} and chosen on {chose:,} of the {len(judged):,} jobs" in told


@pytest.mark.parametrize("origin", ["evolved", "trained"])
def test_a_model_of_any_origin_is_not_told_on_other_jobs(origin, request):
    """Nor on those of its own history that it has not seen."""
    model, history = request.getfixturevalue(origin)
    unseen = int(0.9 * len(history))
    exams = [Exam(history.window(unseen, len(history))), Exam(other()), Exam(other(8).window(5, 9))]
    assert leaks([Learned(model, "net")], exams) == ()


def test_an_evolved_model_names_its_jobs(evolved):
    """Trace, count and span, of what taught and of what chose."""
    model, history = evolved
    taught, chose = model.card.lessons.spans
    assert (taught.trace, taught.jobs, chose.jobs) == ("mine.csv", 1600, 200)
    assert (taught.first_s, taught.last_s) == (history.submit_s[0], history.submit_s[1599])


@pytest.mark.parametrize(
    ("end", "select", "told"),
    [
        (1000, True, []),
        (1500, False, []),
        (1500, True, ["500 of the 500 jobs of the validation part"]),
        (1600, False, ["100 of the 500 jobs of the test part"]),
        (1600, True, ["500 of the 500 jobs of the validation part", "100 of the 500 jobs of the test part"]),
    ],
)
def test_training_on_what_is_looked_at_is_told(trace, cluster, end, select, told):
    """For the validation part only where it is looked at."""
    got = evaluate(trace, cluster, [learnt_from(trace, (0, end))], **HOW, select=select)
    warned = [line for line in evaluation_notes(got) if "was taught by" in line]
    assert [what in line for what, line in zip(told, warned, strict=True)] == [True] * len(told)


def test_a_model_that_was_chosen_on_what_judges_it_is_told(trace, cluster):
    """Choosing again on the part that chose before is no harm: the test part judges."""
    chosen_early = learnt_from(trace, (0, 1000), (1000, 1500))
    assert [w for w in evaluate(trace, cluster, [chosen_early], **HOW, select=True).warnings if "net" in w] == []
    chosen_late = learnt_from(trace, (0, 1000), (1400, 1700))
    (told,) = (w for w in evaluate(trace, cluster, [chosen_late], **HOW).warnings if "net" in w)
    assert "net was chosen on 200 of the 500 jobs of the test part" in told


def test_a_comparison_tells_of_the_jobs_in_its_windows(trace, cluster):
    """Not of others of the same trace."""
    early = learnt_from(trace, (0, 300))
    whole = compare(trace, cluster, ["fcfs", early], windows="whole")
    assert any("taught by 300 of the 2,000 jobs it is judged on" in note for note in whole.notes)
    late = trace.window(500, 1500)
    assert not any("taught by" in note for note in compare(late, cluster, ["fcfs", early], windows="whole").notes)
    some = compare(trace, cluster, ["fcfs", learnt_from(trace, (0, 2000))], windows=parse_windows("2x100", 0))
    assert any("taught by 200 of the 200 jobs" in note for note in some.notes)


def test_a_transfer_tells_of_leaks_by_trace(trace, cluster):
    """So that one column is not believed."""
    made = transfer([learnt_from(trace, (0, 2000))], [Ground("mine", trace, cluster)], ["saf"], **HOW)
    assert any(line.startswith("mine: net was taught by 500") for line in transfer_notes(made))


def test_a_model_that_does_not_say_what_taught_it_is_told(trace):
    """It may have seen anything."""
    (told,) = leaks([Learned(a_model(), "bare")], [Exam(trace)])
    assert told.startswith("bare: what taught it is not known (its file does not say")
    lessons = learnt_from(trace, (0, 10)).model.card
    partly = Learned(a_model(card=replace(lessons, unknown="half is lost")), "half")
    assert leaks([partly], [Exam(other())])[0].startswith("half: not all that taught it is known (half is lost)")


def test_a_model_is_told_once_however_it_is_used_and_rules_never(trace, tmp_path):
    """With a guard and a search around it, by its file or as an object."""
    net = learnt_from(trace, (0, 2000))
    path = tmp_path / "net.rltune"
    save_model(net.model, path)
    named = ["saf", "qssf", str(path), f"{path}+guard:24h", f"{path}+search:4+guard:24h", net]
    told = leaks([parse_pipeline(policy).policy for policy in named], [Exam(trace)])
    assert len(told) == 1


def held(trace):
    """Return the jobs as a Slurm tells of them that held each for a while, until shortly before it started."""
    begin = trace.submit_s + np.random.default_rng(2).integers(1, 900, len(trace))
    return trace.with_columns(recorded_eligible_s=begin, recorded_start_s=begin + 5)


def taught_before_and_now(trace):
    """Return models taught by jobs as submitted, from when they could start, and so without a word of the submit."""
    ready = trace.from_when_ready().sorted()
    return [learnt_from(jobs, (0, 2000)) for jobs in (trace, ready, ready.with_columns(held_s=np.zeros(len(ready))))]


@pytest.mark.parametrize("given", ["as submitted", "from when ready"])
def test_a_model_is_told_of_jobs_that_something_held(trace, cluster, given):
    """Whenever it was taught, and whatever the jobs are counted from."""
    raw = held(trace)
    judged = raw if given == "as submitted" else raw.from_when_ready()
    for model in taught_before_and_now(raw):
        assert any("taught by 2,000 of the 2,000" in one for one in leaks([model], [Exam(judged)]))
        assert any("taught by 500" in one for one in evaluate(judged, cluster, [model], **HOW).warnings)
        whole = compare(judged, cluster, ["fcfs", model], windows="whole")
        assert any("taught by 2,000" in one for one in whole.notes)
        assert any(
            "taught by 500" in one for one in transfer([model], [Ground("m", judged, cluster)], ["saf"], **HOW).warnings
        )


def test_the_check_of_a_model_knows_jobs_that_something_held(trace, tmp_path):
    """It reads them as submitted, and a model may have been taught by when they could start."""
    from typer.testing import CliRunner

    from rltune.cli import app

    raw = held(trace)
    write(raw, tmp_path / "t.csv")
    for i, model in enumerate(taught_before_and_now(raw)):
        save_model(model.model, tmp_path / f"{i}.rltune")
        told = CliRunner().invoke(app, ["model", "check", str(tmp_path / f"{i}.rltune"), str(tmp_path / "t.csv")])
        assert "taught by 2,000 of the 2,000 jobs" in " ".join(told.stdout.split())


@pytest.mark.parametrize("command", ["simulate", "compare", "evaluate", "transfer"])
@pytest.mark.parametrize("own", [True, False, "held"])
def test_every_command_that_judges_a_model_says_so(command, own, trace, tmp_path):
    """On its own jobs, and nothing on others; also on its own ones that something held."""
    from typer.testing import CliRunner

    from rltune.cli import app

    judged = trace if own else synthesise("helios", 2000, seed=5, load=2.0, cluster=Cluster.uniform(4, 4))
    write(held(trace) if own == "held" else judged, tmp_path / "t.csv")
    (tmp_path / "c.toml").write_text('name = "four"\n[[group]]\ncount = 4\ngpus = 4\n')
    save_model(learnt_from(trace, (0, 2000)).model, tmp_path / "net.rltune")
    t, c, m = (str(tmp_path / name) for name in ("t.csv", "c.toml", "net.rltune"))
    small = ["-w", "60", "--every", "60", "--contended", "1"]
    words = {
        "simulate": ["-t", t, "-c", c, "-p", m, "--json"],
        "compare": ["-t", t, "-c", c, "-p", f"saf,{m}", "-b", "none", "--json"],
        "evaluate": [t, "-c", c, "-p", f"saf,{m}", "-b", "none", *small, "--json"],
        "transfer": ["-m", m, "-t", t, "-c", c, "--rules", "saf", *small, "--json"],
    }
    result = CliRunner().invoke(app, [command, *words[command]])
    assert result.exit_code == 0, result.output
    said = json.dumps(json.loads(result.stdout))
    assert ("net was taught by" in said) == bool(own)
