"""Whether what the settings ask for can be done by the way in which the scheduler is reached."""

from __future__ import annotations

from collections.abc import Collection

from rltune.live.control_settings import Channel, ControlSettings, Steer
from rltune.live.see.backend import ChangeKind

_STEERS = {Steer.EXCLUDE: ChangeKind.EXCLUDE_NODES, Steer.PIN: ChangeKind.REQUIRE_NODES}


def impossible(settings: ControlSettings, cannot: Collection[ChangeKind]) -> str:
    """Return what of the settings cannot be done, and what to write instead; "" if all can."""
    by_hand = "a priority that somebody set by hand is not told"
    asked = (
        (ChangeKind.PRIORITY, settings.numbers.channel is Channel.PRIORITY, 'numbers.channel = "priority"', by_hand),
        (_STEERS.get(settings.steer), settings.steer is not Steer.OFF, f'steer = "{settings.steer}"', "set it to off"),
        (ChangeKind.REQUEUE, settings.preempt.on, "preempt.order", "set it to off"),
        (ChangeKind.ADMIN_COMMENT, settings.tell_users, "tell_users", "set it to false"),
    )
    for kind, wanted, name, what in asked:
        if wanted and kind in cannot:
            return f"{name} cannot be done through this slurmrestd: {what}; Slurm's own commands can"
    return ""
