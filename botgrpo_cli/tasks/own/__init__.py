"""A task from a person's own file: prompts from a data file, rewards from plain functions."""
