"""Where Layover runs on AWS, as a CDK app."""
