"""DynamoDB, S3, Step Functions and EventBridge on one machine, by moto."""
