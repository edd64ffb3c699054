"""A real systemd in a container, with this machine's own programs and a unit to start: no second system is installed.

The machine's files are seen through an overlay, so that nothing that happens in there is kept. Needs root and Debian's
packages systemd and systemd-container.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 120.0


def missing() -> str:
    """Return what stands in the way; "" if nothing does."""
    if os.geteuid() != 0:
        return "a container needs root"
    absent = [name for name in ("systemd-nspawn", "nsenter") if not shutil.which(name)]
    return f"{' and '.join(absent)} is not here: apt-get install systemd systemd-container" if absent else ""


@dataclass(frozen=True)
class Booted:
    """A systemd that runs; `root` is what it sees as its files."""

    root: Path
    leader: int  # its process, by this machine's numbering

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command in there, and return what it prints."""
        words = ("nsenter", f"--target={self.leader}", "--all", *command)
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def shown(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.run("systemctl", "show", "--value", f"--property={name}", unit)

    def said(self, unit: str) -> str:
        """Return the log of a unit."""
        return self.run("journalctl", "--no-pager", "--output=cat", f"--unit={unit}", check=False)

    def kill_main(self, unit: str, sign: str) -> None:
        """Send the main process of a unit a signal."""
        self.run("systemctl", "kill", "--kill-who=main", f"--signal={sign}", unit)

    def install(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file in there, before or after it runs."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)


@contextmanager
def booted(binds: Sequence[str]) -> Iterator[Booted]:
    """Boot a systemd that sees this machine's files, and these folders (`FROM:TO`) for writing; end it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="rltune-systemd-"))
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)
    root = folder / "root"
    for name in ("upper", "work", "root"):
        (folder / name).mkdir()
    layers = f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work"
    try:
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, str(root)], check=True)
        words = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot", f"--directory={root}"]
        words += [f"--machine=rltune-{os.getpid()}", "--link-journal=no", *(f"--bind={bind}" for bind in binds)]
        with (folder / "boot.log").open("wb") as log:
            nspawn = subprocess.Popen(
                [*words, "systemd.unit=basic.target"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            yield Booted(root, _leader(nspawn, folder / "boot.log"))
        finally:
            nspawn.send_signal(signal.SIGTERM)
            try:
                nspawn.wait(20)
            except subprocess.TimeoutExpired:
                nspawn.kill()
                nspawn.wait()
    finally:
        for mounted in (root, folder):
            subprocess.run(["umount", "--lazy", str(mounted)], check=False, stderr=subprocess.DEVNULL)
        folder.rmdir()


def _leader(nspawn: "subprocess.Popen[bytes]", log: Path) -> int:
    """Wait until systemd is up, and return its process."""
    deadline = time.monotonic() + PATIENCE_S
    children = Path(f"/proc/{nspawn.pid}/task/{nspawn.pid}/children")
    while time.monotonic() < deadline and nspawn.poll() is None:
        for pid in map(int, children.read_text().split()):
            asked = ("nsenter", f"--target={pid}", "--all", "systemctl", "is-active", "basic.target")
            if subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == "active":
                return pid
        time.sleep(0.2)
    raise AssertionError(log.read_text(errors="replace")[-2000:])
