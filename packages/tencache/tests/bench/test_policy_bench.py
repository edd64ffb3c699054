"""The benchmark measures every policy."""

from tencache import cli


def test_bench_gives_a_row_for_every_policy_and_link(capsys):
    options = ["--small", "--rounds", "1", "--links", "4GB/s", "--tokens", "16", "--budget", "40%"]
    assert cli.main(["bench", *options]) == 0
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split("|")[2].strip() for row in rows] == [
        "ahead",
        "zero3, late step",
        "zero3",
        "bucket",
        "lru",
        "ahead, within backward (clock)",
    ]
