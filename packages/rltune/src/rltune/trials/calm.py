"""Where hardly anybody waits: what is best there need not be so when a queue forms, and no interval knows of one."""

from __future__ import annotations

from rltune.text import seconds

CALM_S = 60.0  # a mean wait below this tells nothing of busy times


def calm_warning(mean_wait_s: float, where: str) -> list[str]:
    """Return the sentence that belongs to a result of calm times; nothing if jobs wait."""
    if not mean_wait_s < CALM_S:
        return []
    told = f"Hardly anybody waits {where} ({seconds(mean_wait_s)} on average)"
    return [f"{told}, so it cannot tell what would help in busier times: try again with a history that has some."]
