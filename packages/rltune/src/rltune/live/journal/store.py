"""The journal's file: SQLite with a write-ahead log, so that a killed controller loses nothing that it had written."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.live.decide.decision import Displacement, OpenTurn
from rltune.live.journal.ended import COLUMNS, Ended, table
from rltune.live.see.backend import Change, ChangeKind
from rltune.live.see.holdings import STEERING, Holdings, Intent, Value
from rltune.live.see.snapshot import Lever
from rltune.live.see.spell import Spell

SCHEMA = 1
JournalError = sqlite3.Error  # what is raised where a journal that was opened cannot be read or written
_BUSY_S = 10.0
# A table that journals of earlier versions lack.
_POLICY_SOURCE = (
    "CREATE TABLE IF NOT EXISTS policy_source (sha256 TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT, WITHOUT ROWID"
)
_TURNS = (  # and so do these
    (
        "CREATE TABLE IF NOT EXISTS turn (id INTEGER PRIMARY KEY, cycle INTEGER NOT NULL, at_s REAL NOT NULL, "
        "claimant INTEGER NOT NULL, plain TEXT NOT NULL) STRICT"
    ),
    (
        "CREATE TABLE IF NOT EXISTS turn_end (turn INTEGER PRIMARY KEY REFERENCES turn (id), at_s REAL NOT NULL, "
        "outcome TEXT NOT NULL, freed_s REAL) STRICT"
    ),
    (
        "CREATE TABLE IF NOT EXISTS spell (job INTEGER NOT NULL, submit_s REAL NOT NULL, start_s REAL NOT NULL, "
        "end_s REAL NOT NULL, restarts INTEGER NOT NULL, displaced INTEGER NOT NULL, PRIMARY KEY (job, start_s)) "
        "STRICT, WITHOUT ROWID"
    ),
)
# For how long a job had run in spells before the one that it ended in.
_SERVED = (
    "coalesce((SELECT sum(s.end_s - s.start_s) FROM spell AS s WHERE s.job = e.job AND s.start_s < e.start_s "
    "AND s.start_s > e.start_s - 5184000), 0.0)"  # 60 days: after a Slurm was set up anew, ids come again
)
_DROP_UNUSED_SOURCES = (
    "DELETE FROM policy_source WHERE sha256 NOT IN (SELECT policy FROM run WHERE id = (SELECT max(id) FROM run) "
    "OR id IN (SELECT run FROM cycle))"
)


@dataclass(frozen=True)
class ControllerRun:
    """One start or reload of a controller."""

    at_s: float
    version: str
    code: str
    policy: str
    settings: str
    id: int = 0


@dataclass(frozen=True)
class CycleRecord:
    """One cycle as it is kept; the blobs are those of pack.py."""

    run: int
    at_s: float
    taken_s: float
    acting: bool
    waiting: int
    running: int
    starts: int
    decide_s: float
    history: int
    snapshot: bytes = field(repr=False)
    holdings: bytes = field(repr=False)
    estimates: bytes = field(repr=False)
    decision: bytes = field(repr=False)
    id: int = 0


@dataclass(frozen=True, slots=True)
class Note:
    """One line of a job's story."""

    job: int
    text: str


