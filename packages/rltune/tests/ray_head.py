"""A Ray cluster of two workers on 127.0.0.1, for tests: prints its address, and lives until its stdin is closed."""

import sys

import ray

if __name__ == "__main__":
    made = ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        object_store_memory=100 * 2**20,
        _temp_dir=sys.argv[1],
    )
    sys.stdout.write(made.address_info["gcs_address"] + "\n")
    sys.stdout.flush()
    sys.stdin.read()
