"""Faults on a real Slurm, one after the other, with a controller that acts: does what must be so hold after each?

    python benchmarks/rltune/faults.py                       every fault once, in the order of the table
    python benchmarks/rltune/faults.py --minutes 60          a random one after the other, for an hour
    python benchmarks/rltune/faults.py --release 26.05       on another release of Slurm
    python benchmarks/rltune/faults.py --only "two controllers"

After each it is checked that every job ran to its end exactly once, that every extra spell has a named cause, that
nothing of the controller's is left, and that what the controller said is what Slurm holds. Needs root and Slurm.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rltune.lab.faults.fault import Fault
from rltune.lab.faults.fault_run import FaultOutcome, run_fault
from rltune.lab.faults.fault_table import FAULTS
from rltune.lab.testbed import Testbed


def chosen(arguments: argparse.Namespace) -> Iterator[Fault]:
    """Return the faults in the order in which they strike; by the clock there is no end of them."""
    part, of = map(int, arguments.part.split("/"))
    words = arguments.only.split("|")
    known = [f for f in FAULTS if (not f.heavy or arguments.heavy) and any(word in f.name for word in words)]
    only = known[part - 1 :: of]
    if not arguments.minutes:
        yield from only
        return
    dice = random.Random(arguments.seed)
    end_s = time.monotonic() + 60 * arguments.minutes
    while time.monotonic() < end_s:
        yield dice.choice(only)


def show(outcome: FaultOutcome) -> None:
    """Print one line, and what was wrong below it."""
    print(
        f"{time.strftime('%H:%M:%S')}  {outcome.fault:38s} {outcome.seconds:5.0f} s {outcome.jobs:5d} jobs", flush=True
    )
    for violation in outcome.violations:
        print(f"          WRONG: {violation}", flush=True)


def main() -> None:
    """Strike, check, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=0.0, help="faults at random for so long; 0 = each once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--release", default="", help="of Slurm; the machine's own if not told")
    parser.add_argument("--only", default="", help="faults with these words in their names; A|B for either")
    parser.add_argument("--part", default="1/1", help="such as 2/3: every third of them, from the second on")
    parser.add_argument("--heavy", action="store_true", help="with 10,000 jobs, too, which takes minutes")
    parser.add_argument("--out", type=Path, help="also write outcomes here, as JSON, with what the controllers said")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rltune-"))
    folder.chmod(0o755)
    outcomes: list[FaultOutcome] = []
    settings = {"FirstJobId": "67000000", "PriorityWeightQOS": "8000"}
    with Testbed.up(folder, release=arguments.release, database=True, settings=settings) as bed:
        for number, fault in enumerate(chosen(arguments)):
            outcomes.append(run_fault(bed, fault, arguments.seed + number))
            show(outcomes[-1])
            if arguments.out:
                arguments.out.write_text(json.dumps([asdict(one) for one in outcomes], indent=1), encoding="utf-8")
    struck, wrong = Counter(o.fault for o in outcomes), Counter(o.fault for o in outcomes if o.violations)
    print("\n| fault | struck | wrong |\n| --- | --- | --- |")
    for name, count in struck.items():
        print(f"| {name} | {count} | {wrong[name]} |")
    jobs, seconds = sum(o.jobs for o in outcomes), sum(o.seconds for o in outcomes)
    print(
        f"\n{len(outcomes)} faults, {jobs} jobs, {seconds / 60:.0f} minutes, wrong after {sum(wrong.values())} of them"
    )


if __name__ == "__main__":
    main()
