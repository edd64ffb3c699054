"""Over 600 calls that cannot be right: each must be one sentence, a non-zero exit code, and nothing lost.

    python benchmarks/rltune/bad_calls.py            # all; prints those that fail, and how many there were
    python benchmarks/rltune/bad_calls.py --show     # every sentence, to be read
    python benchmarks/rltune/bad_calls.py tune serve # those of some commands

tests/cli/test_bad_calls.py runs those of `cheap()`, which compile and simulate nothing.
"""

from __future__ import annotations

import gzip
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from rltune.cli import app

LATE = ("/dev/full", "/proc")  # what cannot be written is seen when the results are there, and these are shown
TIME_S = 60
CODES = {2, 3}  # a mistake in what was given; a history that does not go with the cluster


@dataclass(frozen=True)
class Call:
    """Words of a command, in which {names} of files stand."""

    words: tuple[str, ...]
    cheap: bool = True


GOOD = "submit_s,duration_s,gpus,user,vc\n0,100,2,ann,a\n1,50,1,bob,a\n2,10,1,cy,a\n"
HEAD = "submit_s,duration_s,gpus\n"
SACCT = "JobID|JobName|State|Submit|Start|End|ReqTRES\n"
GROUP = "[[group]]\ncount = 1\ngpus = 2\n"
TRACES = {
    "empty": b"",
    "blank": b"\n\n  \n",
    "header": HEAD.encode(),
    "binary": bytes(range(256)),
    "latin1": f"{HEAD}0,1,1\n".replace("gpus", "gpus,name").encode() + b"0,1,1,M\xfcller\n",
    "nul": b"submit_s,duration_s,gpus\n0,1,\x001\n",
    "cut_gzip": gzip.compress(GOOD.encode())[:30],
    "no_parquet": b"PAR1" + bytes(40) + b"PAR1",
    "zip": b"PK\x03\x04" + bytes(40),
    "json": b'{"a": 1}',
    "list": b"[]",
    "nan": f"{HEAD}nan,1,1\n".encode(),
    "negative": f"{HEAD}-5,1,1\n".encode(),
    "negative_run": f"{HEAD}5,-1,1\n".encode(),
    "infinite": f"{HEAD}inf,1,1\n".encode(),
    "huge": f"{HEAD}1e300,1,1\n".encode(),
    "milliseconds": f"{HEAD}1700000000000,1,1\n".encode(),
    "half_gpu": f"{HEAD}0,1,0.5\n".encode(),
    "many_gpus": f"{HEAD}0,1,99999999999\n".encode(),
    "text": f"{HEAD}0,long,1\n".encode(),
    "wide": f"{HEAD}0,1,1,1\n".encode(),
    "quoted": f'{HEAD}0,"1,1\n'.encode(),
    "column_twice": b"submit_s,submit_s,duration_s,gpus\n0,0,1,1\n",
    "column_missing": b"submit_s,gpus,user\n0,1,a\n",
    "id_twice": b"id,submit_s,duration_s,gpus\n1,0,1,1\n1,1,1,1\n",
    "cycle": b"submit_s,duration_s,gpus,after\n0,1,1,1\n1,1,1,0\n",
    "swf": b"; Version: 2\n1 0 0 10 1 x\n",
    "sacct_time": f"{SACCT}1|a|COMPLETED|soon|2|3|cpu=1\n".encode(),
    "sacct_none": f"{SACCT}1|a|PENDING|1|Unknown|Unknown|cpu=1,gres/gpu=1\n".encode(),
    "sacct_wide": b"JobID|State|Submit|Start|End|ReqTRES\n1|COMPLETED|1|2|3|cpu=1|x\n",
    "sacct_twice": (SACCT + 2 * "1|a|COMPLETED|1|2|3|cpu=1,gres/gpu=1\n").encode(),
}
CLUSTERS = {
    "c_empty": "",
    "c_broken": "[[group]\n",
    "c_no_gpus": "[[group]]\ncount = 1\n",
    "c_single": "[group]\ncount = 1\ngpus = 1\n",
    "c_huge": "[[group]]\ncount = 10000000000\ngpus = 8\n",
    "c_vast": "[[group]]\ncount = 1000000\ngpus = 1000000\n",
    "c_true": "[[group]]\ncount = true\ngpus = 8\n",
    "c_text": '[[group]]\ncount = "8"\ngpus = 8\n',
    "c_negative": "[[group]]\ncount = 1\ngpus = -1\n",
    "c_nan": "[[group]]\ncount = 1\ngpus = 1\nmem_gib = nan\n",
    "c_infinite": "[[group]]\ncount = 1\ngpus = 1\ncpus = inf\n",
    "c_share": f"{GROUP}[[preemption]]\nshare = true\n",
    "c_restart": f"{GROUP}[[preemption]]\nrestart = true\n",
    "c_calibrated": f"calibrated = 1\n{GROUP}",
    "c_clock": f"clock_s = nan\n{GROUP}",
    "c_key": f"{GROUP}gpu_typ = 'a'\n",
    "c_scope": f"{GROUP}[[limit]]\nscope = 'team'\n",
    "c_speed": f"{GROUP}[speed]\nA100 = 2\n",
    "c_outage": f"{GROUP}[[outage]]\nnode = 7\ndown_s = 0\n",
    "c_window": f"{GROUP}[[maintenance]]\nstart_s = 5\nend_s = 1\n",
    "c_slow": f"{GROUP}[slowdown]\nextra_node = 0.1\n",
}
ON = ("{good}", "-c", "{two}")
READERS = (
    ("trace", "info", "{0}"),
    ("trace", "check", "{0}"),
    ("trace", "convert", "{0}", "-o", "{folder}/new.csv"),
    ("simulate", "{0}", "-c", "{two}"),
)
OTHER_READERS = (
    ("trace", "anonymise", "{0}", "-o", "{folder}/new.csv"),
    ("compare", "{0}", "-c", "{two}"),
    ("evaluate", "{0}", "-c", "{two}"),
    ("evolve", "{0}", "-c", "{two}", "-o", "{folder}/new.rltune"),
    ("train", "{0}", "-c", "{two}", "-o", "{folder}/new.rltune"),
    ("transfer", "{0}", "-c", "{two}", "-p", "saf", "--rules", "f1"),
    ("model", "check", "learned:philly", "{0}"),
)
HARMLESS = {"cycle": ("info", "convert", "anonymise", "learned:philly", "check")}  # by file: verbs that may read it
OPTIONS = """
simulate {good}
simulate -c {two}
simulate {good} -c nowhere
simulate {good} -c {folder}
simulate {good} -c {good}
simulate {good} -c {two} -p best
simulate {good} -c {two} -p fcfs,saf
simulate {good} -c {two} -p none.py:score
simulate {good} -c {two} -p {raises}:score
simulate {good} -c {two} -p {raises}:absent
simulate {good} -c {two} -p {exits}:score
simulate {good} -c {two} -p {broken}:score
simulate {good} -c {two} -p none.rltune
simulate {good} -c {two} -p {fake}
simulate {good} -c {two} -b eager
simulate {good} -c {two} --placement tetris
simulate {good} -c {two} --placement milp:0
simulate {good} -c {two} --placement milp:x
simulate {good} -c {two} --estimator guess
simulate {good} -c {two} --estimator noisy:-1
simulate {good} -c {two} --estimator noisy:nan
simulate {good} -c {two} --estimator user
simulate {good} -c {two} --guard often
simulate {good} -c {two} --guard -5h
simulate {good} -c {two} --search -1
simulate {good} -c {two} --search many
simulate {good} -c {two} --seed -1
simulate {good} -c {two} --seed x
simulate {good} -c {two} --view -1
simulate {good} -c {two} --cycle -1
simulate {good} -c {two} --cycle nan
simulate {good} -c {two} --cycle inf
simulate {good} -c {two} --head user
simulate {good} -c {two} --commit -b easy
simulate {good} -c {two} --commit --placement milp
simulate {good} -c {two} --pipeline saf+
simulate {good} -c {two} --pipeline '+ easy'
simulate {good} -c {two} --pipeline 'saf + easy' -b none
simulate {good} -c {two} --format xml
simulate {good} -c {two} --format swf
simulate {good} -c {two} --format {raises}:absent
simulate {good} -c {two} --json {folder}
simulate {good} -c {two} --json {good}
simulate {good} -c {two} --json {folder}/a --report {folder}/a
simulate {good} -c {two} --report {good} -f
simulate {good} -c {two} --report {good}/x.html
simulate {good} -c {two} --report /dev/full
simulate {good} -c {two} --report /proc/x.html
simulate {good} -c {two} --jobs-file {folder}/x.xlsx
simulate {good} -c {two} --jobs-file {folder}
simulate {good} -c {two} --preemptible 2
simulate {good} -c {two} --checkpoint soon
simulate {other_vc} -c {vc}
simulate {big} -c {two}
simulate synth:borg -c {two}
simulate synth:philly,jobs=0 -c {two}
simulate synth:philly,jobs=-5 -c {two}
simulate synth:philly,jobs=1e3 -c {two}
simulate synth:philly,load=0 -c {two}
simulate synth:philly,load=nan -c {two}
simulate synth:philly,load=inf -c {two}
simulate synth:philly,days=-1 -c {two}
simulate synth:philly,days=1,load=1 -c {two}
simulate synth:philly,speed=1 -c {two}
simulate synth: -c {two}
compare {good} -c {two} -p ,
compare {good} -c {two} -p fcfs,fcfs
compare {good} -c {two} -b none,none
compare {good} -c {two} -b
compare {good} -c {two} -w many
compare {good} -c {two} -w 0x5
compare {good} -c {two} -w 5x0
compare {good} -c {two} -w 2x100
compare {good} -c {two} -w -1x2
compare {good} -c {two} -w 1x3:contended=9999
compare {good} -c {two} -w 1x3:contended=nan
compare {good} -c {two} -w steady:2
compare {good} -c {two} -w steady:-1
compare {good} -c {two} -w 99999999999x99999999999
compare {good} -c {two} --metric joy
compare {good} -c {two} --metric {raises}:absent
compare {good} -c {two} --baseline srf
compare {good} -c {two} --workers 0
compare {good} -c {two} --workers 99999
compare {good} -c {two} --warm
compare {good} -c {two},{two}
compare {good} -c {two},nowhere
compare {good} -c ,
evaluate {good} -c {two}
evaluate {good} -c {two} --holdout 2
evaluate {good} -c {two} --holdout 0
evaluate {good} -c {two} --holdout nan
evaluate {good} -c {two} --metric joy
evaluate {good} -c {two} --estimator history,history
evaluate {good} -c {two} --estimator history,user --report {folder}/r.html
evaluate {good} -c {two} -w 20x64
evaluate {good} -c {two} -w 2:every=1:contended=0
transfer {good} -c {two},{two},{two} -p saf
transfer {good} -c {two} -p none.rltune
transfer {good} -c {two}
train {good} -c {two} -o {folder}/new.rltune
train {good} -c {two} -o {folder}
train {good} -c {two} -o {good}
train {good} -c {two} -o {folder}/new.rltune --epochs 0
train {good} -c {two} -o {folder}/new.rltune --epochs x
train {good} -c {two} -o {folder}/new.rltune --objective joy
train {good} -c {two} -o {folder}/new.rltune --p99 never
train {good} -c {two} -o {folder}/new.rltune --features none
train {good} -c {two} -o {folder}/new.rltune --init none.rltune
train {good} -c {two} -o {folder}/new.rltune --init {good}
train {good} -c {two} -o {folder}/new.rltune --resume
train {good} -c {two} -o {folder}/new.rltune --settings none.toml
train {good} -c {two} -o {folder}/new.rltune --settings {good}
train {good} -c {two} -o {folder}/new.rltune --set x
train {good} -c {two} -o {folder}/new.rltune --set hidden=0x0
train {good} -c {two} -o {folder}/new.rltune --set ppo.clip=nan
train {good} -c {two} -o {folder}/new.rltune --set epochs=true
train {good} -c {two} -o {folder}/new.rltune --base learned
train {four} -c {two} -o {folder}/new.rltune -w 2x2:contended=0
evolve {good} -c {two} -o {folder}/new.rltune
evolve {good} {good} -c {two},{two},{two} -o {folder}/new.rltune
evolve {good} -c {two} -o {folder}/new.rltune --generations -1
evolve {good} -c {two} -o {folder}/new.rltune --objective joy
evolve {good} -c {two} -o {folder}/new.rltune --set evolve.tried=1
evolve {good} -c {two} -o {folder}/new.rltune --features sampled
evolve {four} -c {two} -o {folder}/new.rltune -w 2x2:contended=0
model show none.rltune
model show {good}
model show {empty}
model show {fake}
model show learned:mars
model check {fake}
model check learned:philly none.csv
trace convert {good} -o {folder}/x.csv --array-limit 5
trace convert {good} -o {folder}/x.csv --array-limit 5=x
trace convert {good} -o {folder}/x.csv --array-limit 5=0
trace convert {good} -o {folder}/x.csv --array-limit 5=2
trace convert {good} -o {folder}/x.csv --array-limit 5=2,5=3
trace convert {good} -o {folder}/x.txt
trace convert {good} -o {folder}/d.csv
trace convert {good} -o {good}
trace convert {good} -o {good} -f
trace convert {good} -o {good}/x.csv
trace convert {good} -o /dev/null/x.csv
trace synth borg -o {folder}/new.csv
trace synth philly -o {folder}/new.csv --jobs 0
trace synth philly -o {folder}/new.csv --jobs 999999999999
trace synth philly -o {folder}/new.csv --load 1
trace synth philly -o {folder}/new.csv --load nan -c {two}
trace synth philly -o {folder}/new.csv --load 1 --days 1 -c {two}
trace synth philly -o {folder}/new.csv --days 0
trace synth philly -o {folder}/new.csv --days inf
trace anonymise {good} -o {folder}/new.csv --keep submit_s
trace check {other_vc} -c {vc}
trace check {good} -c nowhere
trace import-slurm --from yesterday -o {folder}/new.csv
trace import-slurm --from 2026-02-01 --to 2026-01-01 -o {folder}/new.csv
trace import-slurm --from 2026-01-01 --slice 0d -o {folder}/new.csv
cluster show nowhere
cluster show {good}
cluster check none.toml
cluster check {folder}
cluster check {latin1}
cluster import none.txt -o {folder}/new.toml
cluster import {good} -o {folder}/new.toml
cluster import {empty} -o {folder}/new.toml
cluster import {binary} -o {folder}/new.toml
cluster import {nodes} -o {nodes} -f
journal show -j none.db
journal show -j {good}
journal story 5 -j none.db
journal story x -j none.db
journal replay -j none.db
journal export {folder}/new.csv -j none.db
journal export {folder}/new.csv -j {good}
journal export {good} -j {good} -f
control --config none.toml --once --journal {folder}/new.db
control --config {good} --once --journal {folder}/new.db
control --mode loud --once --journal {folder}/new.db
control --policy best --once --journal {folder}/new.db
slurm testbed status --folder {folder}/none
slurm testbed down --folder {good}
slurm testbed up --folder {good}
slurm testbed up --folder {folder}/bed --clock x0
slurm testbed up --folder {folder}/bed --clock fast
slurm testbed up --folder {folder}/bed --nodes nowhere
reproduce --out {good}/x --quick --only table9
reproduce --out {folder}/again --only nothing
reproduce --out {folder}/again --budget -1
reproduce --out {folder}/again --quick --full
reproduce --out {folder}/again --traces none
fly
compare --fly
trace
trace fly
"""
NEWER = """
explain
explain 1
explain 1 --testbed {folder}/none
explain 1 --config none.toml
explain 1 --config {good}
explain 1 --config {folder}
explain 1 --journal none.db
explain 1 --journal {good}
explain 1 --journal {folder}
explain 1 --journal {empty}
explain 1 --journal {binary}
explain 1 --journal none.db --journal-cycle -1
explain 1 --journal none.db --journal-cycle x
explain 1 --journal {good} --trace {good} -c {two} --at 1
explain 1 --trace {good} -c {two}
explain 1 --trace {good} --at 50%
explain 1 --trace none.csv -c {two} --at 50%
explain 1 --trace {folder} -c {two} --at 50%
explain 1 --trace {empty} -c {two} --at 50%
explain 1 --trace {binary} -c {two} --at 50%
explain 1 --trace {good} -c nowhere --at 50%
explain 1 --trace {good} -c {two} --at soon
explain 1 --trace {good} -c {two} --at nan
explain 1 --trace {good} -c {two} --at inf
explain 1 --trace {good} -c {two} --at -5%
explain 1 --trace {good} -c {two} --at 101%
explain 1 --trace {good} -c {two} --at x%
explain 1 --trace {good} -c {two} --at 1e99
explain 99 --trace {good} -c {two} --at 2
explain '' --trace {good} -c {two} --at 2
explain 0 --trace {good} -c {two} --at 2 --pipeline best
explain 0 --trace {good} -c {two} --at 2 --pipeline 'saf +'
explain 0 --trace {good} -c {two} --at 2 --estimator guess
explain 0 --trace {good} -c {two} --at 2 --json {good}
explain 0 --trace {good} -c {two} --at 2 --json {folder}
explain 0 --trace {good} -c {two} --at 2 --json {good} -f
explain 0 --trace {good} -c {two} --at 2 --json {good}/x
explain 0 --trace {big} -c {two} --at 2
explain --fly
forecast 1 --submit gpus=1
forecast --submit gpus=1 --trace {good} -c {two}
forecast --trace {good} -c {two} --at 2 --submit ''
forecast --trace {good} -c {two} --at 2 --submit gpus
forecast --trace {good} -c {two} --at 2 --submit gpus=x
forecast --trace {good} -c {two} --at 2 --submit gpus=-1
forecast --trace {good} -c {two} --at 2 --submit gpus=0
forecast --trace {good} -c {two} --at 2 --submit gpus=nan
forecast --trace {good} -c {two} --at 2 --submit gpus=99,time=1h
forecast --trace {good} -c {two} --at 2 --submit gpus=1,time=never
forecast --trace {good} -c {two} --at 2 --submit gpus=1,time=-1h
forecast --trace {good} -c {two} --at 2 --submit gpus=1,time=1h,colour=red
forecast --trace {good} -c {two} --at 2 --submit gpus=1,gpus=2,time=1h
forecast --trace {good} -c {two} --at 2 --submit time=1h
forecast --trace {good} -c {two} --at 2 --submit gpus=1,type=Z900,time=1h
forecast --trace {good} -c {vc} --at 2 --submit gpus=1,partition=moon,time=1h
forecast 99 --trace {good} -c {two} --at 2
forecast --trace {good} -c {two} --at 2 --rolls 1
forecast --trace {good} -c {two} --at 2 --rolls 0
forecast --trace {good} -c {two} --at 2 --rolls x
forecast --trace {good} -c {two} --at 2 --calibrate -1
forecast --trace {good} -c {two} --at 2 --calibrate x
forecast --trace {good} -c {two} --at 2 --workers 0
forecast --trace {good} -c {two} --at 2 --seed -1
forecast --journal none.db
forecast --journal none.db --calibrate 3
forecast --journal {good}
forecast --at 50%
forecast --pipeline 'saf + easy'
forecast --trace {good} -c {two} --at 2 --json {folder}
forecast --trace {good} -c {two} --at 2 --json {two} -f
whatif
whatif load=+20%
whatif load=+20% --target 'p90 wait < 1h' --with 8:A100 --trace {good} -c {two}
whatif --target 'p90 wait < 1h' --trace {good} -c {two}
whatif --target 'p90 wait < 1h' --with 8:A100
whatif --target soon --with 8:A100 --trace {good} -c {two}
whatif --target 'p90 wait < -1h' --with 8:A100 --trace {good} -c {two}
whatif --target 'p101 wait < 1h' --with 8:A100 --trace {good} -c {two}
whatif --target 'p90 joy < 1h' --with 8:A100 --trace {good} -c {two}
whatif --target 'p90 wait < 1h for gpus>=64' --with 8:A100 --trace {good} -c {two}
whatif --target 'p90 wait < 1h' --with 8 --with x --trace {good} -c {two}
whatif --target 'p90 wait < 1h' --with 0:A100 --trace {good} -c {two}
whatif --target 'p90 wait < 1h' --with -8:A100 --trace {good} -c {two}
whatif add=4x8:A100 --with 8:A100 --trace {good} -c {two}
whatif more=1 --trace {good} -c {two}
whatif add= --trace {good} -c {two}
whatif add=x --trace {good} -c {two}
whatif add=-1x8 --trace {good} -c {two}
whatif add=0x8 --trace {good} -c {two}
whatif add=99999999x8 --trace {good} -c {two}
whatif remove=5 --trace {good} -c {two}
whatif remove=1 --trace {good} -c {two}
whatif remove=2:V100 --trace {good} -c {two}
whatif retire=V100 --trace {good} -c {two}
whatif drain=rack9 --trace {good} -c {two}
whatif limit=user --trace {good} -c {two}
whatif limit=team:*:gpus=1 --trace {good} -c {two}
whatif limit=user:*:gpus=-1 --trace {good} -c {two}
whatif limit=user:*:gpus=x --trace {good} -c {two}
whatif cap=moon:4 --trace {good} -c {two}
whatif cap=a:x --trace {good} -c {two}
whatif join=a --trace {good} -c {two}
whatif 'join=a|moon' --trace {good} -c {vc}
whatif turns=spin --trace {good} -c {two}
whatif load=0 --trace {good} -c {two}
whatif load=-100% --trace {good} -c {two}
whatif load=nan --trace {good} -c {two}
whatif load=inf --trace {good} -c {two}
whatif load=x --trace {good} -c {two}
whatif pipeline=best --trace {good} -c {two}
whatif pipeline= --trace {good} -c {two}
whatif load=+2% load=+3% --trace {good} -c {two}
whatif load=+20% --trace none.csv -c {two}
whatif load=+20% --trace {good}
whatif load=+20% --trace {good} -c {two} --json {good}
whatif load=+20% --trace {good} -c {two} --json {good} -f
whatif load=+20% --journal none.db
whatif load=+20% --journal {binary}
whatif load=+20% --trace {good} -c {two} --at 2 --rolls 1
whatif load=+20% --trace {big} -c {two}
serve --journal none.db --port 99999
serve --port -1
serve --port x
serve --speed 0 --demo
serve --speed nan --demo
serve --address nowhere
serve --address 0.0.0.0
serve --tokens none.toml
serve --tokens {good}
serve --tokens {folder}
serve --tokens {binary}
serve --tokens {empty}
serve --wait-buckets soon
serve --wait-buckets 2h,1h
serve --wait-buckets -1m
serve --wait-buckets ,
serve --wait-buckets nan
serve --new-token ann
serve --new-token '' --tokens {folder}/t.toml --role king
serve --new-token ann --tokens {folder}/t.toml --role king
serve --new-token ann --tokens {good}
serve --new-token ann --tokens {folder}
serve --new-token ann --tokens {good}/t.toml
serve --new-token ' ' --tokens {folder}/t.toml
serve --journal none.db
serve --journal {good}
serve --journal {folder}
journal show -j {folder}
journal show -j {empty}
journal show -j {binary}
journal show -j none.db --cycle -1
journal show -j none.db --cycle x
journal story 0 -j {good}
journal replay -5 -j none.db
journal replay 1 --last 0 -j none.db
journal replay -j {binary}
journal export {folder} -j none.db
journal export {folder}/x.txt -j none.db
calibrate {good}
calibrate {good} -c nowhere
calibrate none.csv -c {two}
calibrate {empty} -c {two}
calibrate synth:philly -c philly-slice
calibrate {good} -c {two}
calibrate {started} -c {two} --pipeline best
calibrate {started} -c {two} --pipeline 'saf +'
calibrate {started} -c {two} --estimator guess
calibrate {started} -c {two} --write {two}
calibrate {started} -c {two} --write {two} -f
calibrate {started} -c {two} --write {started} -f
calibrate {started} -c {two} --write {folder}
calibrate {started} -c {two} --write {folder}/x --report {folder}/x
calibrate {started} -c {two} --write {folder}/x --json {folder}/x
calibrate {started} -c {two} --write {good}/x
calibrate {started} -c {two} --seed -1
calibrate {started} -c {two},philly
turns {good}
turns {good} -c {two} --shares 0%
turns {good} -c {two} --shares 120%
turns {good} -c {two} --shares nan
turns {good} -c {two} --shares -5%
turns {good} -c {two} --shares ,
turns {good} -c {two} --shares 30%,30%
turns {good} -c {two} --restarts soon
turns {good} -c {two} --restarts -5s
turns {good} -c {two} --restarts inf
turns {good} -c {two} --restarts ,
turns {good} -c {two} --checkpoint soon
turns {good} -c {two} --checkpoint -1m
turns {good} -c {two} --checkpoint 0
turns {good} -c {two} --windows 0
turns {good} -c {two} --guard often
turns {good} -c {two} --report {two}
turns none.csv -c {two}
tune {good}
tune none.csv -c {two}
tune {good} -c {two} --minutes 0
tune {good} -c {two} --minutes -1
tune {good} -c {two} --minutes nan
tune {good} -c {two} --minutes inf
tune {good} -c {two} --minutes x
tune {good} -c {two} --metric joy
tune {good} -c {two} --metric utilisation
tune {good} -c {two} --now best
tune {good} -c {two} --now 'saf +'
tune {good} -c {two} --now none.toml
tune {good} -c {two} --now-estimator guess
tune {good} -c {two} --models none.rltune
tune {good} -c {two} --models {good}
tune {good} -c {two} --models ,
tune {good} -c {two} --models learned:mars
tune {good} -c {two} --learn magic
tune {good} -c {two} --learn ,
tune {good} -c {two} --learn evolve,evolve
tune {good} -c {two} --runs {folder}
tune {good} -c {two} --runs {good}
tune {good} -c {two} --runs {two}
tune {good} -c {two} --runs {binary}
tune {good} -c {two} --runs {folder}/x --out {folder}/x
tune {good} -c {two} --runs {folder}/x --report {folder}/x
tune {good} -c {two} --out {folder}
tune {good} -c {two} --out {two} -f
tune {good} -c {two} --out {folder}/x --json {folder}/x
tune {good} -c {two} --out {folder}/x.toml --learn evolve --report {folder}/x.rltune
tune {good} -c {two} --workers 0
tune {good} -c {two} --ray nowhere:1
simulate {good} -c {two} --estimator file:
simulate {good} -c {two} --estimator file:none.csv
simulate {good} -c {two} --estimator file:{folder}
simulate {good} -c {two} --estimator file:{binary}
simulate {good} -c {two} --estimator file:{empty}
simulate {good} -c {two} --estimator file:{good}
simulate {good} -c {two} --estimator file:{guesses_text}
simulate {good} -c {two} --estimator file:{guesses_nan}
simulate {good} -c {two} --estimator file:{guesses_negative}
simulate {good} -c {two} --estimator file:{guesses_twice}
simulate {good} -c {two} --estimator file:{guesses_other}
simulate {good} -c {two} --estimator column:
simulate {good} -c {two} --estimator column:none
simulate {good} -c {two} --estimator column:user
simulate synth:philly,jobs=5 -c {two} --estimator column:x
simulate {good} -c {two} --estimator blend:
simulate {good} -c {two} --estimator blend:user
simulate {good} -c {two} --estimator blend:user+guess
simulate {good} -c {two} --estimator last2:x
simulate {good} -c {two} --preempt spin
simulate {good} -c {two} --preempt las:late=never
simulate {good} -c {two} --preempt las:run=-5
simulate {good} -c {two} --preempt las:fly=1
simulate {good} -c {two} --preempt las -b conservative --preemptible 100%
simulate {good} -c {two} --remaining maybe
simulate {good} -c {two} --pipeline {folder}/none.toml
simulate {good} -c {two} --pipeline {two}
simulate {good} -c {two} --pipeline easy++ -p saf
trace predictability none.csv
trace predictability {empty}
trace predictability {binary}
trace predictability {good} --report {good}
trace predictability {good} --report {folder}
trace predictability {header}
evolve {good} -c {two} -o {folder}/new.rltune --resume
evolve {good} -c {two} -o {folder}/new.rltune --preempt spin
evolve {good} -c {two} -o {folder}/new.rltune --set preempt=spin
evolve {good} -c {two} -o {folder}/new.rltune --features none
slurm testbed install
slurm testbed install 1.0
slurm testbed install 24.11 24.11x
slurm experiment --out {good}
slurm experiment --out {folder}/e --clock fast
slurm experiment --out {folder}/e --clock x0
slurm experiment --out {folder}/e --jobs 0
slurm experiment --out {folder}/e --seeds 0
slurm experiment --out {folder}/e --load 0
slurm experiment --out {folder}/e --load nan
slurm experiment --out {folder}/e --cycle 0
slurm experiment --out {folder}/e --cycle nan
slurm experiment --out {folder}/e --estimator guess
slurm experiment --out {folder}/e --channel loud
slurm experiment --out {folder}/e --steer left
slurm experiment --out {folder}/e --nodes nowhere
control --release --once --journal {folder}/new.db --testbed {folder}/none
control --once --journal {folder} --testbed {folder}/none
control --once --journal {good} --testbed {folder}/none
control --once --journal {folder}/new.db --advice {folder}/new.db --testbed {folder}/none
control --once --journal {folder}/new.db --guard often
control --once --journal {folder}/new.db --channel loud
control --once --journal {folder}/new.db --steer left
control --once --journal {folder}/new.db --cycle -1
control --once --journal {folder}/new.db --cycle nan
control --once --journal {folder}/new.db --estimator guess
control --once --journal {folder}/new.db --metrics-port 99999
control --once --journal {folder}/new.db --metrics-port -1
control --owner ann --once --journal {folder}/new.db
"""
NEEDS_A_RUN = ("{big}", "{other_vc}", "{raises}:score", "{exits}:score", "/dev/full", "evaluate {good} -c {two}\n")


