"""Run a command under a unit's sandbox where no systemd runs: `under_the_unit.py UNIT USER STATE -- COMMAND`.

Kept of the unit: an account without rights (USER), NoNewPrivileges, no capabilities, ProtectSystem, ProtectHome,
ProtectProc, ProcSubset, StateDirectory and CacheDirectory (both STATE here), UMask, SystemCallFilter and
SystemCallErrorNumber; the environment is the caller's. systemd itself expands the groups of system calls. Needs root,
and nothing but the standard library: the machine's own Python runs it, since a service sees nobody's home.
"""

import ctypes
import errno
import os
import pwd
import subprocess
import sys
from pathlib import Path

NEW_MOUNTS = 0x00020000
NO_NEW_PRIVILEGES, DROP_CAPABILITY = 38, 24
KILL_PROCESS, ALLOW = 0x80000000, 0x7FFF0000


def values(unit: str, name: str) -> list[str]:
    """Return the values of a setting of a unit, in order."""
    return [line.partition("=")[2].strip() for line in unit.splitlines() if line.startswith(f"{name}=")]


def expanded(names: str) -> set[str]:
    """Return the system calls of a list of names and groups, as systemd defines the groups."""
    calls = set()
    for name in names.split():
        if not name.startswith("@"):
            calls.add(name)
            continue
        shown = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True)
        words = {line.strip() for line in shown.stdout.splitlines()[1:] if line.startswith("    ")}
        calls |= expanded(" ".join(word for word in words if word and not word.startswith("#")))
    return calls


def allowed(unit: str) -> set[str]:
    """Return the system calls that the unit's filter lets through: lists with `~` take away from those before."""
    calls = expanded("@default")
    for names in values(unit, "SystemCallFilter"):
        if names.startswith("~"):
            calls -= expanded(names[1:])
        else:
            calls |= expanded(names)
    return calls


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def see_little(state: Path) -> None:
    """Leave nothing to write but the state folder, and nothing to see of homes, other processes and the kernel."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), "unshare")
    mount("--make-rprivate", "/")
    mount("--bind", str(state), str(state))
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/var/tmp")
    for home in ("/home", "/root"):
        mount("-t", "tmpfs", "-o", "mode=000", "tmpfs", home)
    mount("-o", "remount,bind,ro", "/")
    mount("-t", "proc", "-o", "hidepid=invisible,subset=pid", "proc", "/proc")


def give_up_rights(user: str) -> None:
    """Become an account without any capability, for good."""
    account = pwd.getpwnam(user)
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(64):
        libc.prctl(DROP_CAPABILITY, capability, 0, 0, 0)
    os.setgroups([])
    os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
    os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def filter_calls(calls: set[str], *, fail_with: str) -> None:
    """Let the kernel refuse all other system calls: by an error, or by the end of the process."""
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    seccomp.seccomp_rule_add.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint]
    seccomp.seccomp_load.argtypes = [ctypes.c_void_p]
    otherwise = 0x00050000 | getattr(errno, fail_with) if fail_with else KILL_PROCESS
    rules = seccomp.seccomp_init(otherwise)
    for call in sorted(calls):
        number = seccomp.seccomp_syscall_resolve_name(call.encode())
        if number >= 0:  # negative: a call of other machines
            seccomp.seccomp_rule_add(rules, ALLOW, number, 0)
    if seccomp.seccomp_load(rules):
        raise OSError("the filter of system calls was refused")


def main() -> None:
    """Put the sandbox on, and become the command."""
    file, user, state, dashes, *command = sys.argv[1:]
    assert dashes == "--"
    unit = Path(file).read_text()
    calls = allowed(unit)
    see_little(Path(state))
    os.umask(int((values(unit, "UMask") or ["0022"])[-1], 8))
    os.chdir(state)
    give_up_rights(user)
    filter_calls(calls, fail_with=(values(unit, "SystemCallErrorNumber") or [""])[-1])
    os.execvp(command[0], command)


main()