class Journal:
    """An open journal. One process writes, any number read."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self.path = path
        self._db = db
        self._file = _file_at(path)

    @classmethod
    def create(cls, path: Path) -> Journal:
        """Open a journal for writing; make it if there is none. Only its owner can read it: it holds users' names."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            db = _connect(path, f"file:{path}")
            if db.execute("PRAGMA user_version").fetchone()[0] == 0:
                db.executescript("PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL;")
                script = (resources.files("rltune.live.journal") / "schema.sql").read_text(encoding="utf-8")
                db.executescript(f"BEGIN; {script} PRAGMA user_version={SCHEMA}; COMMIT;")
            for statement in (_POLICY_SOURCE, *_TURNS):
                db.execute(statement)
            db.execute("PRAGMA synchronous=FULL")
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"{path}: cannot be the journal: {error}") from None
        return cls._checked(path, db)

    @classmethod
    def read(cls, path: Path) -> Journal:
        """Open a journal that exists, to read it."""
        if path.is_dir():
            raise InputError(f"{path}: is a directory; name the journal in it")
        if not path.is_file():
            raise InputError(f"{path}: there is no journal; `rltune control --journal {path}` writes one")
        try:
            db = _connect(path, f"file:{path}?mode=ro")
            return cls._checked(path, db)
        except sqlite3.Error as error:
            raise InputError(f"{path}: cannot be read as a journal: {error}") from None

    @classmethod
    def _checked(cls, path: Path, db: sqlite3.Connection) -> Journal:
        found = db.execute("PRAGMA user_version").fetchone()[0]
        if not found:
            raise InputError(f"{path}: is no journal: nothing was ever written down in it")
        if found != SCHEMA:
            raise InputError(f"{path}: is a journal of version {found}, this rltune reads version {SCHEMA}")
        return cls(path, db)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Write everything inside or nothing of it; refuse if nobody will ever find what is written."""
        if _file_at(self.path) != self._file:
            told = f"{self.path} was deleted, moved or replaced while it was open; start the controller anew"
            raise sqlite3.OperationalError(told)
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # a full disk has ended it already
                self._db.execute("ROLLBACK")
            raise

    def begin_run(self, run: ControllerRun, policy_text: str = "") -> int:
        """Note that a controller started or was reloaded, and what its policy's file holds."""
        values = (run.at_s, run.version, run.code, run.policy, run.settings)
        with self.at_once():
            if policy_text:
                source = "INSERT OR IGNORE INTO policy_source (sha256, text) VALUES (?, ?)"
                self._db.execute(source, (run.policy, policy_text))
            into = "INSERT INTO run (at_s, version, code, policy, settings) VALUES (?, ?, ?, ?, ?)"
            return self._insert(into, values)

    def lever(self) -> Lever | None:
        """Return by which of Slurm's numbers the last controller that acted has moved jobs; None if none has."""
        for (settings,) in self.rows("SELECT settings FROM run ORDER BY id DESC"):
            told = json.loads(settings)
            if told.get("mode") == "act":
                return Lever.NICE if (told.get("slurm") or {}).get("rest") else Lever.SITE_FACTOR
        return None

    def policy_text(self, sha256: str) -> str | None:
        """Return what the file of a policy held, by its hash; None if the journal does not know."""
        try:
            rows = self.rows("SELECT text FROM policy_source WHERE sha256 = ?", sha256)
        except sqlite3.OperationalError:  # a journal that only earlier versions have written to
            return None
        return rows[0][0] if rows else None

    def add_cycle(self, cycle: CycleRecord) -> int:
        """Keep a cycle."""
        names = [name for name in CycleRecord.__dataclass_fields__ if name != "id"]
        places = ", ".join("?" * len(names))
        values = tuple(getattr(cycle, name) for name in names)
        return self._insert(f"INSERT INTO cycle ({', '.join(names)}) VALUES ({places})", values)  # noqa: S608  our names

    def intend(self, cycle: int, intents: Sequence[Intent], at_s: float, *, advised: bool = False) -> list[int]:
        """Keep what is about to be changed, with what was there before."""
        return [
            self._insert(
                "INSERT INTO change (cycle, at_s, job, submit_s, kind, value, before, undo, advised) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    cycle,
                    at_s,
                    intent.change.job,
                    intent.submit_s,
                    intent.change.kind.value,
                    _text(intent.value),
                    _text(intent.before),
                    int(intent.undo),
                    int(advised),
                ),
            )
            for intent in intents
        ]

    def add_outcomes(self, outcomes: Iterable[tuple[int, str]], at_s: float) -> None:
        """Keep what became of changes: their ids, and an error or ""."""
        rows = ((change, at_s, error) for change, error in outcomes)
        self._db.executemany("INSERT OR IGNORE INTO outcome (change, at_s, error) VALUES (?, ?, ?)", rows)

    def add_notes(self, cycle: int, notes: Iterable[Note], at_s: float) -> None:
        """Keep lines of jobs' stories."""
        rows = ((cycle, at_s, note.job, note.text) for note in notes)
        self._db.executemany("INSERT INTO note (cycle, at_s, job, text) VALUES (?, ?, ?, ?)", rows)

    def add_ended(self, ended: Iterable[Ended]) -> None:
        """Keep jobs that have ended, each once."""
        places = ", ".join("?" * len(COLUMNS))
        statement = f"INSERT OR IGNORE INTO ended ({', '.join(COLUMNS)}) VALUES ({places})"  # noqa: S608  our names
        self._db.executemany(statement, (one.row() for one in ended))

    def add_event(self, kind: str, text: str, at_s: float) -> None:
        """Keep something that is no job's: a health trip, a release, a verdict."""
        self._insert("INSERT INTO event (at_s, kind, text) VALUES (?, ?, ?)", (at_s, kind, text))

    def close_jobs(self, jobs: Iterable[tuple[int, float]]) -> None:
        """Keep that these jobs, with their submit times, will never wait again."""
        self._db.executemany("INSERT OR IGNORE INTO closed (job, submit_s) VALUES (?, ?)", jobs)

    def holdings(self) -> Holdings:
        """Return what was changed and not given back, including what may have been changed."""
        rows = self._db.execute(
            "SELECT job, submit_s, kind, value, before, undo, change IS NULL FROM change LEFT JOIN outcome "
            "ON change = change.id WHERE CASE WHEN advised THEN error = '' ELSE coalesce(error, '') = '' END "
            "AND (job, submit_s) NOT IN (SELECT job, submit_s FROM closed) ORDER BY change.id"
        )
        return Holdings.after(_intent(*row) for *row, unknown in rows if not (unknown and row[5]))

    def advised(self) -> dict[int, Intent]:
        """Return by its number the last advice for each job and kind, unless it is known to have been followed."""
        rows = self._db.execute(
            "SELECT max(change.id), job, submit_s, kind, value, before, undo FROM change LEFT JOIN outcome "
            "ON change = change.id WHERE advised GROUP BY job, submit_s, kind HAVING change IS NULL"
        )
        return {number: _intent(*row) for number, *row in rows}

    def add_turn(self, cycle: int, turn: Displacement, at_s: float) -> OpenTurn:
        """Keep that jobs are about to give way; the time is the cluster's."""
        into = "INSERT INTO turn (cycle, at_s, claimant, plain) VALUES (?, ?, ?, ?)"
        number = self._insert(into, (cycle, at_s, turn.claimant, json.dumps(asdict(turn))))
        return OpenTurn(turn, at_s, number)

    def end_turn(self, number: int, outcome: str, freed_s: float, at_s: float) -> None:
        """Keep what a turn came to."""
        into = "INSERT OR IGNORE INTO turn_end (turn, at_s, outcome, freed_s) VALUES (?, ?, ?, ?)"
        self._db.execute(into, (number, at_s, outcome, None if math.isnan(freed_s) else freed_s))

    def open_turns(self) -> list[OpenTurn]:
        """Return the turns of which nothing more is known than that they were begun."""
        rows = self.rows("SELECT id, at_s, plain FROM turn WHERE id NOT IN (SELECT turn FROM turn_end) ORDER BY id")
        return [OpenTurn(Displacement.of_plain(json.loads(plain)), at_s, number) for number, at_s, plain in rows]

    def add_spells(self, spells: Iterable[Spell]) -> None:
        """Keep spells that ended before their jobs did."""
        rows = ((s.job, s.submit_s, s.start_s, s.end_s, s.restarts, int(s.displaced)) for s in spells)
        self._db.executemany("INSERT OR IGNORE INTO spell VALUES (?, ?, ?, ?, ?, ?)", rows)

    @property
    def keeps_spells(self) -> bool:
        """Return whether spells are kept; earlier versions kept none."""
        return bool(self.rows("SELECT 1 FROM sqlite_master WHERE name = 'spell'"))

    def spells(self, since_s: float) -> list[Spell]:
        """Return the spells that ended since then."""
        rows = self.rows("SELECT * FROM spell WHERE end_s >= ? ORDER BY start_s", since_s)
        return [
            Spell(job, submit_s, start_s, end_s, restarts, bool(ours))
            for job, submit_s, start_s, end_s, restarts, ours in rows
        ]

    def last_ended(self) -> int:
        """Return the number of the last ended job that was kept."""
        return int(self._db.execute("SELECT coalesce(max(id), 0) FROM ended").fetchone()[0])

    def ended(self, most: int) -> list[Ended]:
        """Return the newest ended jobs, newest first."""
        names = ", ".join(COLUMNS)
        statement = f"SELECT {names} FROM ended ORDER BY id DESC LIMIT ?"  # noqa: S608  our names
        return [Ended.of_row(row) for row in self.rows(statement, most)]

    def history(self, most: int, until: int | None = None) -> Jobs:
        """Return the newest ended jobs as a table, up to a row."""
        names = ", ".join(COLUMNS)
        served = _SERVED if self.keeps_spells else "0.0"
        rows = self._db.execute(
            f"SELECT {names}, {served} FROM (SELECT * FROM ended WHERE id <= ? ORDER BY id DESC LIMIT ?) AS e "  # noqa: S608
            "ORDER BY id",
            (until if until is not None else 1 << 62, most),
        ).fetchall()
        return table([row[:-1] for row in rows], [row[-1] for row in rows])

    def cycle(self, number: int) -> CycleRecord:
        """Return one cycle; 0 or less counts from the last."""
        if number <= 0:
            number += self.last_cycle()
        row = self._one("SELECT * FROM cycle WHERE id = ?", number)
        if row is None:
            first = self._db.execute("SELECT coalesce(min(id), 0) FROM cycle").fetchone()[0]
            raise InputError(f"{self.path}: holds cycles {first} to {self.last_cycle()}, not {number}")
        return CycleRecord(**row)

    def cycles_until(self, number: int, most: int) -> list[int]:
        """Return the numbers of the last cycles up to one, as many as asked for or as there are."""
        until = self.cycle(number).id
        rows = self._db.execute("SELECT id FROM cycle WHERE id <= ? ORDER BY id DESC LIMIT ?", (until, most))
        return [row[0] for row in rows][::-1]

    def last_cycle(self) -> int:
        """Return the number of the last cycle."""
        return int(self._db.execute("SELECT coalesce(max(id), 0) FROM cycle").fetchone()[0])

    def run(self, number: int) -> ControllerRun:
        """Return one start of a controller."""
        row = self._one("SELECT * FROM run WHERE id = ?", number)
        assert row is not None, "a cycle names its run"
        return ControllerRun(**row)

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Ask the file something."""
        return self._db.execute(statement, values).fetchall()

    def _one(self, statement: str, *values: object) -> dict[str, Any] | None:
        cursor = self._db.execute(statement, values)
        row = cursor.fetchone()
        return None if row is None else dict(zip((column[0] for column in cursor.description), row, strict=True))

    def _insert(self, statement: str, values: tuple[Any, ...]) -> int:
        number = self._db.execute(statement, values).lastrowid
        assert number is not None
        return number

    def size_bytes(self) -> int:
        """Return how much of the file is in use."""
        pages, free, size = (
            self._db.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def prune(self, before_s: float, max_bytes: int) -> int:
        """Delete the oldest cycles and what belongs to them; give how many. Changes of held jobs stay."""
        doomed = self._doomed(before_s, max_bytes)
        if doomed:
            last = self.rows("SELECT id FROM cycle ORDER BY id LIMIT 1 OFFSET ?", doomed - 1)[0][0]
            held = json.dumps(list(self.holdings().by_job))
            with self.at_once():
                self._db.execute("DELETE FROM cycle WHERE id <= ?", (last,))
                self._db.execute("DELETE FROM note WHERE cycle <= ?", (last,))
                old = "cycle <= ? AND job NOT IN (SELECT value FROM json_each(?))"
                ids = f"SELECT id FROM change WHERE {old}"  # noqa: S608  our words
                self._db.execute(f"DELETE FROM outcome WHERE change IN ({ids})", (last, held))  # noqa: S608
                self._db.execute(f"DELETE FROM change WHERE {old}", (last, held))  # noqa: S608
                self._db.execute("DELETE FROM closed WHERE job NOT IN (SELECT job FROM change)")
                self._db.execute("DELETE FROM event WHERE at_s < ?", (before_s,))
                self._db.execute(_DROP_UNUSED_SOURCES)
            self._db.executescript("PRAGMA incremental_vacuum")  # execute() would give back one page
            self.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        return doomed

    def prune_ended(self, most: int) -> None:
        """Keep only the newest ended jobs."""
        self._db.execute("DELETE FROM ended WHERE id <= (SELECT max(id) FROM ended) - ?", (most,))
        self._db.execute("DELETE FROM spell WHERE end_s < (SELECT min(start_s) FROM ended)")

    def _doomed(self, before_s: float, max_bytes: int) -> int:
        """Count the cycles to delete: those too old, and if the file is too large a tenth of the rest."""
        kept, old = self.rows("SELECT count(*), coalesce(sum(at_s < ?), 0) FROM cycle", before_s)[0]
        too_large = self.size_bytes() > max_bytes and kept > old + 1
        return int(old + max(1, (kept - old) // 10)) if too_large else int(old)


def _file_at(path: Path) -> tuple[int, int] | None:
    """Return which file lies at a place; SQLite goes on writing to one that is gone from there, without a word."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _connect(path: Path, uri: str) -> sqlite3.Connection:
    db = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    if path.stat().st_size:
        db.execute("SELECT 1 FROM sqlite_master").fetchone()
    return db


def _intent(job: int, submit_s: float, kind: str, value: str, before: str, undo: int) -> Intent:
    parsed, was = (_value(json.loads(text)) for text in (value, before))
    of = ChangeKind(kind)
    change = Change(job, of, nodes=parsed) if of in STEERING else Change(job, of, value=parsed)
    return Intent(change, submit_s, was, bool(undo))


def _text(value: Value) -> str:
    return str(value) if isinstance(value, int) else json.dumps(value)


def _value(plain: Any) -> Any:
    return tuple(plain) if isinstance(plain, list) else plain
