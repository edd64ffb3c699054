"""Which jobs taught the models that ship with the package, written on their cards; the weights stay as they are.

python benchmarks/rltune/shipped_lessons.py --traces DIR            # says what it finds
python benchmarks/rltune/shipped_lessons.py --traces DIR --write    # and writes it; some minutes on one core

DIR holds the public traces, in any folders: philly_jobs.csv.gz, venus_gpu_jobs.csv.gz and pai_tasks_sample.csv.gz. The
command on each card is run again for no generations: what it notes of its jobs is what the model's own run would have
noted. That these are the jobs is shown by the scaling of the inputs, which is measured on the validation part. Newer
models noted it when they were made.
"""

import argparse
import os
import shlex
import tempfile
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import slurm_model
from typer.testing import CliRunner

from rltune import Cluster
from rltune.cli import app
from rltune.learn.evolve import evolve_policy
from rltune.model.learned_model import Model
from rltune.model.model_file import SUFFIX, read_model, save_model

SHIPPED = Path(str(resources.files("rltune") / "model" / "shipped"))
SCRIPT = "slurm_model.py"
NEWER = ("anywhere",)  # noted what taught them when they were made
NOT_AGAIN = "its command gave other jobs when it was run again"


def begun_again(command: str) -> Model:
    """Run the command that made a model, for no generations."""
    words = shlex.split(command)
    if any(SCRIPT in word for word in words):
        cluster = Cluster.preset("slurm-five")
        steps = replace(slurm_model.PLAN.evolve, generations=0)
        plan = replace(slurm_model.PLAN, pool=1, evolve=steps)
        return evolve_policy([(slurm_model.workload(cluster), cluster)], plan, names=[slurm_model.TRACE]).model
    few = ["--generations", "0", "--pool", "1", "--windows", "1", "-o", "begun.rltune", "--force"]
    result = CliRunner().invoke(app, [*words[1:], *few])
    if result.exit_code:
        raise SystemExit(f"{command}: {result.output}")
    return read_model("begun.rltune")


def recovered(model: Model) -> Model:
    """Add to a model's card which jobs taught it, or say why that cannot be known."""
    begun = begun_again(model.card.command)
    same = begun.recipe == model.recipe and np.allclose(begun.norm, model.norm, rtol=1e-7, atol=0)
    if not same:
        print("  its scaling is another: largest difference", np.abs(begun.norm - model.norm).max())
        return model.with_card(lessons=None, unknown=NOT_AGAIN)
    entries = {name: getattr(begun.card, name) for name in ("trace", "estimators", "lessons", "unknown")}
    kept = {name: v for name, v in model.card.settings.items() if name not in begun.card.settings}
    return model.with_card(**entries, settings={**begun.card.settings, **kept})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--write", action="store_true", help="write the cards")
    parser.add_argument("--only", nargs="*", help="names of models; all, if not told")
    given = parser.parse_args()
    older = [path for path in sorted(SHIPPED.glob(f"*{SUFFIX}")) if path.stem not in NEWER]
    files = [path for path in older if not given.only or path.stem in given.only]
    with tempfile.TemporaryDirectory() as folder:
        for trace in given.traces.resolve().rglob("*.csv.gz"):
            (Path(folder) / trace.name).symlink_to(trace)
        os.chdir(folder)  # commands name traces without folders
        for path in files:
            model = read_model(path)
            print(path.stem, flush=True)
            made = recovered(model)
            print(f"  taught by {made.card.taught_by}", flush=True)
            assert made.sha256 == model.sha256, "what decides must stay as it is"
            if given.write:
                save_model(made, path)


if __name__ == "__main__":
    main()
