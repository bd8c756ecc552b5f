"""Traces of runs, by the semantic conventions of OpenTelemetry. Nothing here is imported unless
`OTEL_EXPORTER_OTLP_ENDPOINT` is set."""
