"""Questions about long conversations: memory learns from these, a model answers, and a judge compares the
answers with those that are known (docs/evaluation.md#qa)."""
