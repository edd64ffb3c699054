"""`tencache reproduce`: 10Cache's claims beside what tencache does."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from tencache.plan.claims_page import claims_html, claims_text
from tencache.plan.paper_claims import MeasuredStep, as_json, claim_rows, device_setting, replay_cases
from tencache.plan.rival_policies import POLICIES


def add_reproduce(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    command = commands.add_parser("reproduce", help="the 10Cache paper's claims beside what tencache does")
    command.add_argument("--quick", action="store_true", help="four cases instead of ten, nothing measured: seconds")
    command.add_argument(
        "--device",
        action=argparse.BooleanOptionalAction,
        help="train on the simulated device too (default: unless --quick, with which the model is a small one)",
    )
    command.add_argument("--json", action="store_true", help="print JSON instead of the table")
    command.add_argument("--html", type=Path, help="write a page into this file")
    command.add_argument("--force", action="store_true", help="let --html replace a file that is there")
    command.set_defaults(run=reproduce)


def reproduce(options: argparse.Namespace) -> int:
    """Replay, measure if asked to, and write what was found."""
    if options.html is not None and options.html.exists() and not options.force:
        raise ValueError(f"--html {options.html}: there is such a file; give another name, or --force to replace it")
    replayed = replay_cases(quick=options.quick)
    measures = not options.quick if options.device is None else options.device
    measured = _measure(quick=options.quick) if measures else {}
    rows = claim_rows(replayed, measured)
    found = as_json(rows, replayed, quick=options.quick)
    if options.html is not None:
        options.html.parent.mkdir(parents=True, exist_ok=True)
        options.html.write_text(claims_html(rows, replayed, found), encoding="utf-8")
    text = json.dumps(found, indent=2, allow_nan=False) if options.json else claims_text(rows, found)
    sys.stdout.write(f"{text}\n")
    return 0


def _measure(*, quick: bool) -> Mapping[str, Mapping[str, MeasuredStep]]:
    """Train under every policy on the simulated device, over each link."""
    from tencache.bench.policy_bench import BenchSetting, compare_policies

    device = device_setting(quick=quick)
    bench = BenchSetting(device["budget"], device["tokens"], device["rounds"], small=quick)
    measured: dict[str, dict[str, MeasuredStep]] = {}
    for row in compare_policies(bench, device["links"], POLICIES):
        measured.setdefault(row.link, {})[row.policy] = row
    return measured
