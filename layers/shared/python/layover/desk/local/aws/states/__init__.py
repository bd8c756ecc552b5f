"""Step Functions on one machine: the part of the Amazon States Language that `infra/run.asl.json` may use.

moto's interpreter keeps its executions in threads, and forgets them with its process. Here a transition is a
row in the store: an execution goes on where it was.
"""
