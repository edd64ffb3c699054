"""A service over HTTP: what waits, why and since when, for people, programs and Prometheus. It changes nothing."""
