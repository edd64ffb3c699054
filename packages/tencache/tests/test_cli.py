"""The command, as a user types it."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tencache import cli
from tencache.plan.transformer_shapes import PRESETS, Setting, find_shape, make_trace
from tencache.progress_bar import progress

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
    ],
)
def test_mistakes_are_one_sentence(capsys, arguments, message):
    code, _, err = run(capsys, "plan", *arguments)
    assert code == cli.MISUSE
    assert message in err
    assert len(err.splitlines()) == 1


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


CONFIGS = {
    "gpt2": {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257},
    "opt": {
        "model_type": "opt",
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "ffn_dim": 16384,
        "vocab_size": 50272,
    },
    "llama": {
        "model_type": "llama",
        "num_hidden_layers": 80,
        "hidden_size": 8192,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "intermediate_size": 28672,
        "vocab_size": 32000,
    },
}


@pytest.mark.parametrize(("kind", "preset"), [("gpt2", "gpt2"), ("opt", "opt-6.7b"), ("llama", "llama-70b")])
def test_configurations_give_the_sizes_of_the_presets(kind, preset, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS[kind]))
    assert find_shape(str(path)).parameters == PRESETS[preset].parameters


@pytest.mark.parametrize(
    ("data", "message"), [({"model_type": "t5"}, "model_type is 't5'"), ({"model_type": "opt"}, "needs 'num_attention")]
)
def test_other_configurations_are_refused(data, message, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=message):
        find_shape(str(path))


@pytest.mark.parametrize(
    ("name", "billions"),
    [("gpt-46m", 0.046), ("gpt2", 0.124), ("opt-6.7b", 6.65), ("opt-13b", 12.8), ("llama-70b", 69)],
)
def test_presets_have_the_sizes_in_their_names(name, billions):
    assert PRESETS[name].parameters / 1e9 == pytest.approx(billions, rel=0.02)


def test_bench_gives_a_row_for_every_policy_and_link(capsys):
    code, out, _ = run(
        capsys, "bench", "--small", "--rounds", "1", "--links", "4GB/s", "--tokens", "16", "--budget", "40%"
    )
    assert code == 0
    assert [line.split("|")[2].strip() for line in out.splitlines()[2:]] == ["ahead", "zero3", "bucket", "lru"]


def test_demo_trains_the_same_bits_and_draws(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", "from tencache.cli import main; main()", "demo", "--out", tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.count("the same bits") == 7
    assert "DIFFERENT" not in result.stdout
    assert (tmp_path / "tencache-timeline.html").is_file()
    assert Path(result.stdout.split()[-1]).is_file()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_silent_when_nobody_watches(monkeypatch):
    monkeypatch.setattr("tencache.progress_bar.PATIENCE_S", 0.0)
    for stream, shown in ((io.StringIO(), False), (Terminal(), True)):
        assert list(progress([1, 2, 3], "work", stream)) == [1, 2, 3]
        assert bool(stream.getvalue()) == shown
    counted = Terminal()
    list(progress(iter([1, 2]), "work", counted))
    assert "work 1" in counted.getvalue()


def test_progress_waits_before_it_shows(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("tencache.progress_bar.time.monotonic", lambda: now[0])
    stream = Terminal()
    items = progress(range(3), "work", stream)
    assert next(items) == 0
    now[0] += 1.9
    assert next(items) == 1
    assert stream.getvalue() == ""
    now[0] += 0.2
    assert next(items) == 2
    assert "2/3" in stream.getvalue()
