"""What was found out about a site, with the evidence and, where there are any, the lines of TOML that say it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SiteFact:
    """One cause, or one thing that the history tells."""

    cause: str  # in a word or two
    evidence: str  # one sentence
    toml: tuple[str, ...] = ()  # lines to be put at the end of the cluster's file
    convert: str = ""  # an option of `rltune trace convert` that writes the history as it says
    named: tuple[str, ...] = ()  # all of what the evidence may name only the first of