def calls() -> Iterator[Call]:
    """Return all calls."""
    for file in TRACES:
        verbs = (*READERS, *OTHER_READERS[len(file) % len(OTHER_READERS) :][:2])
        for words in verbs:
            if words[1] not in HARMLESS.get(file, ()):
                yield Call(tuple(word.replace("{0}", f"{{{file}}}") for word in words))
    for file in CLUSTERS:
        yield Call(("cluster", "check", f"{{{file}}}"))
        yield Call(("simulate", "{good}", "-c", f"{{{file}}}"))
    for line in filter(None, (OPTIONS + NEWER).splitlines()):
        yield Call(tuple(shlex.split(line)), cheap=not any(need in f"{line}\n" for need in NEEDS_A_RUN))


def make_files(folder: Path) -> dict[str, str]:
    """Write the files that the calls name, and return their paths by name."""
    made: dict[str, bytes] = {**TRACES, **{name: text.encode() for name, text in CLUSTERS.items()}}
    made |= {
        "good": GOOD.encode(),
        "two": GROUP.encode(),
        "four": f"{HEAD}0,9,1\n1,9,1\n2,9,1\n3,9,1\n".encode(),
        "big": f"{HEAD}0,1,64\n".encode(),
        "other_vc": b"submit_s,duration_s,gpus,vc\n0,1,1,gpux\n",
        "vc": f"{GROUP}vc = 'gpu'\n".encode(),
        "raises": b"def score(queue):\n    raise RuntimeError('no')\n",
        "exits": b"import sys\ndef score(queue):\n    sys.exit(0)\n",
        "broken": b"def score(queue:\n",
        "fake": b'{"format": "rltune-model", "version": 99}',
        "nodes": b"NodeName=a1 CPUTot=4 RealMemory=1000\n",
        "started": b"submit_s,duration_s,gpus,recorded_start_s\n0,100,2,0\n1,50,1,100\n2,10,1,100\n",
        "guesses_text": b"id,estimate_s\n0,long\n1,5\n2,5\n",
        "guesses_nan": b"id,estimate_s\n0,nan\n1,5\n2,5\n",
        "guesses_negative": b"id,estimate_s\n0,-1\n1,5\n2,5\n",
        "guesses_twice": b"id,estimate_s\n0,5\n0,6\n1,5\n2,5\n",
        "guesses_other": b"id,estimate_s\n77,5\n",
    }
    suffix = {"fake": ".rltune", "raises": ".py", "exits": ".py", "broken": ".py"}
    paths = {name: folder / f"{name}{suffix.get(name, '.csv')}" for name in made}
    for name, content in made.items():
        paths[name].write_bytes(content)
    (folder / "d.csv").mkdir()
    return {name: str(path) for name, path in paths.items()} | {"folder": str(folder)}


