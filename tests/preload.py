"""What the processes that `program.py` forks have imported. Importing it must start no thread."""

import peft  # noqa: F401
import transformers.models.qwen2.modeling_qwen2  # noqa: F401

import botgrpo_cli.app
import botgrpo_cli.training.run  # noqa: F401
