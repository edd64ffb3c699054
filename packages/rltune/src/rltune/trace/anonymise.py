"""Pseudonyms, so that a site can share its history: who is who is hidden, who is the same is kept.

A pseudonym is a keyed hash (HMAC-SHA-256, 64 bits) of the name. The salt is the key: without it nobody can try out
names, and with the same salt the same name gets the same pseudonym in every file. By default it is random and kept
nowhere. Submit times, run times and sizes stay as they are: whoever knows when somebody submitted what can still find
that job.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING

import numpy as np

from rltune.errors import InputError, unknown
from rltune.hostlist import expand
from rltune.labels import Labels

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from rltune.jobs import Jobs

PREFIXES = {"id": "j", "user": "u", "account": "a", "name": "n", "vc": "vc", "qos": "q", "recorded_nodes": "node"}
_DIGITS = 16


def anonymise(jobs: Jobs, salt: str | None = None, keep: Collection[str] = ()) -> Jobs:
    """Replace users, accounts, names, VCs, QOS, nodes and job ids by pseudonyms; columns in `keep` stay.

    Keep the VCs if the cluster's description, which names them too, is shared beside the trace.
    """
    strange = set(keep) - set(PREFIXES)
    if strange:
        raise unknown("column", min(strange), PREFIXES, "to keep or to hide")
    if salt == "":
        raise InputError("an empty salt hides nothing; give a secret, or none to have one drawn")
    key = (salt or secrets.token_hex(32)).encode()
    hidden = [column for column in PREFIXES if column not in keep]
    columns = {c: _hide_labels(getattr(jobs, c), _hider(key, c)) for c in hidden if c != "id"}
    if "id" not in hidden:
        return jobs.with_columns(**columns)
    ids = np.array([pseudonym(key, "id", job_id) for job_id in jobs.id.tolist()], dtype=np.str_)
    # an array's number is a job id as well
    _, number = np.unique(jobs.array, return_inverse=True)
    array = np.where(jobs.array < 0, -1, number).astype(np.int32)
    return jobs.with_columns(id=ids, array=array, **columns)


def pseudonym(key: bytes, column: str, value: object) -> str:
    """Return the pseudonym of one name in one column."""
    digest = hmac.new(key, f"{column}\0{value}".encode(), hashlib.sha256).hexdigest()
    return f"{PREFIXES[column]}-{digest[:_DIGITS]}"


def _hider(key: bytes, column: str) -> Callable[[str], str]:
    """Return what hides a label of a column; of a list of nodes every node is hidden by itself."""
    if column == "recorded_nodes":
        return lambda nodes: ",".join(sorted(pseudonym(key, column, node) for node in expand(nodes)))
    return lambda name: pseudonym(key, column, name)


def _hide_labels(labels: Labels, hide: Callable[[str], str]) -> Labels:
    """Hide the names in use and forget the others."""
    used, codes = np.unique(labels.codes, return_inverse=True)
    names = tuple(hide(labels.names[code]) for code in used.tolist() if code >= 0)
    return Labels((codes - (used < 0).sum()).astype(np.int32), names)
