"""`layover synth`, `layover deploy`, `layover destroy`: a project's stack, by the CDK's command line."""
