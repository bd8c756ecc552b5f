"""`python -m layover.cli`: the command `layover`, where it is not on the PATH. It all lives in
`layover.desk.cli`."""

from layover.desk.cli.main import run

if __name__ == "__main__":
    run()
