"""Tool calls: execution, approval, suspension, cancellation."""
