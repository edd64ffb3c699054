"""The machine of a log in the Standard Workload Format, as its header tells it, as a cluster's TOML."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rltune.errors import InputError
from rltune.trace.swf import told_machine

if TYPE_CHECKING:
    from rltune.trace.read_result import ToldMachine


def is_swf(text: str) -> bool:
    """Return whether a file begins as an SWF log does, with comments by semicolon."""
    return text.lstrip().startswith(";")


def machine_toml(text: str, path: str, name: str) -> str:
    """Write the nodes and processors of a log's header as a cluster; processors stand for GPUs."""
    machine = told_machine(text)
    if machine is None:
        raise InputError(f"{path}: the header tells neither MaxProcs nor MaxNodes; write the cluster by hand")
    about = f"{machine.processors:,} processors on {machine.nodes:,} nodes, as the header of an SWF log says"
    lines = [f"name = {json.dumps(name)}", f"about = {json.dumps(about)}"]
    groups = _groups(machine)
    if len(groups) > 1:
        lines += ["", "# The header does not say how processors are spread over nodes: evenly is a guess."]
    for count, processors in groups:
        lines += ["", "[[group]]", f"count = {count}", f"gpus = {processors}"]
    return "\n".join(lines) + "\n"


def _groups(machine: ToldMachine) -> list[tuple[int, int]]:
    """Return nodes and processors a node, of one or two kinds that together have all processors."""
    nodes = min(machine.nodes, machine.processors)
    each, larger = divmod(machine.processors, nodes)
    return [(count, size) for count, size in ((larger, each + 1), (nodes - larger, each)) if count]
