"""The headers that pages of other origins send to the API and read: both gateways and `layover dev` allow
these, and no other."""

_TRACES = (
    *("traceparent", "tracestate", "baggage"),
    "sentry-trace",
    *("b3", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags"),
    "uber-trace-id",
    *("x-datadog-trace-id", "x-datadog-parent-id", "x-datadog-origin"),
    *("x-datadog-sampling-priority", "x-datadog-tags"),
    "newrelic",
    "x-amzn-trace-id",
)
"""What the libraries that trace pages put into each of their requests: W3C, Sentry, Zipkin, Jaeger, Datadog,
New Relic, X-Ray. A header that no gateway allows is no trace that is lost, but a request."""
SENT = (
    *("authorization", "content-type", "idempotency-key", "last-event-id", "prefer"),
    *("mcp-method", "mcp-name", "mcp-protocol-version"),
    # The AI SDK sets it in its requests, and browsers other than Chrome then ask for it.
    "user-agent",
    *_TRACES,
)
READ = (
    *("location", "preference-applied", "retry-after", "www-authenticate"),
    *("x-layover-passed-over", "x-vercel-ai-ui-message-stream"),
)
