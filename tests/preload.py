"""What the processes that `program.py` forks have imported. Nothing here may start a thread or read the environment."""

import peft  # noqa: F401
import transformers.models.qwen2.modeling_qwen2  # noqa: F401

import botgrpo_cli.app
import botgrpo_cli.training.run  # noqa: F401
