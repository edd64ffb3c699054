import pytest

from rltune import Cluster


def test_without_a_name_the_presets_are_listed(rltune):
    said = rltune("cluster", "show")
    assert said.code == 0
    assert all(name in said.out for name in Cluster.presets())


def test_show_tells_groups_limits_maintenance_and_outages(rltune, tmp_path):
    file = tmp_path / "c.toml"
    file.write_text(
        """
        about = "ours"
        [[group]]
        count = 4
        gpus = 8
        gpu_type = "A100"
        mem_gib = 512
        vc = "[research]"
        [speed]
        A100 = 2.0
        [[limit]]
        scope = "user"
        max_gpus = 16
        [[maintenance]]
        start_s = 0
        end_s = 3600
        [[outage]]
        node = 3
        down_s = 60
        """
    )
    out = rltune("cluster", "show", file).out
    for part in (
        "ours",
        "A100",
        "512 GiB",
        "[research]",
        "in all: 4 nodes, 32 GPUs, 1 group, 1 VC",
        "speed of A100: 2",
        "limit of each user: 16 GPUs",
        "maintenance: all groups, from 0 s to 3,600 s",
        "outage: node 3, from 60 s to inf s",
    ):
        assert part in out


def test_check_tells_the_size(rltune, cluster):
    assert rltune("cluster", "check", cluster).out == f"{cluster}: is a cluster of 1 node, 2 GPUs, 1 group\n"


@pytest.mark.parametrize(
    ("header", "groups"),
    [
        ("; MaxNodes: 338 (batch partition; 512 total)\n; MaxProcs: 338", [(338, 1)]),
        (";MaxProcs: 2004\n;MaxNodes: 151", [(41, 14), (110, 13)]),
        ("; MaxProcs: 64", [(64, 1)]),
        ("; MaxNodes: 12", [(12, 1)]),
    ],
)
def test_the_machine_of_an_swf_header_is_a_cluster(rltune, tmp_path, header, groups):
    (tmp_path / "log.swf").write_text(f"; Version: 2.2\n{header}\n 1 0 5 60 1 -1 -1 1 100 -1 1 1 1 -1 1 1 -1 -1\n")
    said = rltune("cluster", "import", tmp_path / "log.swf", "-o", tmp_path / "c.toml")
    assert said.code == 0, said.err
    assert [(g.count, g.gpus) for g in Cluster.from_toml(tmp_path / "c.toml").groups] == groups


def test_an_swf_header_without_a_machine_is_refused(rltune, tmp_path):
    (tmp_path / "log.swf").write_text("; Version: 2.2\n 1 0 5 60 1 -1 -1 1 100 -1 1 1 1 -1 1 1 -1 -1\n")
    said = rltune("cluster", "import", tmp_path / "log.swf", "-o", tmp_path / "c.toml")
    assert said.code != 0
    assert "MaxProcs" in said.err
    assert not (tmp_path / "c.toml").exists()


def test_a_cluster_of_another_size_than_the_logs_header_is_told(rltune, tmp_path):
    rows = "".join(f" {i} {i * 60} 5 60 1 -1 -1 1 100 -1 1 1 1 -1 1 1 -1 -1\n" for i in range(1, 40))
    (tmp_path / "log.swf").write_text(f"; MaxProcs: 64\n{rows}")
    for gpus, warned in ((64, False), (16, True)):
        (tmp_path / "c.toml").write_text(f"[[group]]\ncount = {gpus}\ngpus = 1\n")
        said = rltune("simulate", tmp_path / "log.swf", "-c", tmp_path / "c.toml")
        assert said.code == 0, said.err
        assert ("header tells of 64 processors" in " ".join((said.out + said.err).split())) is warned


@pytest.mark.parametrize(
    "printed",
    ["NodeName=a Gres=gpu:x:-1 CPUTot=1 RealMemory=1 State=IDLE\n", "; MaxProcs: 99999999999999\n"],
)
def test_what_is_no_cluster_is_not_written(rltune, tmp_path, printed):
    (tmp_path / "nodes.txt").write_text(printed)
    said = rltune("cluster", "import", tmp_path / "nodes.txt", "-o", tmp_path / "c.toml")
    assert said.code == 2, said.out
    assert not (tmp_path / "c.toml").exists()
