"""`layover synth`, `diff`, `deploy` and `destroy`: a project's stack, by the CDK's command line."""
