"""What a record in Slurm says, as text for the Comment of a held job: who holds the lock, and what is ours.

A lock names its holder and when it was last heard of. A page names changes: for each the job, the kind, the one or
two values that the job may have by us, and what it had before. Values of node lists are kept as checksums: they only
have to be known again. Job J stands on page J modulo the number of pages, so that no page depends on another.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from rltune.live.see.backend import RECORD_CHARACTERS, ChangeKind
from rltune.live.see.holdings import STEERING, Value
from rltune.live.see.snapshot import Lever

_VERSION = "rltune/1"
_WITH_LEVER = "rltune/2"  # names the lever: an rltune that knows of SiteFactor alone must not read it
_FAMILY = "rltune/"
_KINDS = (ChangeKind.SITE_FACTOR, ChangeKind.PRIORITY, ChangeKind.EXCLUDE_NODES, ChangeKind.REQUIRE_NODES)
_CODES = {kind: code for code, kind in enumerate(_KINDS)}
MOST_PAGES = 512


@dataclass(frozen=True)
class Holder:
    """A controller, known by its token; the rest says where its process is to be looked for. Empty = not told."""

    host: str
    pid: int
    born: int = 0  # in ticks since the machine started
    space: str = ""  # in which numbering of processes, as containers have their own
    machine: str = ""  # by the name that it keeps when its host is renamed
    booted_s: float = 0.0  # when the machine started
    token: str = ""  # drawn at its start

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@dataclass(frozen=True)
class Lock:
    """Who drives which partitions; by the cluster's clock, when it was last heard of, and how long that is good for."""

    holder: Holder
    partitions: tuple[str, ...]  # "*" = all
    since_s: float
    renewed_s: float
    lease_s: float


@dataclass(frozen=True)
class Claim:
    """One thing changed of one job, or about to be."""

    job: int
    kind: ChangeKind
    marks: tuple[int, ...]  # of the values that the job may have by us, the newest last
    before: Value


@dataclass(frozen=True)
class Page:
    """Some of a holder's claims, as of a time: a job that was submitted later is another one under an old number."""

    lock: int  # the job that is the lock
    written_s: float
    claims: tuple[Claim, ...]
    lever: Lever = Lever.SITE_FACTOR  # what the numbers of these claims are


class RecordError(ValueError):
    """A text is no record, or a damaged one."""


def is_record(text: str) -> bool:
    """Return whether a text claims to be a record, of any version."""
    return text.startswith(_FAMILY)


def mark_of(value: Value) -> int:
    """Return what a value is known by: a number by itself, a list of nodes by a checksum of its names."""
    return value if isinstance(value, int) else zlib.crc32(",".join(sorted(value)).encode()) if value else 0


def lock_text(lock: Lock) -> str:
    """Spell a lock."""
    holder = lock.holder
    fields = {
        "host": holder.host,
        "pid": holder.pid,
        "born": holder.born,
        "space": holder.space,
        "machine": holder.machine,
        "booted": holder.booted_s,
        "token": holder.token,
        "partitions": ",".join(lock.partitions),
        "since": int(lock.since_s),
        "renewed": int(lock.renewed_s),
        "lease": int(lock.lease_s),
    }
    text = ";".join((_VERSION, "lock", *(f"{key}={quote(str(value), safe=',*')}" for key, value in fields.items())))
    if len(text) > RECORD_CHARACTERS:
        raise RecordError(f"the names of {len(lock.partitions)} partitions are too long for one record")
    return text


def page_texts(
    claims: Iterable[Claim], lock: int, now_s: float, pages: int, lever: Lever = Lever.SITE_FACTOR
) -> list[str]:
    """Spell claims on so many pages, or on more if they do not fit: twice as many, and so on."""
    listed = sorted(claims, key=lambda claim: (claim.job, _CODES[claim.kind]))
    while pages <= MOST_PAGES:
        texts = [_page_text(listed, lock, now_s, (number, pages), lever) for number in range(pages)]
        if all(len(text) <= RECORD_CHARACTERS for text in texts):
            return texts
        pages *= 2
    raise RecordError(f"{len(listed)} changes do not fit on {MOST_PAGES} records")


