"""The text of a testbed's configuration files, and the commands that start its daemons."""

from __future__ import annotations

import socket
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from rltune.lab.testbed.slurm_releases import BORROWED
from rltune.lab.testbed.testbed_spec import SLA, Node, Spec

OPERATOR = "slurm"  # an account that Debian's package makes: no privileges on the machine, Operator in Slurm
ACCOUNT = "research"
REST, REST_USER = "slurmrestd", "daemon"
PEOPLE = ("root", "daemon", "games", "lp", "mail", "news")  # accounts of every Debian, who submit jobs
CLUSTER = "rltune"
MULTIARCH = sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu"  # how Debian names the folder of libraries
_FORGETFUL = (  # of MariaDB: nothing needs to survive the machine, so nothing waits for the disk
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-file-size=16M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
    "--skip-innodb-doublewrite",
    "--sync-frm=0",
)

_REAL_TIME = ("env", "-u", "LD_PRELOAD")  # what waits for others only seconds must not see a fast clock

# A tick a second, whole queue: what a small cluster can afford. Measured gap from end to next start: 0.5 s.
_SCHEDULER = (
    "bf_interval=1,bf_continue,sched_interval=1,sched_min_interval=1000,"
    "default_queue_depth=1000,bf_max_job_test=1000,batch_sched_delay=1"
)


def slurm_conf(spec: Spec) -> str:
    """Write slurm.conf."""
    settings = _settings(spec) | _clock(spec) | (_accounting(spec) if spec.database else _jobcomp(spec))
    settings |= _tokens(spec) if spec.rest else {}
    settings |= dict(spec.settings)
    lines = [*_pairs(settings), *map(_node, spec.nodes), *_partitions(spec)]
    return "\n".join(lines) + "\n"


def gres_conf(spec: Spec) -> str:
    """Write gres.conf."""
    lines = []
    for node in (n for n in spec.nodes if n.gres):
        kind = f"Type={node.gpu_type} " if node.gpu_type else ""
        last = node.group.gpus - 1
        files = f"gpu[0-{last}]" if last else "gpu0"
        lines.append(f"NodeName={node.name} Name=gpu {kind}File={spec.folder}/dev/{files}")
    return "\n".join(lines) + "\n"


def cgroup_conf() -> str:
    """Write cgroup.conf: newer releases of slurmd exit where there are no cgroups, unless they are told so."""
    return "CgroupPlugin=disabled\n"


def slurmdbd_conf(spec: Spec) -> str:
    """Write slurmdbd.conf."""
    return "\n".join(
        _pairs(
            {
                "AuthType": "auth/munge",
                "AuthInfo": _auth(spec),
                "DbdHost": "localhost",
                "DbdAddr": "127.0.0.1",
                "DbdPort": str(spec.ports[1]),
                "SlurmUser": "root",
                "PidFile": f"{spec.folder}/run/slurmdbd.own.pid",
                "LogFile": f"{spec.folder}/log/slurmdbd.log",
                "StorageType": "accounting_storage/mysql",
                "StorageHost": "localhost",
                "StorageUser": "root",
                "StorageLoc": "slurm_acct_db",
                "CommunicationParameters": "NoInAddrAny",
                **(_tokens(spec) if spec.rest else {}),  # newer slurmrestds ask it for names of resources
            }
        )
    )


def commands(spec: Spec) -> dict[str, list[str]]:
    """Return the command of every daemon, in the order in which they start; none goes into the background by itself."""
    folder = spec.folder
    munged = [
        *_REAL_TIME,
        "munged",
        "--foreground",
        "--force",
        "--num-threads=4",
        f"--key-file={folder}/etc/munge.key",
        f"--socket={folder}/run/munge.sock",
        f"--pid-file={folder}/run/munged.own.pid",
        f"--log-file={folder}/log/munged.log",
        f"--seed-file={folder}/run/munged.seed",
    ]
    database = {"mariadbd": _mariadbd(spec), "slurmdbd": _slurmdbd(spec)} if spec.database else {}
    slurmds = {f"slurmd-{n.name}": ["slurmd", "-D", "-N", n.name] for n in spec.nodes}
    rest = {REST: _slurmrestd(spec)} if spec.rest else {}
    return {"munged": munged, **database, "slurmctld": ["slurmctld", "-D"], **slurmds, **rest}


def accounts() -> str:
    """Write what sacctmgr is told of the cluster, an account, its users, the operator and a QOS to opt out by."""
    everybody = f"Account={ACCOUNT} Cluster={CLUSTER}"
    return "\n".join(
        [
            f"add cluster {CLUSTER}",
            f"add qos {SLA} Priority=100",
            f"add account {ACCOUNT} Cluster={CLUSTER} QOS=normal,{SLA}",
            f"add user {','.join(PEOPLE)} {everybody}",
            f"add user {OPERATOR} {everybody} AdminLevel=Operator",
            f"modify user root set DefaultAccount={ACCOUNT}",
            "",
        ]
    )


