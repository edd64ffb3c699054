"""The policy of a controller is read when it starts: what happens to its file later is told, and waits for a reload."""

import numpy as np
import pytest
from learn.looking import a_model
from live_cases import NOW, MemoryCluster, job, running, settings, snapshot

from rltune.errors import InputError
from rltune.live.controller import Controller
from rltune.live.journal.store import Journal
from rltune.live.pinned_pipeline import pin_pipeline
from rltune.live.replay_cycle import replay
from rltune.model.model_file import save_model

QUEUE = (running(100, "n0", 4), running(101, "n1", 4), *(job(i, 1 + i % 4, 10 * i) for i in range(1, 8)))
SMALLEST = "def score(queue):\n    return queue.gpus\n"
LARGEST = "def score(queue):\n    return -queue.gpus\n"


class StillClock:
    """A clock that stands still."""

    woken = 0

    def now_s(self):
        return NOW

    def elapsed_s(self):
        return 0.0

    def wait(self, seconds):
        pass

    def wake(self):
        self.woken += 1


@pytest.fixture
def drive(tmp_path):
    """Make a controller that looks at a cluster where nothing moves."""

    def made(policy):
        wanted = settings(mode="shadow", pipeline={"policy": str(policy)})
        journal = Journal.create(tmp_path / "j.db")
        return Controller(MemoryCluster(snapshot(QUEUE)), journal, wanted, StillClock())

    return made


def order(controller):
    """Make a cycle; give its number and whom it has first."""
    number = controller.cycle().cycle
    return number, [w.job for w in replay(controller.journal, number).recorded.waiting]


def events(controller, kind):
    return [text for (text,) in controller.journal.rows("SELECT text FROM event WHERE kind = ? ORDER BY id", kind)]


@pytest.fixture(params=["model", "function"])
def policy(request, tmp_path):
    """Give a policy's name, its file, and two ways to write it that order the queue otherwise."""
    if request.param == "function":
        file = tmp_path / "mine.py"
        return f"{file}:score", file, lambda: file.write_text(SMALLEST), lambda: file.write_text(LARGEST)
    file = tmp_path / "mine.rltune"
    return str(file), file, lambda: save_model(_by_gpus(1.0), file), lambda: save_model(_by_gpus(-1.0), file)


def _by_gpus(sign):
    """Make a model that scores by GPUs alone: one input, two layers of one neuron, weights and biases in turn."""
    return a_model("gpus", (1, 1), weights=np.array([sign, 50.0, 1.0, 0.0, 1.0, 0.0]))


def test_another_file_under_the_same_name_is_told_once_and_waits_for_a_reload(drive, policy):
    """The order stays; a reload is an event with the new hash and a new run; every cycle is replayed by what it had."""
    name, file, first, then = policy
    first()
    c = drive(name)
    before, wanted = order(c)
    pinned = c.pinned.sha256
    then()
    (second, same), (third, still) = order(c), order(c)
    assert wanted == same == still
    assert events(c, "policy") == [
        f"{file} was replaced on disk; still deciding by sha256 {pinned[:12]}; reload with SIGHUP"
    ]
    c.reload()
    assert c.clock.woken
    after, other = order(c)
    assert other != wanted
    new = pin_pipeline(c.settings).sha256
    assert new != pinned
    assert events(c, "reload") == [f"policy {name} was read again: now deciding by sha256 {new[:12]}"]
    assert [policy for (policy,) in c.journal.rows("SELECT policy FROM run ORDER BY id")] == [pinned, new]
    file.unlink()
    assert all(replay(c.journal, number).same for number in (before, second, third, after))


def test_a_file_that_vanishes_ends_nothing(drive, policy):
    """It is told once; a reload is refused, and the old one decides on; once it is back, that is told, too."""
    name, file, first, _ = policy
    first()
    c = drive(name)
    _, wanted = order(c)
    file.unlink()
    assert [order(c)[1], order(c)[1]] == [wanted, wanted]
    still = f"still deciding by sha256 {c.pinned.sha256[:12]}"
    assert events(c, "policy") == [f"{file} cannot be read any more; {still}"]
    c.reload()
    assert order(c)[1] == wanted
    (refused,) = events(c, "reload")
    assert refused.startswith("refused: ")
    assert refused.endswith(still)
    first()
    order(c)
    assert events(c, "policy")[-1] == f"{file} is again what is decided by"


def test_a_file_that_is_only_touched_is_no_news(drive, policy):
    """What counts is what it holds."""
    name, _, first, _ = policy
    first()
    c = drive(name)
    order(c)
    first()
    order(c)
    assert events(c, "policy") == []


def test_a_journal_without_the_text_needs_the_file_and_names_its_hash(drive, policy):
    """As earlier versions wrote it: replayed while the file is the same, refused with the hash when it is not."""
    name, file, first, then = policy
    first()
    c = drive(name)
    number, _ = order(c)
    c.journal.rows("DROP TABLE policy_source")
    assert replay(c.journal, number).same
    then()
    with pytest.raises(InputError, match=f"the one of then has sha256 {c.pinned.sha256}, and it is another one now"):
        replay(c.journal, number)
    file.unlink()
    with pytest.raises(InputError, match=f"the one of then has sha256 {c.pinned.sha256}; "):
        replay(c.journal, number)


def test_a_rule_has_no_file(drive):
    """Nothing is looked at, and nothing kept."""
    c = drive("saf")
    order(c)
    c.reload()
    order(c)
    assert c.pinned.sha256 == c.pinned.text == ""
    assert events(c, "policy") == []
    assert c.journal.rows("SELECT * FROM policy_source") == []


def test_the_journal_drops_texts_that_no_cycle_needs(drive, tmp_path):
    """With the cycles that were decided by them; that of the last run stays."""
    file = tmp_path / "mine.py"
    file.write_text(SMALLEST)
    c = drive(f"{file}:score")
    order(c)
    file.write_text(LARGEST)
    c.reload()
    order(c)
    assert len(c.journal.rows("SELECT * FROM policy_source")) == 2
    c.journal.prune(NOW + 1.0, 1 << 40)
    assert c.journal.rows("SELECT sha256 FROM policy_source") == [(c.pinned.sha256,)]
