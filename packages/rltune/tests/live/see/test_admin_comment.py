from dataclasses import replace

from rltune.live.see.admin_comment import JobNotice, is_ours

NOTICE = JobNotice(3, 120, 17, "SiteFactor 4210, expected run time 30 min", "saf", 17, "head1")


def test_a_notice_is_read_as_it_was_written():
    """It says who, why and where, and knows itself again."""
    text = str(NOTICE)
    assert text.startswith("rltune: place 3 of 120, 17 by Slurm alone; SiteFactor 4210")
    assert is_ours(text)
    assert JobNotice.read(text) == NOTICE


def test_nothing_in_a_notice_can_end_the_command():
    """Quotes, semicolons and line ends of a policy's name are replaced."""
    hostile = str(replace(NOTICE, by='x"; scancel 1\n'))
    assert not set(hostile) & set("\"'\n\\")
    assert JobNotice.read(hostile).by == "x__ scancel 1_"


def test_an_administrators_comment_is_not_ours():
    """Nor is one that only mentions us."""
    assert not is_ours("moved by hand, rltune: no")
    assert JobNotice.read("rltune: something older") is None