def _settings(spec: Spec) -> dict[str, str]:
    folder = spec.folder
    return {
        "ClusterName": CLUSTER,
        "SlurmctldHost": f"{socket.gethostname()}(127.0.0.1)",
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "CredType": "cred/munge",
        "AuthInfo": _auth(spec),
        "CommunicationParameters": "NoInAddrAny,NoCtldInAddrAny",  # loopback only
        "SlurmctldPort": str(spec.ports[0]),
        "SlurmctldPidFile": f"{folder}/run/slurmctld.own.pid",
        "SlurmdPidFile": f"{folder}/run/slurmd.%n.own.pid",
        "StateSaveLocation": f"{folder}/state",
        "SlurmdSpoolDir": f"{folder}/spool/%n",
        "SlurmctldLogFile": f"{folder}/log/slurmctld.log",
        "SlurmdLogFile": f"{folder}/log/slurmd.%n.log",
        "MpiDefault": "none",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SwitchType": "switch/none",
        "ReturnToService": "2",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": _SCHEDULER,
        "PriorityType": "priority/multifactor",
        "JobAcctGatherType": "jobacct_gather/none",
        "MaxJobCount": "20000",
        "GresTypes": "gpu",
        "SlurmdParameters": "config_overrides",  # nodes are larger than this machine
    }


def _clock(spec: Spec) -> dict[str, str]:
    """Stretch every timeout: seconds of a fast clock are short."""
    if spec.factor == 1:
        return {}
    return {
        "MessageTimeout": "100",
        "TCPTimeout": "60",
        "SlurmdTimeout": "60000",
        "BatchStartTimeout": "3600",
        "UnkillableStepTimeout": "3600",
        "KillWait": "300",
    }


def _accounting(spec: Spec) -> dict[str, str]:
    gres = ",".join(["gres/gpu", *(f"gres/gpu:{t}" for t in spec.gpu_types)])
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "localhost",
        "AccountingStoragePort": str(spec.ports[1]),
        "AccountingStoragePass": f"{spec.folder}/run/munge.sock",
        "AccountingStorageTRES": gres,
        "AccountingStorageEnforce": "associations,limits,qos",
    }


def _tokens(spec: Spec) -> dict[str, str]:
    """Let slurmctld take JSON web tokens beside munge's."""
    return {"AuthAltTypes": "auth/jwt", "AuthAltParameters": f"jwt_key={spec.folder}/etc/jwt.key"}


def _jobcomp(spec: Spec) -> dict[str, str]:
    return {
        "AccountingStorageType": "accounting_storage/none",
        "JobCompType": "jobcomp/filetxt",
        "JobCompLoc": f"{spec.folder}/log/jobcomp.txt",
    }


def _auth(spec: Spec) -> str:
    long = ",ttl=3600,cred_expire=3600" if spec.factor > 1 else ""
    return f"socket={spec.folder}/run/munge.sock{long}"


def _node(node: Node) -> str:
    cpus = int(node.group.cpus or 32)
    memory = round((node.group.mem_gib or 125) * 1024)
    shape = f"CPUs={cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory={memory}"
    gpus = f" Gres={node.gres}" if node.gres else ""
    feature = f" Feature={node.gpu_type}" if node.gpu_type else ""
    return f"NodeName={node.name} NodeHostname={node.name} NodeAddr=127.0.0.1 Port={node.port} {shape}{gpus}{feature}"


def _partitions(spec: Spec) -> list[str]:
    common = "MaxTime=UNLIMITED DefaultTime=60 State=UP"
    lines = [f"PartitionName={name} Nodes={','.join(nodes)} {common}" for name, nodes in spec.partitions.items()]
    lines[0] += " Default=YES"
    return [*lines, f"PartitionName={SLA} Nodes=ALL PriorityTier=100 {common}"]


def _mariadbd(spec: Spec) -> list[str]:
    folder = spec.folder
    return [
        *_REAL_TIME,
        "mariadbd",
        "--no-defaults",
        "--user=root",
        *database_words(folder),
        f"--socket={folder}/run/mysql.sock",
        f"--pid-file={folder}/run/mariadbd.own.pid",
        "--skip-networking",
        "--innodb-lock-wait-timeout=900",
        *(spec.release.of_mariadbd if spec.release else ()),
    ]


def rest_url(port: int) -> str:
    """Return where slurmrestd listens."""
    return f"http://127.0.0.1:{port}"


def _slurmrestd(spec: Spec) -> list[str]:
    """Start slurmrestd as an account that is neither root's nor Slurm's, which it would refuse."""
    become = ["setpriv", f"--reuid={REST_USER}", f"--regid={REST_USER}", "--clear-groups"]
    plugin = "openapi/slurmctld" if spec.release else "openapi/v0.0.38"
    listen = [f"127.0.0.1:{spec.ports[-1]}", f"unix:{spec.folder}/rest/sock"]
    return [*become, "env", "SLURM_JWT=daemon", REST, "-a", "rest_auth/jwt", "-s", plugin, *listen]


def _slurmdbd(spec: Spec) -> list[str]:
    borrows = spec.release is not None and spec.release.borrowed is not None
    library = ["env", f"LD_LIBRARY_PATH={BORROWED}/usr/lib/{MULTIARCH}"] if borrows else []
    return [*library, "slurmdbd", "-D"]


def database_words(folder: Path) -> tuple[str, ...]:
    """Return where a database lies; one that starts removes what others have left, or still use, in its `tmpdir`."""
    return (f"--datadir={folder}/database", f"--tmpdir={folder}/scratch", *_FORGETFUL)


def _pairs(settings: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in settings.items()]
