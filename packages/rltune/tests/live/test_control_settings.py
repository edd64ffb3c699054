import pytest

from rltune.errors import InputError
from rltune.live.control_settings import Channel, Mode
from rltune.live.control_settings_file import load_settings


def test_it_is_dry_by_default():
    """Without a word it only watches, by SiteFactor, with everything bounded."""
    plain = load_settings(None)
    assert plain.mode is Mode.SHADOW
    assert plain.numbers.channel is Channel.SITE_FACTOR
    assert plain.advanced.limits.changes_per_cycle > 0


def test_files_of_before_load(tmp_path):
    """What is advanced now once stood beside the rest; what is below `advanced` wins."""
    file = tmp_path / "control.toml"
    file.write_text(
        "[pipeline]\nview = 7\n[numbers]\nband = 500\nexact = 3\n[health]\nmax_trips = 9\nmax_failures = 8\n"
        "[journal]\nhistory_jobs = 11\n[advanced.health]\nmax_trips = 4\n"
    )
    got = load_settings(file)
    health = got.advanced.health
    assert (health.max_trips, health.max_failures) == (4, 8)
    assert (got.advanced.pipeline.view, got.advanced.numbers.exact, got.numbers.band) == (7, 3, 500)
    assert got.advanced.journal.history_jobs == 11


def test_to_act_one_must_say_for_whom():
    """Nobody is touched who was not named."""
    with pytest.raises(InputError, match="to act, name whose jobs may be touched"):
        load_settings(None, {"mode": "act"})


def test_the_command_line_wins_over_the_file(tmp_path):
    """What is not given on the command line stays as in the file."""
    file = tmp_path / "control.toml"
    file.write_text('mode = "advise"\n[pipeline]\npolicy = "wfp3"\nbackfill = "none"\n')
    got = load_settings(file, {"mode": None, "pipeline": {"policy": "sjf", "backfill": None}})
    assert (got.mode, got.pipeline.policy, got.pipeline.backfill) == (Mode.ADVISE, "sjf", "none")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mode = 'loud'", "mode"),
        ("modes = 'act'", "modes"),
        ("[health]\nmax_tripps = 3", "health"),
        ("[advanced.health]\nmax_tripps = 3", r"no key 'max_tripps' in \[advanced.health\]; did you mean max_trips"),
        ("[health]\nmax_trips = 0", r"max_trips in \[advanced.health\] should be"),
        ("advanced = 3", "advanced"),
        ("[safety]\nguard = 'often'", "guard 'often' is not understood"),
        ("[pipeline]\nestimator = 'oracle'", "nobody knows the true run times"),
        ("[canary]\nshare = 2", r"share in \[canary\] should be 1.0 or less, not 2"),
        ("mode =", "not valid TOML"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(tmp_path, text, problem):
    """With the file and the place."""
    file = tmp_path / "control.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=problem) as caught:
        load_settings(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value).strip()


def test_a_slurmrestd_is_named_whole():
    """A mistake is told with its key, and without a word Slurm's own commands are used."""
    assert load_settings(None).slurm.place() is None
    place = load_settings(None, {"slurm": {"rest": "https://head:6820", "token": "t", "ca": "c"}}).slurm.place()
    assert (place.url, place.token_file, place.ca_file) == ("https://head:6820", "t", "c")
    with pytest.raises(InputError, match=r"slurm.*slurm\.token should name a file"):
        load_settings(None, {"slurm": {"rest": "http://head:6820"}})
