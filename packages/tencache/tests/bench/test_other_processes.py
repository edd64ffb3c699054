"""Other processes are told from this one."""

import subprocess
import sys

from tencache.bench.other_processes import others_busy_s

BURN = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass"


def test_what_others_use_is_seen():
    before = others_busy_s()
    subprocess.run([sys.executable, "-c", BURN], check=True)
    assert others_busy_s() - before >= 0.35
