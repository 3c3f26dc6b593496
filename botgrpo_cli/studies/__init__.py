"""Studies: several recipes side by side, as one figure. What `botgrpo ablate` does with a recipes/studies/*.yaml."""
