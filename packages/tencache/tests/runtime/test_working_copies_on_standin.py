"""Working copies on a device that does everything late: no stale half, and no buffer used again too early."""

import pytest
from tencache_cases import same_state, same_tensors, train
from test_on_standin import CASES, DEVICE, STEPS, reference, wrapped

from tencache.runtime.tensors import gradients
from tencache.runtime.tensors.masters import Masters


@pytest.fixture(autouse=True)
def _weights_are_large(monkeypatch):
    """As in a model of many megabytes: a weight's gradient is a copy of its own."""
    monkeypatch.setattr(gradients, "SMALL_BYTES", 512)


def _run(machine, name, **options):
    """Return whether a run was right, and no fault was found; and the plan that it followed at the end."""
    losses, expected, expected_optimizer = reference(name)
    model, optimizer, cached = wrapped(CASES[name], **options)
    same = train(CASES[name], model, optimizer, STEPS, DEVICE) == losses
    plan = cached.plan
    cached.unwrap()
    same = same and same_tensors(model.state_dict(), expected.state_dict())
    same = same and same_state(optimizer, expected_optimizer)
    machine.synchronize()
    return same and machine.faults() == [], plan


@pytest.mark.parametrize("budget", ["35%", "60%"])
@pytest.mark.parametrize("name", ["autocast", "autocast_checkpoint"])
def test_halves_go_up_and_down_with_the_bits_of_the_unwrapped_run(standin, name, budget):
    right, plan = _run(standin, name, budget=budget)
    assert right
    sizes = {plan.trace.units[load.unit].name: load.bytes for load in plan.loads}
    halved = {name.removesuffix(" as half") for name in sizes if name.endswith(" as half")}
    assert len(halved) >= 3 * CASES[name].config.layers
    assert not halved & set(sizes)


def test_halves_in_the_file_go_up_from_there(standin, tmp_path):
    right, _ = _run(standin, "autocast", host="360KiB", nvme=tmp_path)
    assert right


def test_a_half_that_is_given_away_before_it_has_left_makes_the_run_wrong(unstarted, monkeypatch):
    lease_half = Masters._lease_half

    def too_early(self, *arguments):
        source, over = lease_half(self, *arguments)

        def cast():
            data = source()
            over()
            return data

        return cast, None

    assert _run(unstarted, "autocast")[0]
    monkeypatch.setattr(Masters, "_lease_half", too_early)
    assert not _run(unstarted, "autocast")[0]


def test_copies_of_halves_are_asynchronous(unstarted):
    model, optimizer, cached = wrapped(CASES["autocast"])
    train(CASES["autocast"], model, optimizer, 3, DEVICE)
    cached.stats()
    before = unstarted.slow_copies()
    train(CASES["autocast"], model, optimizer, 1, DEVICE)
    cached.stats()
    # Those of the tokens and of the losses, which the loop copies itself.
    assert unstarted.slow_copies() - before <= 2 * CASES["autocast"].micro_batches + 1
    cached.unwrap()
