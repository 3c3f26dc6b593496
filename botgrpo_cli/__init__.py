"""botgrpo: process-reward reinforcement learning for language models, with the bag of tokens."""

__version__ = "0.1.0"
