"""Random small clusters and workloads, drawn from coarse grids so that ties and full nodes happen often.

Every case has a handful of features and not the others: with all of them at once most jobs could never run.
"""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from rltune.cluster import Cluster, Limit, Maintenance, NodeGroup, Outage, Slowdown
from rltune.engine.guard import Guard
from rltune.engine.turns import Turns
from rltune.jobs import Jobs

BACKFILLS = ("none", "fit-first", "easy", "conservative", "whole-nodes", "shadow", "easy:sjf", "easy:saf")
PLACEMENTS = ("best-fit", "first-fit", "spread", "hierarchical", "exclusive", "slurm")
POLICIES = ("fcfs", "sjf", "srf", "saf", "wfp3", "unicep", "f1")
HEADS = ("pool", "global")

MACHINE = ("mixed", "types", "speeds", "vcs", "cpus", "memory", "no-gpus", "racks")  # features of what runs where
TIMES = ("zero", "wrong-estimates", "unsorted")
RULES = ("limits", "dependencies", "arrays")
TROUBLE = ("maintenance", "outages")
SLOW = ("slowdown",)  # only where it is asked for: it breaks the promises that rest on known lengths
WILLING = ("willing",)  # only where it is asked for: some jobs may be displaced
CLASSES = ("qos",)  # only where it is asked for: without limits and a guard it means nothing
FEATURES = (*MACHINE, "shapes", "huge", *TIMES, *RULES, *TROUBLE)

TYPES = ("A", "B", "C")
VCS = ("red", "blue", "green")
NAMES = ("a", "b")
SPEEDS = (0.5, 1.5, 2.0, 3.0)
SUBMITS = (0.0, 0.0, 1.0, 2.0, 4.0, 4.0, 6.0, 10.0, 12.0, 20.0, 32.0)
LENGTHS = (4.0, 1.0, 2.0, 8.0, 10.0, 20.0, 30.0)
SIZES = (1, 2, 4, 1, 2, 4, 3, 8, 6, 12)
HUGE = (16, 24, 30)


@dataclass(frozen=True)
class Case:
    """A workload, a cluster, and what is believed of the run times."""

    jobs: Jobs
    cluster: Cluster
    estimate_s: np.ndarray

    def __repr__(self) -> str:
        """Print what makes the case again, column by column."""
        table = {name: _column(self.jobs, name) for name in SHOWN}
        shown = {name: values for name, values in table.items() if any(v not in UNSAID for v in values)}
        after = [self.jobs.depends_on(i).tolist() for i in range(len(self.jobs))]
        return f"Case(jobs={shown}, after={after}, estimate_s={self.estimate_s.tolist()}, cluster={self.cluster})"

    def _repr_pretty_(self, printer, _cycle: bool) -> None:
        printer.text(repr(self))  # hypothesis would print every column of the table


SHOWN = (
    *("submit_s", "duration_s", "gpus", "nodes", "gpus_per_node", "cpus", "mem_gib"),
    *("vc", "user", "account", "qos", "gpu_types", "array", "array_limit"),
    *("preemptible", "checkpoint_s", "restart_s"),
)
UNSAID = (0, None, "nan", -1)  # values that a column may leave out


def _column(jobs: Jobs, name: str) -> list:
    column = getattr(jobs, name)
    values = column.to_list() if hasattr(column, "to_list") else column.tolist()
    return ["nan" if v != v else v for v in values]  # noqa: PLR0124  NaN alone differs from itself


def sometimes(strategy, otherwise=None):
    """Give the plain value first, so that shrinking takes the feature away."""
    return st.one_of(st.just(otherwise), strategy)


def only_with(on: bool, strategy, otherwise=None):
    return strategy if on else st.just(otherwise)


# clusters


def groups(has: set[str]):
    sizes = (4, 2, 8, 0) if "no-gpus" in has else (4, 2, 8)
    return st.builds(
        NodeGroup,
        count=st.sampled_from((1, 3, 4, 5)) if "racks" in has else st.integers(1, 3),
        nodes_per_rack=only_with("racks" in has, st.sampled_from((2, 0, 3)), 0),
        rack=only_with("racks" in has, st.sampled_from(("", "", "east")), ""),
        gpus=st.sampled_from(sizes if "mixed" in has else (4,)),
        gpu_type=only_with("types" in has, st.sampled_from(("", *TYPES)), ""),
        cpus=only_with("cpus" in has, sometimes(st.sampled_from((4.0, 8.0, 7.0)))),
        mem_gib=only_with("memory" in has, sometimes(st.sampled_from((16.0, 32.0, 10.5)))),
        vc=only_with("vcs" in has, st.lists(st.sampled_from(VCS), unique=True, max_size=2).map(tuple), ()),
    )