def read_lock(text: str) -> Lock | None:
    """Read a lock; None if the text is a page."""
    kind, fields, _ = _fields(text)
    if kind != "lock":
        return None
    try:
        place = (fields["space"], fields.get("machine", ""), float(fields.get("booted", 0.0)))
        holder = Holder(fields["host"], int(fields["pid"]), int(fields["born"]), *place, fields.get("token", ""))
        times = (float(fields[name]) for name in ("since", "renewed", "lease"))
        return Lock(holder, tuple(fields["partitions"].split(",")), *times)
    except (KeyError, ValueError) as error:
        raise RecordError(f"a lock is damaged: {error!r}") from None


def read_page(text: str) -> Page | None:
    """Read a page; None if the text is a lock."""
    kind, fields, packed = _fields(text)
    if kind != "page":
        return None
    try:
        data = base64.b85decode(packed)
        if zlib.crc32(data) != int(fields["crc"], 16):
            raise RecordError("a page is damaged: its checksum is wrong")
        number, pages = int(fields["page"]), int(fields["of"])
        lever = Lever(fields.get("by", Lever.SITE_FACTOR))
        return Page(int(fields["lock"]), float(fields["at"]), tuple(_unpack(data, number, pages)), lever)
    except (KeyError, ValueError, IndexError) as error:
        raise RecordError(f"a page is damaged: {error}") from None


def _fields(text: str) -> tuple[str, Mapping[str, str], str]:
    """Part a text into its kind, its named fields and what follows them."""
    version, _, rest = text.partition(";")
    if version not in {_VERSION, _WITH_LEVER}:
        raise RecordError(f"a record is of version {version[:20]!r}, this rltune reads {_VERSION} and {_WITH_LEVER}")
    head, _, packed = rest.partition(";;")
    kind, *pairs = head.split(";")
    return kind, {key: unquote(value) for key, _, value in (pair.partition("=") for pair in pairs)}, packed


def _page_text(claims: Sequence[Claim], lock: int, now_s: float, place: tuple[int, int], lever: Lever) -> str:
    number, pages = place
    data = _pack([claim for claim in claims if claim.job % pages == number], pages)
    version = f"{_VERSION};page" if lever is Lever.SITE_FACTOR else f"{_WITH_LEVER};page;by={lever}"
    head = f"{version};lock={lock};page={number};of={pages};at={int(now_s)};crc={zlib.crc32(data):x}"
    return f"{head};;{base64.b85encode(data).decode()}"


def _pack(claims: Iterable[Claim], pages: int) -> bytes:
    """Pack claims: jobs as steps from one to the next, with kind and flags; then marks, and what was before if any."""
    data, last = bytearray(), 0
    for claim in claims:
        place = claim.job // pages
        two, before = len(claim.marks) > 1, bool(claim.before)
        data += _varint((place - last) << 4 | _CODES[claim.kind] << 2 | two << 1 | before)
        last = place
        for mark in claim.marks[-2:]:
            data += _varint(_zigzag(mark))
        if isinstance(claim.before, int) and before:
            data += _varint(_zigzag(claim.before))
        elif before:
            names = ",".join(claim.before).encode()  # type: ignore[arg-type]
            data += _varint(len(names)) + names
    return bytes(data)


def _unpack(data: bytes, number: int, pages: int) -> Iterator[Claim]:
    at, place = 0, 0
    while at < len(data):
        head, at = _read_varint(data, at)
        place += head >> 4
        kind = _KINDS[head >> 2 & 3]
        marks = []
        for _ in range(1 + (head >> 1 & 1)):
            mark, at = _read_varint(data, at)
            marks.append(_unzigzag(mark))
        before: Value = () if kind in STEERING else 0
        if head & 1:
            size, at = _read_varint(data, at)
            if kind in STEERING:
                before, at = tuple(data[at : at + size].decode().split(",")), at + size
            else:
                before = _unzigzag(size)
        yield Claim(place * pages + number, kind, tuple(marks), before)


def _varint(number: int) -> bytes:
    """Pack a number of any size, 7 bits a byte, lowest first."""
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


def _zigzag(number: int) -> int:
    return number * 2 if number >= 0 else -number * 2 - 1


def _unzigzag(number: int) -> int:
    return number // 2 if number % 2 == 0 else -(number + 1) // 2
