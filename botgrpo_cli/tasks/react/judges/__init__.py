"""What judges a component: a model behind an API, or a heuristic that says so."""
