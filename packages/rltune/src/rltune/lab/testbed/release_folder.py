"""A release of Slurm in a folder of its own: a small Debian, made once by debootstrap and kept.

The packages come from where this machine's own come from. A folder under its final name is whole: it is made under
another name, and what is left of an attempt that was broken off is removed by the next.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rltune.errors import InputError
from rltune.lab.testbed.slurm_releases import BORROWED, SlurmRelease

COMMAND = "rltune slurm testbed install"  # that makes one
_KEPT = Path("rltune/slurm")
_TARGETS = ("--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian", "Component: main")
_LOG_LINES = 3  # of a failed command that are shown
# Only the borrowed suite is asked: the release's own may have been signed too long ago for apt to take it again.
_BORROW = """
set -e
list=/etc/apt/sources.list.d/borrowed.list
echo "deb $1 $2 main" >$list
cd /tmp
for what in update "download $3/$2"; do
  apt-get -qq -o Dir::Etc::sourcelist=$list -o Dir::Etc::sourceparts=- $what
done
dpkg -x "$3"_*.deb "$4"
rm -f "$3"_*.deb $list
"""


def kept_folder(release: SlurmRelease) -> Path:
    """Return where a release is kept: below $XDG_CACHE_HOME, which is ~/.cache unless it is set."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / _KEPT / release.name


def is_made(release: SlurmRelease) -> bool:
    """Return whether it is there."""
    return kept_folder(release).is_dir()


def cannot_be_made() -> str:
    """Return in one sentence why no release can be made here; "" if one can."""
    if os.geteuid() != 0:
        return "another release of Slurm needs root: it is a small Debian that is entered by chroot"
    if shutil.which("debootstrap") is None:
        return "another release of Slurm needs Debian's package debootstrap: apt-get install debootstrap"
    return ""


def make(release: SlurmRelease) -> Path:
    """Make a release if it is not there, and return its folder; takes some minutes and 1 GB."""
    folder = kept_folder(release)
    if reason := cannot_be_made():
        raise InputError(reason)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder.with_name(f"{release.name}.lock")):
        if not folder.is_dir():
            making = folder.with_name(f"{release.name}.making")
            if making.exists():
                shutil.rmtree(making)
            _build(release, making)
            making.rename(folder)
    return folder


def _build(release: SlurmRelease, folder: Path) -> None:
    source = _source()
    include = f"--include={','.join(release.packages)}"
    # within a mount namespace, since debootstrap mounts /proc in the folder and may leave it there
    _run(("debootstrap", "--variant=minbase", include, release.suite, str(folder), source), folder)
    if release.borrowed:
        suite, package = release.borrowed
        _run(("chroot", str(folder), "sh", "-c", _BORROW, "sh", source, suite, package, BORROWED), folder)
    for package_file in (folder / "var/cache/apt/archives").glob("*.deb"):
        package_file.unlink()
    _require_release(release, folder)


def _require_release(release: SlurmRelease, folder: Path) -> None:
    """Refuse what a suite has moved on to: a folder's name is a promise."""
    said = subprocess.run(
        ["chroot", str(folder), "slurmctld", "-V"], capture_output=True, text=True, check=False
    ).stdout.strip()
    if not said.rpartition(" ")[2].startswith(f"{release.name}."):
        raise InputError(f"Debian's {release.suite} has {said or 'no slurmctld that runs'}, not Slurm {release.name}")


def _source() -> str:
    """Find where this machine's own Debian packages come from."""
    try:
        done = subprocess.run(
            ["apt-get", "indextargets", *_TARGETS],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except OSError:
        raise InputError("another release of Slurm needs Debian: there is no apt-get here") from None
    found = done.stdout.split()
    if not found:
        raise InputError("apt's sources name no place of Debian's own packages; another release comes from there")
    return found[0]


def _run(command: Sequence[str], folder: Path) -> None:
    log = folder.with_name(f"{folder.name}.log")
    environment = {"PATH": os.environ["PATH"], "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"} | _proxies()
    words = ["unshare", "--mount", "--propagation", "private", *command]
    with log.open("w", encoding="utf-8") as kept:
        done = subprocess.run(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=kept, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode:
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
        raise InputError(f"{command[0]} failed, {log} tells more: {'; '.join(last)}")


def _proxies() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Let one process at a time make a release."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
