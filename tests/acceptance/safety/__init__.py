"""Safety, attacked for real: kills at random instants, and deliveries without end."""
