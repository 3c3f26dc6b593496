"""Libraries that talk to their own users: what they print is kept for `-v`."""

from __future__ import annotations

import logging
import warnings

from transformers.utils import logging as transformers_logging


def silence() -> None:
    """No warnings, no messages below errors, no bars of TRL and of what it stands on, from here on."""
    warnings.simplefilter("ignore")
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    for name in ("trl", "accelerate", "datasets"):
        logging.getLogger(name).setLevel(logging.ERROR)
