"""What every comparison shares: windows, contention, warm starts, pipelines, measures, intervals."""
