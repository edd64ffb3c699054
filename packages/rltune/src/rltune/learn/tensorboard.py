"""A training's numbers for TensorBoard, under the names that CleanRL gave them."""

from __future__ import annotations

from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

NAMES = {
    "reward": "charts/episodic_return",
    "held_out": "charts/held_out_cost_over_base",
    "choices": "charts/choices",
    "rollout_s": "time/rollout",
    "update_s": "time/update",
    "held_out_s": "time/held_out",
    "policy_loss": "losses/policy_loss",
    "value_loss": "losses/value_loss",
    "entropy": "losses/entropy",
    "approx_kl": "losses/approx_kl",
    "clipfrac": "losses/clipfrac",
    "explained_variance": "losses/explained_variance",
    "price": "losses/price_of_p99",
    "p99_excess": "charts/held_out_p99_excess",
}


class Board:
    """Writes one point a name and epoch."""

    def __init__(self, folder: Path, epoch: int) -> None:
        self._writer = SummaryWriter(str(folder), purge_step=epoch + 1)  # what was written after the checkpoint goes

    def add(self, entry: dict[str, float]) -> None:
        """Write the entry of an epoch."""
        epoch = int(entry["epoch"])
        for key, name in NAMES.items():
            if key in entry:
                self._writer.add_scalar(name, entry[key], epoch)
        if entry.get("rollout_s"):
            speed = entry["choices"] / (entry["rollout_s"] + entry["update_s"])
            self._writer.add_scalar("charts/SPS", speed, epoch)
        self._writer.flush()

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()
