"""The CDK app of Layover on AWS."""
