"""A step: run `tencache reproduce` as a program, and keep what it says."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import ClassVar

from rltune.reproduce.step import Result, Step, Workbench

PROGRAM = "tencache"
PAGE = "tencache.html"


@dataclass(frozen=True)
class TencacheClaims(Step):
    """Run the other program, and keep what it says."""

    kind: ClassVar[str] = "tencache"

    version: str  # of the program's source
    quick: bool

    @property
    def told(self) -> str:
        """Return what is run."""
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


def installed_version() -> str:
    """Return a hash of the program's source, so that another one is asked again; nothing if there is none."""
    found = util.find_spec(PROGRAM)  # looks for it without importing it
    if _program() is None or found is None or found.origin is None:
        return ""
    digest = hashlib.sha256()
    for file in sorted(Path(found.origin).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
