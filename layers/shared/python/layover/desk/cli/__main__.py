"""`python -m layover.desk.cli`."""

from layover.desk.cli.main import run

if __name__ == "__main__":
    run()