def fault_of(call: Call, names: dict[str, str]) -> tuple[str, str]:
    """Make a call; return what is wrong with how it ended, or nothing, and what it said."""
    folder = Path(names["folder"])
    before = _contents(folder)
    words = [word.format(**names) for word in call.words]
    with _at_most(TIME_S):
        result = CliRunner().invoke(app, words, prog_name="rltune")
    said = result.stderr.strip().splitlines()
    last = said[-1] if said else ""
    after = _contents(folder)
    faults = []
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        faults.append(f"traceback: {result.exception!r}")
    if result.exit_code not in CODES:
        faults.append(f"exit code {result.exit_code}")
    if result.stdout and not any(word.startswith(LATE) for word in words):
        faults.append(f"stdout: {result.stdout[:60]!r}")
    if not last.startswith("rltune: ") and call.words != ("trace",):
        faults.append(f"no sentence: {last[:80]!r}")
    if after != before:
        faults.append(f"files changed: {sorted(after.keys() ^ before.keys()) or 'contents'}")
    return "; ".join(faults), last


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@contextmanager
def _at_most(time_s: int) -> Iterator[None]:
    """End a call that goes on and on, as a server does."""

    def end(*_: object) -> None:
        raise TimeoutError(f"did not end in {time_s} s")

    signal.signal(signal.SIGALRM, end)
    signal.alarm(time_s)
    try:
        yield
    finally:
        signal.alarm(0)


def main() -> None:
    """Make all calls, or those that begin with a word."""
    number = failed = 0
    wanted = [word for word in sys.argv[1:] if not word.startswith("-")]
    for call in (call for call in calls() if not wanted or call.words[0] in wanted):
        with tempfile.TemporaryDirectory() as folder:
            names = make_files(Path(folder))
            fault, said = fault_of(call, names)
        number += 1
        failed += bool(fault)
        if fault or "--show" in sys.argv:
            mark = "FAILED" if fault else "ok"
            told = said.replace(f"{folder}/", "")
            sys.stdout.write(
                "\n         ".join(filter(None, (f"{mark:7}{' '.join(call.words)}", told[:220], fault))) + "\n"
            )
    sys.stdout.write(f"{number} bad calls, {failed} not refused as they should be\n")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
