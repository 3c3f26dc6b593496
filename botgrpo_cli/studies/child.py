"""What a study starts for each run: the `botgrpo` command, ended by the end of whoever started it.

Standard input is a pipe that the starter holds open and never writes to. When the starter is gone, by whatever means,
the pipe ends, and the run is told to stop; it saves its state as after Ctrl-C. So a killed study leaves nothing behind
that would write into the folders of the next one.
"""

from __future__ import annotations

import os
import signal
import sys
import threading


def end_with_the_starter() -> None:
    """Ends this process, as SIGTERM does, once standard input ends."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="starter", daemon=True).start()


if __name__ == "__main__":
    end_with_the_starter()
    from botgrpo_cli.app import main

    main(sys.argv[1:])
