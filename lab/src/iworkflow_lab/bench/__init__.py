"""What the port costs and gains, measured against the bare engine."""
