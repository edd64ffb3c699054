"""A trace file as it lies on disk: unpacked, checked to be text, and able to say where in it something is wrong."""

from __future__ import annotations

import codecs
import gzip
import io
import tarfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rltune.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

PARQUET_MAGIC = b"PAR1"
_COMMENT = b";"
_GZIP_MAGIC = b"\x1f\x8b"
_TAR_MAGIC = (257, b"ustar")
_SENTENCE_LENGTH = 400  # a damaged header can be the whole file
_OTHER_ARCHIVES = {b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


DEDUPE = "`rltune trace convert --dedupe` leaves out records that stand in the file already"


class BadLinesError(InputError):
    """Lines of a trace that cannot be read; without them the rest might be."""

    def __init__(self, sentence: str, lines: tuple[int, ...]) -> None:
        super().__init__(sentence)
        self.lines = lines


@dataclass(frozen=True)
class Source:
    """The bytes of one file, unpacked."""

    path: str
    data: bytes
    dedupe: bool = False  # leave out a record that stands in the file already, rather than refuse the file

    @property
    def is_parquet(self) -> bool:
        """Return whether this is a parquet file; everything else is text."""
        return self.data.startswith(PARQUET_MAGIC)

    @cached_property
    def text(self) -> str:
        """Decode the file; `read_source` has made sure that it can be."""
        return self.data.decode("utf-8")

    @cached_property
    def newlines(self) -> NDArray[np.int64]:
        """Return the offset of every line end."""
        return np.flatnonzero(np.frombuffer(self.data, dtype=np.uint8) == ord("\n"))

    def line_at(self, offset: int) -> int:
        """Find the line that holds the byte at offset; the first line is 1."""
        return int(np.searchsorted(self.newlines, offset)) + 1

    def line(self, number: int) -> str:
        """Return the text of one line, without its end."""
        first = 0 if number <= 1 else int(self.newlines[number - 2]) + 1
        last = int(self.newlines[number - 1]) if number <= len(self.newlines) else len(self.data)
        return self.data[first:last].decode("utf-8", errors="replace").rstrip("\r")

    def head(self, lines: int = 40) -> list[str]:
        """Return the first lines that are not blank."""
        found = [line.rstrip("\r") for line in self.data[:65_536].decode("utf-8", errors="ignore").split("\n")]
        return [line for line in found if line.strip()][:lines]

    def error(
        self, problem: str, line: int | None = None, column: str | None = None, lines: Sequence[int] = ()
    ) -> InputError:
        """Make the one sentence that says where and what; of several `lines` with one mistake the first is named."""
        bad = tuple(lines) if line is None else (line, *lines)
        where = self.path
        where += f", line {bad[0]}" if bad else ""
        where += "" if column is None else f", column {column}"
        more = f" (and {len(bad) - 1:,} more {'line' if len(bad) == 2 else 'lines'})" if len(bad) > 1 else ""
        return BadLinesError(f"{where}: {' '.join(problem.split())[:_SENTENCE_LENGTH]}{more}", bad)

    @cached_property
    def first_line(self) -> int:
        """Return the number of the first line that is not blank."""
        body = self.data.lstrip()
        return self.data[: len(self.data) - len(body)].count(b"\n") + 1

    def without(self, lines: Iterable[int]) -> Source:
        """Return the file with these lines blank; all others keep their numbers."""
        left = self.data.split(b"\n")
        for number in lines:
            left[number - 1] = b""
        return replace(self, data=b"\n".join(left))

    def repeats(self, *, of_header: bool) -> list[int]:
        """Return the lines that stand in the file already, letter for letter: the first line's repeats, or all."""
        header = self.line(self.first_line).encode()
        if of_header and self.data.count(header) < 2:
            return []
        rows = self.data.split(b"\n")
        if of_header:
            return [i for i, row in enumerate(rows, start=1) if row.rstrip(b"\r") == header and i > self.first_line]
        seen: set[bytes] = set()
        again = []
        for i, row in enumerate(rows):
            if row in seen:
                again.append(i + 1)
            elif row.strip() and row.count(b'"') % 2 == 0:  # a quoted value may go over several lines
                seen.add(row)
        return again


def read_source(path: str | Path, *, dedupe: bool = False) -> Source:
    """Read a file, unpack gzip and tar, and make sure that the rest is text (or parquet)."""
    path = Path(path)
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a directory; name one of the files in it") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    data = _unpack(path, raw)
    if not data.strip():
        raise InputError(f"{path}: is empty")
    source = Source(str(path), _as_utf8(path, data), dedupe)
    if not source.is_parquet:
        _require_text(source)
    return source


def _as_utf8(path: Path, data: bytes) -> bytes:
    """Take marks of the encoding off; text in UTF-16 has one, as PowerShell writes it."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            data = data.decode("utf-16").encode("utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{path}: begins as text in UTF-16 does, but is none") from None
    data = _readable_comments(data.removeprefix(codecs.BOM_UTF8))
    return data if b"\n" in data or data.startswith(PARQUET_MAGIC) else data.replace(b"\r", b"\n")


def _readable_comments(data: bytes) -> bytes:
    """Put a mark for letters of another alphabet in the comments of an SWF log: names of sites and people."""
    if not data.lstrip().startswith(_COMMENT) or data.isascii():
        return data
    lines = data.split(b"\n")
    told = [row.decode(errors="replace").encode() if row.lstrip().startswith(_COMMENT) else row for row in lines]
    return b"\n".join(told)


def _unpack(path: Path, raw: bytes) -> bytes:
    if not raw.startswith(_GZIP_MAGIC):
        return raw
    try:
        data = gzip.decompress(raw)
    except EOFError:
        raise InputError(f"{path}: the gzip file is cut short; copy it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: the gzip file is damaged ({error}); copy it again") from None
    at, magic = _TAR_MAGIC
    return _untar(path, data) if data[at : at + len(magic)] == magic else data


def _untar(path: Path, data: bytes) -> bytes:
    """Take the one csv out of an archive, as the PAI tables are published."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            tables = [m for m in archive.getmembers() if m.isfile() and m.name.endswith(".csv")]
            if len(tables) != 1:
                raise InputError(f"{path}: the archive holds {len(tables)} csv files, not one; unpack it and name one")
            member = archive.extractfile(tables[0])
            return b"" if member is None else member.read()
    except tarfile.TarError as error:
        raise InputError(f"{path}: the tar archive is damaged ({error})") from None


def _require_text(source: Source) -> None:
    for magic, kind in _OTHER_ARCHIVES.items():
        if source.data.startswith(magic):
            raise InputError(f"{source.path}: is a {kind} archive; unpack it first (only gzip is read directly)")
    nul = source.data.find(b"\0")
    if nul >= 0:
        raise source.error("is not text (it holds a zero byte)", line=source.line_at(nul))
    try:
        source.data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise source.error("is not text in UTF-8", line=source.line_at(error.start)) from None
