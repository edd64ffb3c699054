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
