"""`python -m layover.cli`."""

from layover.cli.main import app

if __name__ == "__main__":
    app()
