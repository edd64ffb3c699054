"""Who is next: rules, features, the network, and bounds on overtaking."""
