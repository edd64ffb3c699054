"""The command, as a user types it."""

import re

import pytest

from tencache import cli
from tencache.plan.transformer_shapes import PRESETS, Setting, make_trace

RUN = ["gpt-46m", "--budget", "35%", "--link", "1GB/s", "--tflops", "0.07", "--tokens", "64", "--no-recompute"]


def run(capsys, *arguments):
    code = cli.main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_plan_says_if_it_fits_and_how_fast(capsys):
    code, out, _ = run(capsys, "plan", *RUN)
    assert code == 0
    assert "of parameters fit in 30.8 MiB" in out
    assert "all-resident" in out
    assert "of it)" in out
    assert all(tier in out for tier in ("device", "host", "file"))


def test_plan_prints_rows_and_draws_the_timeline(capsys, tmp_path):
    page = tmp_path / "new" / "timeline.html"
    code, out, _ = run(capsys, "plan", *RUN, "--table", "3", "--html", str(page))
    assert code == 0
    assert "load <- evict" in out
    text = page.read_text()
    assert text.count("<rect") > 300
    assert "of its parameters on the device" in text
    assert re.search(r"which is 35% of the [\d.]+ MiB of parameters", text)
    assert "http" not in text.replace("http-equiv", "")


def test_plan_says_what_does_not_fit(capsys):
    code, out, err = run(capsys, "plan", "llama-70b", "--budget", "1MiB")
    assert code == cli.DOES_NOT_FIT
    assert out == ""
    assert "raise the budget to" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing", "--budget", "1GiB"], "unknown model 'nothing': choose one of gpt-46m"),
        (["gpt2", "--budget", "much"], "is not an amount of bytes"),
        (["gpt2", "--budget", "1GiB", "--link", "0"], "above zero"),
        (["gpt2", "--budget", "1GiB", "--state-in-file", "2"], "a share is between 0 and 1"),
        (["gpt2", "--budget", "nan"], "is not an amount of bytes"),
        (["gpt2", "--budget", "1GiB", "--tflops", "0"], "--tflops 0.0: a number above zero"),
        (["gpt2", "--budget", "1GiB", "--tflops", "nan"], "--tflops nan: a number above zero"),
        (["gpt2", "--budget", "1GiB", "--tokens", "-5"], "--tokens -5: a number above zero"),
        (["gpt2", "--budget", "1GiB", "--context", "0"], "--context 0: a number above zero"),
        (["gpt2", "--budget", "1GiB", "--table", "-1"], "--table -1"),
    ],
)
def test_mistakes_are_one_sentence(capsys, arguments, message):
    code, _, err = run(capsys, "plan", *arguments)
    assert code == cli.MISUSE
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--tokens", "-5"], ["--links", "nan"], ["--budget", "nan"]])
def test_mistakes_in_bench_are_one_sentence(capsys, arguments):
    code, out, err = run(capsys, "bench", "--small", *arguments)
    assert (code, out) == (cli.MISUSE, "")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"tencache_trace": 1}', b'{"tencache_trace": 1, "units": [{}]}', b"null"],
)
def test_a_file_that_is_no_model_is_named(capsys, tmp_path, content):
    path = tmp_path / "model.json"
    path.write_bytes(content)
    code, _, err = run(capsys, "plan", str(path), "--budget", "1GiB")
    assert code == cli.MISUSE
    assert err.startswith(f"tencache: {path}: ")
    assert len(err.splitlines()) == 1


def test_a_page_is_not_replaced_unless_forced(capsys, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("mine")
    code, _, err = run(capsys, "plan", *RUN, "--html", str(page))
    assert code == cli.MISUSE
    assert "--force" in err
    assert page.read_text() == "mine"
    assert run(capsys, "plan", *RUN, "--html", str(page), "--force")[0] == 0
    assert "<rect" in page.read_text()


def test_an_interrupt_ends_quietly(capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tencache.bench.policy_bench.compare_policies", interrupted)
    assert run(capsys, "bench", "--small") == (cli.INTERRUPTED, "", "")


def test_replay_compares_the_policies_and_is_deterministic(capsys):
    first, second = run(capsys, "replay", *RUN), run(capsys, "replay", *RUN)
    assert first == second
    steps = {line.split()[0]: float(line.split()[1]) for line in first[1].splitlines()[1:]}
    assert steps["ahead"] <= steps["bucket"] <= steps["lru"]
    assert steps["ahead"] <= steps["zero3"] <= steps["lru"]


def test_replay_of_one_policy(capsys):
    _, out, _ = run(capsys, "replay", *RUN, "--policy", "lru")
    assert [line.split()[0] for line in out.splitlines()] == ["policy", "lru"]


@pytest.mark.parametrize(
    ("flag", "slower"),
    [(["--nvme", "0.1GB/s", "--state-in-file", "1"], True), (["--tokens", "512"], True), (["--context", "8"], False)],
)
def test_every_setting_changes_the_step(capsys, flag, slower):
    def step(arguments):
        return float(run(capsys, "replay", *arguments, "--policy", "ahead")[1].splitlines()[1].split()[1])

    base, changed = step([*RUN, "--tflops", "0.01"]), step([*RUN, "--tflops", "0.01", *flag])
    assert (changed > base) if slower else (changed < base)


def test_recomputing_and_a_slow_host_cost_time(capsys):
    def step(*flags):
        return float(run(capsys, "replay", *RUN, "--policy", "ahead", *flags)[1].splitlines()[1].split()[1])

    with_recompute = [flag for flag in RUN if flag != "--no-recompute"]
    recomputed = run(capsys, "replay", *with_recompute, "--policy", "ahead")[1].splitlines()[1].split()[1]
    assert float(recomputed) > step()
    assert step("--host-bandwidth", "1GB/s") > step()


def test_a_saved_trace_can_be_planned(capsys, tmp_path):
    path = tmp_path / "trace.json"
    make_trace(PRESETS["gpt-46m"], Setting(tokens=64)).save(path)
    code, out, _ = run(capsys, "plan", str(path), "--budget", "35%")
    assert code == 0
    assert "fit" in out
