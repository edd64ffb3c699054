"""Settings of Slurm's commands that a user may have in the environment, such as SQUEUE_PARTITION.

They hide jobs without a word: one that is not seen counts as ended, and what was changed of it as given back. So all of
them are kept out, but for those that say how to reach the cluster and on whose account a record is submitted.
"""

from __future__ import annotations

from collections.abc import Mapping

_COMMANDS = ("SQUEUE_", "SINFO_", "SPRIO_", "SCONTROL_", "SBATCH_", "SCANCEL_", "SACCT_", "SLURM_")
_KEPT = frozenset(
    {
        "SLURM_CONF",
        "SLURM_CONF_SERVER",
        "SLURM_CLUSTERS",  # without it a command would reach another cluster than the user's do
        "SLURM_JWT",
        "SLURM_SACK_JWKS",
        "SLURM_SACK_KEY",
        "SBATCH_ACCOUNT",
        "SBATCH_QOS",
        "SBATCH_WCKEY",
    }
)


def without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Slurm's commands do as they are told on their command line."""
    return {name: value for name, value in environment.items() if name in _KEPT or not name.startswith(_COMMANDS)}
