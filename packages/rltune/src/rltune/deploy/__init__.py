"""Files for a service: a systemd unit and its settings."""
