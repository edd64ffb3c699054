"""`rltune policies`: who runs next, by name."""

from rltune.cli.console import show, show_line
from rltune.cli.options import examples

EXAMPLES = examples("rltune policies", "rltune simulate synth:philly -c philly-slice -p mine.py:score")


def policies() -> None:
    """List the policies, and how to bring your own."""
    from rich.table import Table
    from rich.text import Text

    from rltune.policy import policy_table
    from rltune.policy.by_name import model_names

    table = Table("name", "score, lowest first", "source", box=None, padding=(0, 2, 0, 0))
    for policy in policy_table():
        table.add_row(*map(Text, (policy.name, policy.about, policy.source)))
    show(table)
    show_line("")
    show_line("r estimate of the run time in s, n GPUs, s submit time; more in docs/reference/policies.md")
    show_line(f"Learned, by a model that ships with the package: {', '.join(model_names())}; by your own: mine.rltune")
    show_line("Your own: --policy mine.py:score, where mine.py holds")
    show_line("")
    show_line("    def score(queue):                # a rltune.policy.QueueView: the waiting jobs, oldest first")
    show_line("        return queue.gpus * queue.estimate_s - 10 * queue.wait_s    # an array; lowest runs first")
