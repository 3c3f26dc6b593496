"""What a run leaves on disk: metrics.csv, samples.jsonl, manifest.json and events.log."""