def limits():
    few = sometimes(st.sampled_from((1, 2, 3, 0)))
    return st.builds(
        Limit,
        scope=st.sampled_from(("user", "account", "vc", "qos")),
        name=st.sampled_from(("*", "*", "a", "red")),
        max_gpus=sometimes(st.sampled_from((4, 8, 2, 12, 0))),
        max_running=few,
        max_submitted=few,
    )


@st.composite
def windows(draw, group_count: int):
    start = draw(st.sampled_from((4.0, 10.0, 20.0, 30.0)))
    named = draw(st.lists(st.integers(0, group_count - 1), unique=True, max_size=2))
    return Maintenance(start_s=start, end_s=start + draw(st.sampled_from((2.0, 6.0, 20.0))), groups=tuple(named))


@st.composite
def outages(draw, node_count: int):
    down = draw(st.sampled_from((3.0, 0.0, 5.0, 8.0, 12.0, 25.0)))
    lasts = draw(st.sampled_from((1.0, 5.0, 20.0, 60.0, float("inf"))))
    return Outage(node=draw(st.integers(0, node_count - 1)), down_s=down, up_s=down + lasts)


def slowdowns():
    factor = st.sampled_from((1.0, 1.5, 1.1))
    return st.builds(Slowdown, extra_rack=factor, cpu_contention=factor, mem_contention=factor)


@st.composite
def clusters(draw, has: set[str]):
    made = tuple(draw(st.lists(groups(has), min_size=1, max_size=4 if has & {"types", "vcs", "mixed"} else 2)))
    types = sorted({g.gpu_type for g in made} - {""})
    nodes = sum(g.count for g in made)
    speeds = st.dictionaries(st.sampled_from(types or [""]), st.sampled_from(SPEEDS), max_size=len(types))
    return Cluster(
        groups=made,
        speed=draw(only_with("speeds" in has, speeds, {})),
        limits=tuple(draw(only_with("limits" in has, st.lists(limits(), min_size=1, max_size=3), ()))),
        maintenance=tuple(draw(only_with("maintenance" in has, st.lists(windows(len(made)), max_size=2), ()))),
        slowdown=draw(only_with("slowdown" in has, slowdowns(), Slowdown())),
        outages=tuple(draw(only_with("outages" in has, st.lists(outages(nodes), min_size=1, max_size=4), ()))),
    )


# workloads


@st.composite
def workloads(draw, has: set[str], cluster: Cluster, max_jobs: int = 25):
    n = draw(st.integers(1, max_jobs))

    def column(values):
        return draw(st.lists(values, min_size=n, max_size=n))

    sizes = (*SIZES, *((0, 0) if "no-gpus" in has else ()), *(HUGE if "huge" in has else ()))
    gpus = np.array(column(st.sampled_from(sizes)))
    submits = column(st.sampled_from(SUBMITS))
    return Jobs.from_arrays(
        submit_s=submits if "unsorted" in has else sorted(submits),
        duration_s=column(st.sampled_from((*LENGTHS, 0.0, 0.0) if "zero" in has else LENGTHS)),
        gpus=gpus,
        **_shape_columns(column, gpus, has),
        **_other_columns(column, has, cluster),
        **_tied_columns(column, draw, has, n),
    )


def _shape_columns(column, gpus: np.ndarray, has: set[str]) -> dict:
    if "shapes" not in has:
        return {}
    nodes = np.array(column(st.sampled_from((0, 0, 0, 1, 2, 3))))
    return {
        "nodes": np.where(gpus > 0, np.minimum(nodes, gpus), nodes),
        "gpus_per_node": column(st.sampled_from((0, 0, 0, 1, 2, 4, 3))),
    }


def _other_columns(column, has: set[str], cluster: Cluster) -> dict:
    columns = {}
    if "types" in has:
        known = st.sampled_from((*(cluster.gpu_types or ("A",)), "A", "a"))
        columns["gpu_types"] = column(sometimes(st.lists(known, min_size=1, max_size=2)))
    if has & {"vcs", "limits"}:
        columns["vc"] = column(sometimes(st.sampled_from((*(cluster.vcs or ("red",)), "red", "Red"))))
    if "limits" in has:
        columns |= {scope: column(sometimes(st.sampled_from(NAMES))) for scope in ("user", "account", "qos")}
    if "qos" in has:
        columns["qos"] = column(sometimes(st.sampled_from(NAMES)))
    if has & {"cpus", "no-gpus"}:
        columns["cpus"] = column(sometimes(st.sampled_from((1.0, 2.0, 3.5, 0.0, 8.0)), np.nan))
    if "willing" in has:
        columns["preemptible"] = column(st.sampled_from((True, True, False)))
        columns["checkpoint_s"] = column(st.sampled_from((0.0, 2.0, 5.0, 0.3, np.inf)))
        columns["restart_s"] = column(st.sampled_from((0.0, 1.0, 3.0)))
    if "memory" in has:
        columns["mem_gib"] = column(sometimes(st.sampled_from((1.0, 4.0, 9.25, 0.0, 32.0)), np.nan))
    return columns


