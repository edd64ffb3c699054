"""10Cache's headline claims: `tencache reproduce`, run as a program if it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltune.reproduce.cells import Plain, Section
from rltune.reproduce.experiment import Experiment, Made
from rltune.reproduce.tencache_program import PAGE, TencacheClaims, installed_version

if TYPE_CHECKING:
    from rltune.reproduce.run_size import RunSize
    from rltune.reproduce.step import Result, Step


def claims(scope: RunSize) -> TencacheClaims:
    """Return the step for the program that is installed; the device is measured only where there is time for it."""
    return TencacheClaims(installed_version(), quick=scope.name != "full")


class Tencache(Experiment):
    """The other paper, on a page of its own."""

    names = ("tencache",)
    title = "10Cache's claims, by tencache"
    where = "the 10Cache paper's abstract"

    def steps(self, scope: RunSize) -> tuple[Step, ...]:
        """Return the call of the program."""
        return (claims(scope),)

    def section(self, made: Made) -> Section:
        """Return its table, and a link to its page."""
        found = made.get(claims(made.scope))
        if found is None or "missing" in found:
            why = found["missing"] if found else "it was not run"
            return Section(self.names[0], self.title, self.where, missing=(f"{why}.",))
        rows = tuple(_row(claim) for claim in found["rows"])
        table = Plain(("claim, times better", "against", "paper", "replayed", "on the simulated device"), rows)
        reached = sum(bool(claim["reached"]) for claim in found["rows"])
        return Section(
            self.names[0],
            self.title,
            self.where,
            tables=(table,),
            concludes=f"{reached} of {len(rows)} claims are reached by the replay.",
            differs=tuple(dict.fromkeys(claim["differs"] for claim in found["rows"])),
            links={"Its own page": PAGE},
        )


def _row(claim: Result) -> tuple[str, ...]:
    replayed = f"{claim['replay_least']:.2f} to {claim['replay_most']:.2f}"
    device = ", ".join(f"{times:.2f} at {link}" for link, times in (claim["device"] or {}).items()) or "-"
    return claim["what"], claim["against"], f"{claim['paper']:g}", replayed, device
