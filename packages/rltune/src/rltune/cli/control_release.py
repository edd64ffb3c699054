"""`rltune control --release`: give everything back. Needs Slurm; no settings, no policy, no journal, no disk."""

import sqlite3
import time
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rltune.cli.console import say
from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.live.give_back import GiveBack, GivenBack
    from rltune.live.rest_place import RestPlace
    from rltune.live.see.holdings import Holdings
    from rltune.live.see.snapshot import Lever

NODE_LISTS_STAY = 3  # only lists of nodes of running jobs are left, which do nothing while they run
LEFT = 4  # Slurm holds something of ours


def release(giving: "GiveBack", journal: Path, lever: "Lever") -> None:
    """Give back what the records in Slurm say is ours, and what a journal knows beyond them if there is one."""
    from rltune.live.see.backend import BackendError

    known, unseen = _known(journal, lever)
    try:
        given = giving(known)
    except BackendError as error:
        raise InputError(f"not all could be given back, {error}; try again when Slurm answers") from None
    say(f"release: {given}")
    _note(journal, given)
    if unseen:
        say(f"release: {unseen}")
        raise typer.Exit(LEFT)
    end_by(given)


def place_of(config: Path | None) -> "RestPlace | None":
    """Read from the settings how Slurm is reached, and nothing else; what cannot be read is done without."""
    from rltune.live.rest_place import RestPlace

    if config is None:
        return None
    try:
        table = tomllib.loads(config.read_text(encoding="utf-8")).get("slurm", {})
        return RestPlace.of(table if isinstance(table, dict) else {})
    except (OSError, ValueError, InputError) as error:
        say(f"release: going on by Slurm's commands, without the settings: {error}")
        return None


def end_by(given: "GivenBack") -> None:
    """End with the exit code that says what is left; 0 only if Slurm holds nothing of ours."""
    if given.left or given.foreign:
        raise typer.Exit(LEFT)
    if given.running:
        raise typer.Exit(NODE_LISTS_STAY)


def _known(journal: Path, lever: "Lever") -> "tuple[Holdings | None, str]":
    """Read what a journal knows, and why it is of no use here; one that is missing or damaged is done without."""
    from rltune.live.journal.store import Journal
    from rltune.live.see.ownership import LeverError

    try:
        if not journal.is_file():
            return None, ""
        store = Journal.read(journal)
        try:
            held, by = store.holdings(), store.lever()
        finally:
            store.close()
    except (InputError, OSError, sqlite3.Error, ValueError) as error:
        say(f"release: going on without the journal: {error}")
        return None, ""
    if len(held) and by is not None and by is not lever:
        return None, str(LeverError("the journal knows of", by))
    return held, ""


def _note(journal: Path, given: "GivenBack") -> None:
    """Tell the journal, if there is one and it takes it: Slurm has been told already."""
    from rltune.live.journal.given_back import note_given_back
    from rltune.live.journal.store import Journal

    with suppress(InputError, OSError, sqlite3.Error):
        if not journal.is_file():
            return
        store = Journal.create(journal)
        try:
            note_given_back(store, given, time.time())
            store.add_event("release", str(given), time.time())
        finally:
            store.close()
