from slurm_fixtures import (
    bed_folder,
    started_testbed,
    started_testbed_everywhere,
    started_testbed_of_any_release,
    started_testbed_with_database,
    started_testbed_with_database_everywhere,
    testbed,
    testbed_everywhere,
    testbed_of_any_release,
    testbed_with_database,
    testbed_with_database_everywhere,
)

__all__ = [
    "bed_folder",
    "started_testbed",
    "started_testbed_everywhere",
    "started_testbed_of_any_release",
    "started_testbed_with_database",
    "started_testbed_with_database_everywhere",
    "testbed",
    "testbed_everywhere",
    "testbed_of_any_release",
    "testbed_with_database",
    "testbed_with_database_everywhere",
]