def _tied_columns(column, draw, has: set[str], n: int) -> dict:
    columns = {}
    if "dependencies" in has:
        keep = column(st.sampled_from((False, False, True)))
        rows = [draw(st.lists(st.integers(0, max(0, i - 1)), min_size=1, max_size=2, unique=True)) for i in range(n)]
        columns["after"] = [r if i and kept else [] for i, (r, kept) in enumerate(zip(rows, keep, strict=True))]
    if "arrays" in has:
        throttle = draw(st.tuples(*[st.sampled_from((1, 2, 0))] * 2))  # of arrays 1 and 2
        columns["array"] = column(st.sampled_from((-1, 1, 1, 2)))
        columns["array_limit"] = [throttle[a - 1] if a > 0 else 0 for a in columns["array"]]
    return columns


@st.composite
def estimates(draw, has: set[str], jobs: Jobs):
    """Believe the truth, or for every job too little, the truth or too much."""
    if "wrong-estimates" not in has:
        return jobs.duration_s.copy()
    factors = draw(st.lists(st.sampled_from((1.0, 0.5, 2.0, 0.25, 5.0)), min_size=len(jobs), max_size=len(jobs)))
    return jobs.duration_s * np.array(factors)


def guards():
    """Draw a grace that some jobs of a case outwait and others do not, and whose jobs come first."""
    return st.builds(
        Guard,
        hours=sometimes(st.sampled_from((0.0, 5 / 3600, 10 / 3600, 1.0))),
        times=sometimes(st.sampled_from((1.0, 0.0, 0.5, 3.0))),
        sla=st.sampled_from(((), (), ("a",), ("a", "b"))),
    )


def turns(orders: tuple[str, ...] = ("srsf", "policy", "las")):
    """Draw how jobs take turns, so that some do in a case."""
    return st.builds(
        Turns,
        order=st.sampled_from(orders),
        min_run_s=st.sampled_from((0.0, 1.0, 4.0)),
        max_preemptions=st.sampled_from((5, 1, 2, 0)),
        turn_s=st.sampled_from((300.0, 1.0, 3.0)),
        margin=st.sampled_from((2.0, 1.0)),
        cost_once=st.sampled_from((1.0, 0.0)),
        cost_each=st.sampled_from((0.0, 0.5, 1.0)),
        late_s=st.sampled_from((86400.0, np.inf)),
        gain=st.sampled_from((np.inf, 1.0, 4.0)),
    )


@st.composite
def cases(draw, without: tuple[str, ...] = (), always: tuple[str, ...] = (), max_jobs: int = 25):
    """Draw a case with some of the features: `always` these, never those of `without`."""
    allowed = [f for f in FEATURES if f not in without]
    some = draw(st.lists(st.sampled_from(allowed), unique=True, min_size=2, max_size=6)) if allowed else []
    has = {*some, *always}
    cluster = draw(clusters(has))
    jobs = draw(workloads(has, cluster, max_jobs))
    return Case(jobs, cluster, draw(estimates(has, jobs)))


@st.composite
def joined_cases(draw):
    """Draw a crowd for a few types of node, of which some jobs accept several: starts split pools."""
    made = tuple(NodeGroup(count=draw(st.integers(1, 2)), gpus=4, gpu_type=name) for name in TYPES)
    few = draw(sometimes(st.builds(Limit, scope=st.just("user"), name=st.just("*"), max_running=st.integers(1, 3))))
    n = draw(st.integers(4, 20))

    def column(values):
        return draw(st.lists(st.sampled_from(values), min_size=n, max_size=n))

    jobs = Jobs.from_arrays(
        submit_s=sorted(column((0.0, 0.0, 1.0, 3.0))),
        duration_s=column(LENGTHS),
        gpus=column((1, 2, 4, 4, 3)),
        gpu_types=column((["A"], ["B"], ["C"], ["A", "B"], ["B", "C"], None)),
        user=column((None, *NAMES)),
    )
    cluster = Cluster(groups=made, limits=() if few is None else (few,))
    return Case(jobs, cluster, draw(estimates(draw(st.sampled_from((set(), {"wrong-estimates"}))), jobs)))
