"""`python -m layover.desk.cli`."""

from layover.desk.cli.main import app

if __name__ == "__main__":
    app()
