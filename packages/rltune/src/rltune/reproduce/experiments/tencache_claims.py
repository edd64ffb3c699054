"""10Cache's headline claims: `tencache reproduce`, run as a program if it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rltune.reproduce.cells import Plain, Section
from rltune.reproduce.experiment import Experiment, Made
from rltune.reproduce.step import Result, Step, Workbench

if TYPE_CHECKING:
    from rltune.reproduce.run_size import RunSize

PROGRAM = "tencache"
PAGE = "tencache.html"


@dataclass(frozen=True)
class TencacheClaims(Step):
    """Run the other program, and keep what it says."""

    kind: ClassVar[str] = "tencache"

    version: str  # of the program, so that another one is asked again
    quick: bool

    @property
    def told(self) -> str:
        """Say what is run."""
        return "tencache reproduce"

    @property
    def cost_s(self) -> float:
        """Return roughly how long it takes on one quiet core."""
        return 30.0 if self.quick else 240.0

    def make(self, bench: Workbench) -> Result:
        """Run it; its page lies beside the report."""
        program = _program()
        if program is None:
            return {"missing": f"{PROGRAM} is not installed"}
        page = bench.folder.parent / PAGE
        command = [program, "reproduce", "--json", "--html", str(page), "--force"]
        made = subprocess.run(
            [*command, *(["--quick"] if self.quick else [])], capture_output=True, text=True, check=False
        )
        if made.returncode:
            return {"missing": f"{PROGRAM} reproduce failed: {made.stderr.strip().splitlines()[-1:]}"}
        return {"rows": json.loads(made.stdout)["rows"]}


def _program() -> str | None:
    """Find the program beside this Python, or on the path."""
    beside = Path(sys.executable).parent / PROGRAM
    return str(beside) if beside.is_file() else shutil.which(PROGRAM)


def claims(scope: RunSize) -> TencacheClaims:
    """Return the step for the program that is installed."""
    program = _program()
    if program is None:
        return TencacheClaims("none", quick=True)
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return TencacheClaims(told, quick=scope.name == "quick")


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
