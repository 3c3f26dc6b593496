"""`python -m botgrpo_cli` is the `botgrpo` command."""

from botgrpo_cli.app import main

main()
