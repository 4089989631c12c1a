"""``python -m pesn`` is the ``pesn`` command."""

from pesn.cli import main

if __name__ == "__main__":
    main()
