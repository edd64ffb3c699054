"""Which jobs of a queue are records: by their name, or by their text."""

from dataclasses import replace

import pytest
from live_cases import job

from rltune.live.see.backend import RECORD_NAME
from rltune.live.see.record_text import is_record
from rltune.live.slurm.record_jobs import parted

TEXT = "rltune/1;lock;host=h;pid=1"
RECORD = replace(job(7, 0), name=RECORD_NAME, comment=TEXT, held=True, user="op")


@pytest.mark.parametrize(
    ("more", "record"),
    [
        ({}, True),
        ({"comment": "what is this job?"}, True),  # overwritten
        ({"name": "whose"}, True),  # renamed
        ({"name": "whose", "held": False}, False),  # a user's job that happens to have such a comment
        ({"name": "whose", "comment": ""}, False),
        ({"state": "RUNNING"}, False),
    ],
)
def test_a_record_is_known_by_name_or_text(more, record):
    assert is_record(TEXT)
    jobs, records = parted([replace(RECORD, **more)])
    assert [one.id for one in (records if record else jobs)] == [7]
    assert len(jobs) + len(records) == 1
